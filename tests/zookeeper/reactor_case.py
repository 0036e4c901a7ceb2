"""Test cases with a reactor of their own, for real sockets and threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logbus.metastore.connect_string import ConnectString
from logbus.metastore.zookeeper_store import ZooKeeperStore
from logbus.testing.private_reactor import close_reactor, private_reactor
from logbus.testing.zookeeper import ZooKeeper

SECONDS = 120.0

_ROOTS = count(1)


class PumpedTestCase(SynchronousTestCase):
    """The reactor runs while the test waits for something, and at no other time."""

    zookeeper: ZooKeeper
    _reactor: Any = None

    @property
    def reactor(self) -> Any:
        """A reactor of this test's own."""
        if self._reactor is None:
            self._reactor = private_reactor()
            self.addCleanup(close_reactor, self._reactor)
        return self._reactor

    def wait_until(self, condition: Callable[[], object], what: str = "it") -> None:
        """Run the reactor until ``condition`` holds."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"{what} did not come about")
            self.reactor.iterate(0.01)

    def outcome(self, deferred: Deferred[Any]) -> Any:
        """The result of a Deferred, or its Failure, when there is one."""
        results: list[Any] = []
        deferred.addBoth(results.append)
        self.wait_until(lambda: results, "an answer")
        return results[0]

    def successResultOf(self, deferred: Any) -> Any:
        """The result of a Deferred, when there is one."""
        result = self.outcome(deferred)
        if isinstance(result, Failure):
            result.raiseException()
        return result

    def failureResultOf(self, deferred: Any, *expected: Any) -> Any:
        """The failure of a Deferred, of one of these types."""
        result = self.outcome(deferred)
        self.assertIsInstance(result, Failure)
        if expected:
            self.assertIsNotNone(result.check(*expected), result)
        return result

    def client(self, connect: str | None = None, session_timeout: float = 10.0) -> ZooKeeperStore:
        """A store that is not open yet, and will be closed."""
        store = ZooKeeperStore(ConnectString.parse(connect or self.root), self.reactor, session_timeout)
        self.addCleanup(lambda: self.successResultOf(store.close()))
        return store

    def opened(self, connect: str | None = None, session_timeout: float = 10.0) -> ZooKeeperStore:
        """A store with a session."""
        store = self.client(connect, session_timeout)
        self.successResultOf(store.open())
        return store

    @property
    def root(self) -> str:
        """A connect string with a chroot that no other test has."""
        if not hasattr(self, "_root"):
            self._root = f"{self.zookeeper.connect}/tests/{next(_ROOTS)}"
        return self._root
