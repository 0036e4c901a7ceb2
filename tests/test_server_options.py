"""Tests that the options of ``twistd logbus`` refuse security settings that are not enforced."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from twisted.trial.unittest import SynchronousTestCase

from logbus.config import keys
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


class FileTests(SynchronousTestCase):
    """What the broker says of ``server.properties``."""

    def test_repeated_key(self) -> None:
        """The last value counts, as in Kafka, and the log names both lines; the same value again is no matter."""
        directory = TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = Path(directory.name, "server.properties")
        path.write_text("broker.id=3\nlog.dirs=/a\n\nbroker.id=3 \nlog.dirs=/b\n")
        options = Options()
        options.parseOptions(["--config", str(path)])
        config = load(options)[0]
        self.assertEqual(config.get(keys.LOG_DIRS), ("/b",))
        self.assertEqual(
            config.warnings, (f"{path}, line 5: log.dirs is set in line 2 already; the last value counts",)
        )
