"""A program that shows no log is told of an outage on standard error."""

from __future__ import annotations

import sys
from io import StringIO
from types import SimpleNamespace
from typing import Any
from unittest import mock

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.cluster import last_resort
from logbus.client.cluster.cluster import Cluster
from tests.client.memory_cluster import MemoryCluster


class LastResortTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.brokers = MemoryCluster()
        self.brokers.nodes = set()
        self.printed = StringIO()
        self.patch(sys, "stderr", self.printed)

    def outage(self, *, is_begun: bool, reactor: Any) -> str:
        """What is printed for an outage that ends, in a process with this reactor, whose logging has begun or not."""
        self.patch(last_resort, "globalLogBeginner", SimpleNamespace(_temporaryObserver=None if is_begun else object()))
        modules = mock.patch.dict(sys.modules, {"twisted.internet.reactor": reactor})
        modules.start()
        self.addCleanup(modules.stop)
        cluster = Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint)
        for nodes in (set(), set(), {1}):
            self.brokers.nodes = nodes
            asked = cluster.refresh()
            self.brokers.settle(1)
            asked.addErrback(lambda _: None)
        return self.printed.getvalue()

    def test_hidden_log(self) -> None:
        """Both lines are there, once each."""
        begun, over = self.outage(is_begun=False, reactor=self.brokers.clock).splitlines()
        self.assertEqual(begun, "logbus.client: cannot connect to b1:9092: connection refused")
        self.assertRegex(over, r"^logbus.client: connected to b1:9092 again, after \d+ s and 2 failed attempts$")

    def test_logging_has_begun(self) -> None:
        """A program's own log has the lines, and nothing else does."""
        self.assertEqual(self.outage(is_begun=True, reactor=self.brokers.clock), "")

    def test_reactor_of_others(self) -> None:
        """On a reactor that is not the process's own nothing is printed: whoever made it has the log."""
        self.assertEqual(self.outage(is_begun=False, reactor=Clock()), "")

    def test_no_standard_error(self) -> None:
        """A process without one, such as a daemon, is not disturbed."""
        self.patch(sys, "stderr", None)
        self.assertEqual(self.outage(is_begun=False, reactor=self.brokers.clock), "")
