"""The keys of tiered storage together, as Kafka checks them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.config.config_view import ConfigView
from logbus.errors import ConfigError

ENABLED = {"remote.log.storage.system.enable": "true", "remote.log.storage.uri": "s3://bucket/logs"}
TIERED = {"remote.storage.enable": "true"}


class RemoteStorageTests(SynchronousTestCase):
    """Topics with remote storage."""

    def refused(self, overrides: dict[str, str]) -> str:
        """The error of a topic's overrides."""
        view = ConfigView.load(ENABLED)
        return str(self.assertRaises(ConfigError, view.validate_topic_overrides, {**TIERED, **overrides}))

    def test_overrides(self) -> None:
        """Compaction is refused, and local retention beyond the whole."""
        self.assertIn("cleanup.policy=compact; accepted: delete", self.refused({"cleanup.policy": "compact"}))
        self.assertIn("cleanup.policy=compact,delete;", self.refused({"cleanup.policy": "compact,delete"}))
        self.assertIn(
            "local.retention.ms=101 must not exceed retention.ms=100",
            self.refused({"retention.ms": "100", "local.retention.ms": "101"}),
        )
        self.assertIn(
            "-2 stands for retention.bytes", self.refused({"retention.bytes": "9", "local.retention.bytes": "-1"})
        )
        self.assertIn("local.retention.ms", self.refused({"local.retention.ms": "-3"}))
        view = ConfigView.load(ENABLED)
        for overrides in ({"retention.ms": "-1", "local.retention.ms": "-1"}, {"local.retention.ms": "5"}, {}):
            view.validate_topic_overrides({**TIERED, **overrides})

    def test_defaults(self) -> None:
        """Local retention is the whole one by default, and while nothing is copied."""
        view = ConfigView.load(ENABLED)
        given = {**TIERED, "retention.ms": "100", "retention.bytes": "200", "local.retention.bytes": "50"}
        local = view.topic_config(given).local()
        self.assertEqual((local.retention_ms, local.retention_bytes), (100, 50))
        self.assertEqual(view.topic_config({**given, "remote.log.copy.disable": "true"}).local().retention_bytes, 200)

    def test_changes(self) -> None:
        """It is turned on only where the brokers have it, and off only with the deletion of what is in the store."""
        view = ConfigView.load(ENABLED)
        view.validate_topic_change({}, TIERED)
        error = self.assertRaises(ConfigError, view.validate_topic_change, TIERED, {})
        self.assertIn("remote.log.delete.on.disable=true", str(error))
        view.validate_topic_change(TIERED, {"remote.log.delete.on.disable": "true"})
        without = ConfigView.load({})
        error = self.assertRaises(ConfigError, without.validate_topic_change, {}, TIERED)
        self.assertIn("needs brokers with remote.log.storage.system.enable=true", str(error))
        without.validate_topic_change(TIERED, TIERED)

    def test_options(self) -> None:
        """The options of a store are a JSON object, whose text shows in no error."""
        error = self.assertRaises(ConfigError, ConfigView.load, {"remote.log.storage.options": '["secret"]'})
        self.assertIn("a JSON object", str(error))
        self.assertNotIn("secret", str(error))
