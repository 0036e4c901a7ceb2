"""Tests of :mod:`logbus.cli.commands.metadata`."""

from __future__ import annotations

from unittest.mock import patch

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli import app
from logbus.cli.commands.metadata import opened
from logbus.cli.runner import CommandFailed


@define
class SlowStore:
    """A store that is opened when the test says so."""

    path: str = "ZooKeeper at zoo:2181"
    complaint: str = "connection refused"
    opening: Deferred[None] = field(factory=Deferred)

    def open(self) -> Deferred[None]:
        return self.opening


class OpenedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.store = SlowStore()
        self.said: list[str] = []
        self.enterContext(patch.object(app, "print_error", self.said.append))
        self.waiting = Deferred.fromCoroutine(opened(self.store, self.clock))

    def test_late(self) -> None:
        """After five seconds it is said what does not answer, and after half a minute that is the error."""
        self.clock.advance(4.9)
        self.assertEqual(self.said, [])
        self.clock.advance(0.1)
        self.assertEqual(
            self.said, ["ZooKeeper at zoo:2181 has not answered for 5 s (connection refused); still waiting"]
        )
        self.clock.advance(25)
        error = self.failureResultOf(self.waiting, CommandFailed)
        self.assertEqual(str(error.value), "ZooKeeper at zoo:2181 does not answer (connection refused)")

    def test_in_time(self) -> None:
        """Nothing is said, and nothing waits."""
        self.store.opening.callback(None)
        self.successResultOf(self.waiting)
        self.assertEqual((self.said, self.clock.getDelayedCalls()), ([], []))
