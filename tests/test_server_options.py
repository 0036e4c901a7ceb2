"""Tests that the options of ``twistd logbus`` refuse security settings that are not enforced."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ConfigError
from logbus.ilogbus import Listener
from logbus.server_options import Options, load


def listeners(*settings: str) -> list[Listener]:
    """Where a broker with these settings would listen."""
    options = Options()
    options.parseOptions([word for setting in settings for word in ("--set", setting)])
    return load(options)[1]


class AbsentProtectionTests(SynchronousTestCase):
    """Settings with which Kafka would require authentication."""

    def test_protected_nodes_are_refused(self) -> None:
        """Without credentials nobody could be told from the broker, and the nodes in ZooKeeper would be open."""
        error = self.assertRaises(ConfigError, listeners, "zookeeper.set.acl=true")
        self.assertIn("zookeeper.set.acl", str(error))

    def test_plain_listeners_of_any_name_are_fine(self) -> None:
        """A file of Kafka's with plain listeners starts a broker."""
        found = listeners("listeners=CLIENTS://127.0.0.1:9093", "listener.security.protocol.map=CLIENTS:PLAINTEXT")
        self.assertEqual(found[0].name, "CLIENTS")
