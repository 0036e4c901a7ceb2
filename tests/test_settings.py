"""Tests of :mod:`logbus.settings`."""

from __future__ import annotations

import resource

from twisted.trial.unittest import SynchronousTestCase

from logbus.config import ConfigView
from logbus.settings import connection_ledger, most_connections, most_open_files, most_unsynced_files


class ConnectionTests(SynchronousTestCase):
    """Limits on connections."""

    def test_they_follow_the_configuration(self) -> None:
        """Limits that are changed while the broker runs hold for the next connection."""
        config = ConfigView.load(set={"max.connections.per.ip": "2"})
        ledger = connection_ledger(config, ["kafka"])
        ledger.enter("10.0.0.1", "kafka")
        self.assertIsNone(ledger.problem("10.0.0.1", "kafka"))
        config.update(cluster={"max.connections.per.ip": "1"})
        self.assertIn("max.connections.per.ip is 1", str(ledger.problem("10.0.0.1", "kafka")))
        config.update(cluster={"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "10.0.0.1:9"})
        self.assertIsNone(ledger.problem("10.0.0.1", "kafka"))
        config.update(cluster={"max.connections": "1"})
        self.assertIn("max.connections is 1", str(ledger.problem("10.0.0.2", "kafka")))

    def test_a_listener_has_a_limit_of_its_own(self) -> None:
        """``listener.name.<name>.max.connections`` bounds one listener, the others have what is left."""
        config = ConfigView.load(set={"listener.name.clients.max.connections": "1"})
        ledger = connection_ledger(config, ["clients", "brokers"])
        ledger.enter("10.0.0.1", "clients")
        self.assertIn("of this listener", str(ledger.problem("10.0.0.2", "clients")))
        self.assertIsNone(ledger.problem("10.0.0.2", "brokers"))

    def test_descriptors_are_shared(self) -> None:
        """However few files the process may open, logs and connections have some, and something is left."""
        for soft in (256, 1024, 4096, 65_536):
            self.patch(resource, "getrlimit", lambda which, soft=soft: (soft, soft))
            self.assertGreaterEqual(most_connections(), soft // 4)
            self.assertLessEqual(most_open_files() + most_connections(), soft - min(256, soft // 4))
            self.assertLess(most_open_files(), most_unsynced_files())
            self.assertLess(most_unsynced_files(), soft)
