"""Tests of :mod:`logbus.config.describe_configs`."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.config import ConfigView, Source
from logbus.config.describe_configs import ConfigEntry, describe_broker, describe_cluster, describe_topic
from logbus.config.key_table import BROKER_KEYS, TOPIC_KEYS
from logbus.config.kinds import ConfigType


def only(entries: list[ConfigEntry]) -> ConfigEntry:
    """The one entry there is."""
    (entry,) = entries
    return entry


class DescribeTests(SynchronousTestCase):
    """Entries for DescribeConfigs."""

    def test_all_keys_are_listed(self) -> None:
        """Clients that read, modify and write need every key, defaults included."""
        view = ConfigView.load()
        self.assertEqual([entry.name for entry in describe_broker(view)], list(BROKER_KEYS))
        topic = describe_topic(view, {})
        self.assertEqual([entry.name for entry in topic], list(TOPIC_KEYS))
        self.assertTrue(all(entry.is_default and entry.source == 5 for entry in topic))

    def test_round_trip(self) -> None:
        """A topic's described values are valid overrides that change nothing."""
        view = ConfigView.load({"log.retention.hours": "3", "log.cleanup.policy": "compact"})
        described = {entry.name: entry.value or "" for entry in describe_topic(view, {"segment.bytes": "1000000000"})}
        self.assertEqual(view.topic_config(described), view.topic_config({"segment.bytes": "1000000000"}))

    def test_a_topics_synonyms(self) -> None:
        """The override comes first, then the brokers' layers, the default last."""
        view = ConfigView.load({"log.retention.ms": "1", "log.retention.hours": "2"})
        view.update(cluster={"log.retention.ms": "3"}, broker={"log.retention.ms": "4"})
        entry = only(describe_topic(view, {"retention.ms": "5"}, ["retention.ms", "no.such.key"]))
        self.assertEqual((entry.value, entry.source, entry.type), ("5", Source.TOPIC, ConfigType.LONG))
        self.assertFalse(entry.is_default)
        self.assertFalse(entry.read_only)
        self.assertEqual(
            [tuple(synonym) for synonym in entry.synonyms],
            [
                ("retention.ms", "5", 1),
                ("log.retention.ms", "4", 2),
                ("log.retention.ms", "3", 3),
                ("log.retention.ms", "1", 4),
                ("log.retention.hours", "2", 4),
                ("log.retention.ms", "604800000", 5),
            ],
        )

    def test_a_fallbacks_value_is_converted(self) -> None:
        """The value in force is told in the key's own unit, the synonym in its own."""
        view = ConfigView.load({"log.retention.hours": "2"})
        entry = only(describe_broker(view, ["log.retention.ms"]))
        self.assertEqual((entry.value, entry.source), ("7200000", Source.STATIC))
        self.assertEqual(entry.synonyms[0], ("log.retention.hours", "2", Source.STATIC))

    def test_a_broker_entry(self) -> None:
        """Keys that need a restart are read-only."""
        view = ConfigView.load({"num.partitions": "3"})
        entry = only(describe_broker(view, ["num.partitions"]))
        self.assertEqual((entry.value, entry.source, entry.read_only), ("3", Source.STATIC, True))
        self.assertEqual(entry.type, ConfigType.INT)
        self.assertTrue(entry.documentation)
        self.assertFalse(only(describe_broker(view, ["log.segment.bytes"])).read_only)

    def test_secrets_are_hidden(self) -> None:
        """A sensitive key has no value, in synonyms neither; one listener's neither."""
        name = "listener.name.secure.ssl.key.password"
        view = ConfigView.load({"ssl.key.password": "hunter2", name: "hunter3"})
        for entry in describe_broker(view):
            self.assertNotIn("hunter", str(entry))
        for key in ("ssl.key.password", name):
            entry = only(describe_broker(view, [key]))
            self.assertTrue(entry.sensitive)
            self.assertIsNone(entry.value)
            self.assertEqual(entry.source, Source.STATIC)

    def test_absent_values(self) -> None:
        """A key without a setting and a default has no value and no synonym."""
        entry = only(describe_broker(ConfigView.load(), ["zookeeper.connect"]))
        self.assertEqual((entry.value, entry.source, entry.synonyms), (None, Source.DEFAULT, ()))

    def test_cluster_defaults(self) -> None:
        """Of the default for all brokers only what is set is told."""
        view = ConfigView.load()
        self.assertEqual(describe_cluster(view), [])
        view.update(cluster={"log.retention.ms": "3", "max.connections": "9"})
        entry = only(describe_cluster(view, ["max.connections"]))
        self.assertEqual((entry.value, entry.source, entry.read_only), ("9", Source.CLUSTER, False))

    def test_invalid_stored_override(self) -> None:
        """Invalid overrides are omitted."""
        entries = {e.name: e for e in describe_topic(ConfigView.load(), {"segment.ms": "soon", "retention.ms": "5"})}
        self.assertEqual(entries["segment.ms"].source, Source.DEFAULT)
        self.assertEqual(entries["retention.ms"].value, "5")
