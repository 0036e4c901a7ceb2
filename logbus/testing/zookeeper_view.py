"""
Reads ZooKeeper for tests, and waits for changes there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from logbus.testing.waiting import WaitTimedOut

T = TypeVar("T")

READ_SECONDS = 5.0


class ZooKeeperView:
    """
    A client of ZooKeeper that only looks.

    :param connect: servers and chroot.
    :param timeout: default timeout of :meth:`wait_for`, in seconds.
    """

    def __init__(self, connect: str, timeout: float = 120.0) -> None:
        from kazoo.client import KazooClient
        from kazoo.retry import KazooRetry

        self.timeout = timeout
        self._changed = threading.Event()
        self._connected = threading.Event()
        retry = KazooRetry(max_tries=-1, delay=0.05, max_delay=0.2)
        self._client: Any = KazooClient(connect, timeout=10.0, connection_retry=retry)
        self._client.add_listener(self._session_moved)
        self._client.start(timeout)

    def close(self) -> None:
        """Hang up."""
        self._client.stop()
        self._client.close()

    def get(self, path: str) -> bytes | None:
        """What a node holds; None: it is not there.  As :meth:`read`."""
        found = self.read(path)
        return None if found is None else found[0]

    def read(self, path: str) -> tuple[bytes, Any] | None:
        """
        What a node holds, and its stat; None: it is not there.

        :raise kazoo.exceptions.KazooException: ZooKeeper did not answer within the time-out, over several connections.
        """
        from kazoo.exceptions import NoNodeError

        # A node that is missing is watched for, too.
        if self._ask(lambda: self._client.exists_async(path, self._moved)) is None:
            return None
        try:
            data, stat = self._ask(lambda: self._client.get_async(path))
        except NoNodeError:
            return None
        return data, stat

    def children(self, path: str) -> list[str]:
        """Names of a node's children; none if it does not exist.  As :meth:`read`."""
        from kazoo.exceptions import NoNodeError

        try:
            found: list[str] = self._ask(lambda: self._client.get_children_async(path, self._moved))
        except NoNodeError:
            self._ask(lambda: self._client.exists_async(path, self._moved))
            return []
        return sorted(found)

    def wait_for(self, condition: Callable[[], T | None], what: str, timeout: float | None = None) -> T:
        """
        The result of ``condition`` as soon as it is true; it is called again when the nodes that it read change.

        :raise WaitTimedOut: it did not become true; ``what`` is what the message says.
        """
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError

        seconds = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + seconds
        while True:
            self._changed.clear()
            try:
                found = condition()
            except (KazooException, KazooTimeoutError):
                pass  # ZooKeeper is away; its return is a change.
            else:
                if found:
                    return found
            left = deadline - time.monotonic()
            if left <= 0:
                raise WaitTimedOut(f"{what} did not come about within {seconds:g} s")
            # A node that was not read because ZooKeeper was slow is not watched, either.
            self._changed.wait(min(left, 1.0))

    def _ask(self, read: Callable[[], Any]) -> Any:
        """
        What a read answers.  It is sent again when its connection or session ends before that, as happens to one that
        reached ZooKeeper while it came up: kazoo waits for the answer to its handshake as long as the session lasts.
        """
        from kazoo.exceptions import KazooException, NoNodeError
        from kazoo.handlers.threading import KazooTimeoutError

        deadline = time.monotonic() + self.timeout
        while True:
            try:
                return read().get(True, READ_SECONDS)
            except NoNodeError:
                raise
            except (KazooException, KazooTimeoutError):
                if time.monotonic() > deadline:
                    raise
                self._connected.wait(1.0)

    def _session_moved(self, state: str) -> None:
        if state == "CONNECTED":
            self._connected.set()
        else:
            self._connected.clear()
        self._changed.set()

    def _moved(self, event: object) -> None:
        self._changed.set()
