"""Tests of :mod:`logbus.config.config_view` and :mod:`logbus.config.validation`."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.config import ConfigView, TopicConfig, keys
from logbus.config.config_key import ConfigKey
from logbus.config.key_table import TOPIC_KEYS
from logbus.config.kinds import ConfigType, integer
from logbus.config.listener_address import ListenerAddress
from logbus.config.setting_checks import usable_broker_overrides, usable_topic_overrides
from logbus.errors import ConfigError

HOUR = 3_600_000


class LayersTests(SynchronousTestCase):
    """Precedence of layers."""

    def test_defaults(self) -> None:
        """Without any file, defaults hold, without a warning, and a topic has its own."""
        view = ConfigView.load()
        self.assertEqual(view.get(keys.NUM_PARTITIONS), 1)
        self.assertEqual(view.get(keys.LISTENERS), (ListenerAddress("PLAINTEXT", "127.0.0.1", 9092),))
        self.assertEqual(view.warnings, ())
        self.assertEqual(view.topic_config({}), TopicConfig())

    def test_precedence(self) -> None:
        """Each layer wins over those before it: file, --set, cluster, broker, topic."""
        view = ConfigView.load({"log.retention.ms": "1"})
        self.assertEqual(view.get(keys.LOG_RETENTION_MS), 1)
        view = ConfigView.load({"log.retention.ms": "1"}, {"log.retention.ms": "2"})
        self.assertEqual(view.get(keys.LOG_RETENTION_MS), 2)
        view.update(cluster={"log.retention.ms": "3"})
        self.assertEqual(view.get(keys.LOG_RETENTION_MS), 3)
        view.update(broker={"log.retention.ms": "4"})
        self.assertEqual(view.get(keys.LOG_RETENTION_MS), 4)
        self.assertEqual(view.topic_config({"retention.ms": "5"}).retention_ms, 5)
        view.update(broker={})
        self.assertEqual(view.topic_config({}).retention_ms, 3)

    def test_units(self) -> None:
        """ms counts before minutes, and minutes before hours, whichever layer they are in."""
        for properties, expected in (
            ({"log.retention.hours": "2"}, 2 * HOUR),
            ({"log.retention.hours": "2", "log.retention.minutes": "5"}, 300_000),
            ({"log.retention.hours": "2", "log.retention.minutes": "5", "log.retention.ms": "7"}, 7),
            ({"log.retention.hours": "-1"}, -1),
            ({"log.retention.minutes": "-1", "log.retention.hours": "3"}, -1),
            ({"log.retention.minutes": "", "log.retention.hours": "3"}, 3 * HOUR),
        ):
            self.assertEqual(ConfigView.load(properties).get(keys.LOG_RETENTION_MS), expected, properties)
        view = ConfigView.load({"log.retention.ms": "9"}, {"log.retention.hours": "2"})
        self.assertEqual(view.get(keys.LOG_RETENTION_MS), 9)

    def test_other_fallbacks(self) -> None:
        """log.dir, log.roll.hours, node.id and the like count while the key itself is not set."""
        view = ConfigView.load(
            {
                "log.dir": "/var/a",
                "log.roll.hours": "1",
                "node.id": "4",
                "log.flush.scheduler.interval.ms": "12",
                "zookeeper.session.timeout.ms": "6000",
                "log.message.timestamp.difference.max.ms": "77",
                "listeners": "PLAINTEXT://:19092",
            }
        )
        self.assertEqual(view.get(keys.LOG_DIRS), ("/var/a",))
        self.assertEqual(view.get(keys.BROKER_ID), 4)
        self.assertEqual(view.get(keys.ZOOKEEPER_CONNECTION_TIMEOUT_MS), 6000)
        self.assertEqual(view.get(keys.ADVERTISED_LISTENERS), (ListenerAddress("PLAINTEXT", "", 19092),))
        topic = view.topic_defaults
        self.assertEqual((topic.segment_ms, topic.flush_ms), (HOUR, 12))
        self.assertEqual((topic.message_timestamp_before_max_ms, topic.message_timestamp_after_max_ms), (77, 77))
        self.assertEqual(ConfigView.load({"log.dir": "/a", "log.dirs": "/b,/c"}).get(keys.LOG_DIRS), ("/b", "/c"))

    def test_is_set(self) -> None:
        """A key counts as set also under a fallback's name or for a listener."""
        view = ConfigView.load({"log.retention.hours": "168", "listener.name.x.ssl.client.auth": "none"})
        self.assertTrue(view.is_set(keys.LOG_RETENTION_MS))
        self.assertTrue(view.is_set(keys.SSL_CLIENT_AUTH))
        self.assertFalse(view.is_set(keys.NUM_PARTITIONS))

    def test_listener_settings(self) -> None:
        """A setting for a listener, or for its mechanism, takes precedence only there."""
        view = ConfigView.load(
            {
                "max.connections": "10",
                "listener.name.secure.max.connections": "5",
                "listener.name.secure.plain.sasl.jaas.config": "plain",
                "listener.name.secure.sasl.jaas.config": "any",
            }
        )
        self.assertEqual(view.listener_get("SECURE", keys.MAX_CONNECTIONS), 5)
        self.assertEqual(view.listener_get("PLAINTEXT", keys.MAX_CONNECTIONS), 10)
        self.assertEqual(view.listener_get("SECURE", keys.SASL_JAAS_CONFIG, "PLAIN"), "plain")
        self.assertEqual(view.listener_get("SECURE", keys.SASL_JAAS_CONFIG, "SCRAM-SHA-256"), "any")
        self.assertIsNone(view.listener_get("PLAINTEXT", keys.SASL_JAAS_CONFIG))

    def test_topic_config_of_everything(self) -> None:
        """Each topic key reaches its field."""
        config = ConfigView.load().topic_config(
            {"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0.25", "flush.before.ack": "false"}
        )
        self.assertEqual(config.cleanup_policy, {"compact", "delete"})
        self.assertTrue(config.compacted)
        self.assertEqual((config.min_cleanable_dirty_ratio, config.flush_before_ack), (0.25, False))
        self.assertEqual(ConfigView.load({"log.flush.before.ack": "false"}).topic_defaults.flush_before_ack, False)

    def test_topics_share_the_defaults(self) -> None:
        """Topics without overrides hold one and the same value."""
        view = ConfigView.load()
        self.assertIs(view.topic_config({}), view.topic_config({}))

    @given(
        st.dictionaries(
            st.sampled_from(["log.retention.ms", "log.retention.minutes", "log.retention.hours"]),
            st.tuples(st.sampled_from(["file", "set"]), st.integers(-1, 1000)),
        )
    )
    def test_retention_units(self, said: dict[str, tuple[str, int]]) -> None:
        """In all combinations, the finest unit that is set is effective."""
        layers: dict[str, dict[str, str]] = {"file": {}, "set": {}}
        for name, (layer, value) in said.items():
            layers[layer][name] = str(value)
        expected = 168 * HOUR
        for name, factor in (("hours", HOUR), ("minutes", 60_000), ("ms", 1)):
            if f"log.retention.{name}" in said:
                value = said[f"log.retention.{name}"][1]
                expected = value * factor if value >= 0 else -1
        self.assertEqual(ConfigView.load(layers["file"], layers["set"]).get(keys.LOG_RETENTION_MS), expected)


class ChangesTests(SynchronousTestCase):
    """Layers that change while the broker runs."""

    def setUp(self) -> None:
        self.view = ConfigView.load({"log.retention.ms": "1"})
        self.told: list[int] = []

    def test_subscribers_hear_of_their_keys(self) -> None:
        """Those who asked for a key that changes are called once, with all changes in force."""
        end = self.view.subscribe(
            [keys.LOG_RETENTION_MS, keys.LOG_SEGMENT_BYTES],
            lambda view: self.told.append(view.get(keys.LOG_RETENTION_MS) + view.get(keys.LOG_SEGMENT_BYTES)),
        )
        self.view.update(cluster={"log.retention.ms": "2", "log.segment.bytes": "1048600"}, broker={})
        self.assertEqual(self.told, [1_048_602])
        self.view.update(cluster={"log.retention.ms": "2", "log.segment.bytes": "1048600", "max.connections": "5"})
        self.assertEqual(len(self.told), 1)
        end()
        end()
        self.view.update(cluster={})
        self.assertEqual(len(self.told), 1)

    def test_topic_defaults_follow(self) -> None:
        """A topic's defaults change with the broker's keys; a subscription to the topic keys hears of it."""
        before = self.view.topic_defaults
        self.view.subscribe(TOPIC_KEYS.values(), lambda view: self.told.append(view.topic_defaults.retention_ms))
        self.view.update(broker={"log.retention.ms": "9"})
        self.assertEqual(self.told, [9])
        self.assertEqual(before.retention_ms, 1)

    def test_a_listeners_key_changes(self) -> None:
        """A change for one listener is a change of the key."""
        self.view.subscribe([keys.SSL_KEYSTORE_LOCATION], lambda view: self.told.append(1))
        name = "listener.name.secure.ssl.keystore.location"
        self.view.update(broker={name: "new.pem"})
        self.assertEqual(self.told, [1])
        self.assertEqual(self.view.listener_get("secure", keys.SSL_KEYSTORE_LOCATION), "new.pem")
        self.view.update(broker={name: "new.pem"})
        self.assertEqual(self.told, [1])

    def test_invalid_change(self) -> None:
        """When one value is wrong, none is taken."""
        self.view.subscribe([keys.LOG_RETENTION_MS], lambda view: self.told.append(1))
        for cluster in (
            {"log.retention.ms": "5", "log.segment.bytes": "x"},
            {
                "log.retention.ms": "5",
                "log.cleaner.min.compaction.lag.ms": "9",
                "log.cleaner.max.compaction.lag.ms": "8",
            },
        ):
            self.assertRaises(ConfigError, self.view.update, cluster=cluster)
        self.assertEqual(self.view.get(keys.LOG_RETENTION_MS), 1)
        self.assertEqual(self.told, [])

    def test_failing_subscriber(self) -> None:
        """All subscribers are called; the errors are raised together."""
        self.view.subscribe([keys.LOG_RETENTION_MS], lambda view: 1 / 0)
        self.view.subscribe([keys.LOG_RETENTION_MS], lambda view: self.told.append(1))
        error = self.assertRaises(ExceptionGroup, self.view.update, broker={"log.retention.ms": "3"})
        self.assertIsInstance(error.exceptions[0], ZeroDivisionError)
        self.assertEqual(self.told, [1])
        self.assertEqual(self.view.get(keys.LOG_RETENTION_MS), 3)

    def test_dynamic_keys(self) -> None:
        """Read-only keys are refused, per-broker ones as a default for all, unknown and missing ones anyway."""
        check = self.view.validate_broker_overrides
        self.assertEqual(check({"log.retention.ms": "5"}, cluster=True), [])
        self.assertEqual(check({"ssl.keystore.location": "x"}, cluster=False), [])
        self.assertEqual(len(check({"num.io.threads": "5"}, cluster=True)), 1)
        for rate in ("leader.replication.throttled.rate", "follower.replication.throttled.rate"):
            self.assertEqual(check({rate: "5"}, cluster=True), [], "Kafka has a default of all brokers for throttles")
        self.assertEqual(check({"replica.alter.log.dirs.io.max.bytes.per.second": "5"}, cluster=True), [])
        for overrides, cluster, words in (
            ({"broker.id": "5"}, False, "broker.id cannot be changed while the broker runs"),
            ({"ssl.keystore.location": "x"}, True, "single brokers"),
            ({"listener.name.a.max.connections": "5"}, True, "single brokers"),
            ({"num.partition": "5"}, False, "did you mean num.partitions"),
            ({"log.retention.ms": None}, False, "a value is missing"),
            ({"compression.gzip.level": "0"}, True, "accepted: -1, or a whole number from 1 to 9"),
            ({"log.retention.ms": "-2"}, True, "log.retention.ms: '-2' is not valid"),
        ):
            error = self.assertRaises(ConfigError, check, overrides, cluster=cluster)
            self.assertIn(words, str(error))
        self.assertEqual(self.view.get(keys.LOG_RETENTION_MS), 1)

    def test_stored_layers(self) -> None:
        """The valid values of a stored layer are kept, and the others are reported."""
        problems: list[str] = []
        usable = usable_broker_overrides(
            {"log.retention.ms": "5", "log.segment.bytes": "x", "new.key": "1"}, cluster=True, problems=problems
        )
        self.assertEqual(usable, {"log.retention.ms": "5"})
        self.assertEqual(len(problems), 2)


class ReloadTests(SynchronousTestCase):
    """A file that is read again while the broker runs."""

    def setUp(self) -> None:
        self.view = ConfigView.load(
            {"log.retention.ms": "7", "num.partitions": "3", "broker.rack": "a", "log.segment.bytes": "2000"}
        )
        self.told: list[int] = []
        self.view.subscribe([keys.LOG_RETENTION_MS], lambda view: self.told.append(view.get(keys.LOG_RETENTION_MS)))

    def test_what_may_change(self) -> None:
        """What may change while the broker runs is effective, the rest is named and stays."""
        self.view.update(cluster={"log.segment.bytes": "9000"})
        changed, later = self.view.reload(
            {"log.retention.ms": "8", "num.partitions": "4", "log.segment.bytes": "3000", "log.roll.ms": "5"}
        )
        self.assertEqual(changed, {"log.retention.ms": "8", "log.segment.bytes": "3000", "log.roll.ms": "5"})
        self.assertEqual(later, ("broker.rack", "num.partitions"))
        self.assertEqual(self.told, [8])
        self.assertEqual(self.view.get(keys.NUM_PARTITIONS), 3)
        self.assertEqual(self.view.get(keys.LOG_SEGMENT_BYTES), 9000, "the dynamic layer wins")
        self.assertEqual(self.view.reload(self.view.static), ({}, ()))

    def test_not_set_any_more(self) -> None:
        """It has its default again."""
        changed, later = self.view.reload({"num.partitions": "3", "broker.rack": "a", "log.segment.bytes": "2000"})
        self.assertEqual((changed, later), ({"log.retention.ms": None}, ()))
        self.assertEqual(self.view.get(keys.LOG_RETENTION_MS), keys.LOG_RETENTION_MS.default)

    def test_what_does_not_fit(self) -> None:
        """Nothing has changed."""
        static = dict(self.view.static)
        with self.assertRaises(ConfigError):
            self.view.reload({**static, "log.retention.ms": "never"})
        with self.assertRaises(ConfigError):
            self.view.reload({**static, "log.retention.ms": "9", "log.segment.bytes": "3"})
        self.assertEqual(self.view.static, static)
        self.assertEqual(self.told, [])


class TopicOverridesTests(SynchronousTestCase):
    """Overrides of topics."""

    def setUp(self) -> None:
        self.view = ConfigView.load()

    def test_refusals(self) -> None:
        """The error names the key, the value and what is accepted."""
        for overrides, words in (
            ({"retention.ms": "-2"}, "retention.ms: '-2' is not valid; accepted: a whole number from -1"),
            ({"cleanup.policy": "shred"}, "accepted: some of compact, delete"),
            ({"retention.mss": "1"}, "did you mean retention.ms"),
            ({"log.retention.ms": "1"}, "a topic's is retention.ms"),
            ({"segment.bytes": None}, "segment.bytes: a value is missing"),
            ({"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}, "min.compaction.lag.ms=2 must not exceed"),
            ({"compression.type": "brotli"}, "zstd"),
        ):
            error = self.assertRaises(ConfigError, self.view.validate_topic_overrides, overrides)
            self.assertIn(words, str(error))

    def test_warnings(self) -> None:
        """Doubtful settings give warnings."""
        config, warnings = self.view.validate_topic_overrides(
            {"segment.bytes": "1000", "message.format.version": "3.0"}
        )
        self.assertEqual(config.segment_bytes, 1000)
        self.assertEqual(len(warnings), 2)

    def test_overrides_of_other_versions(self) -> None:
        """Overrides stored by Kafka or a newer logbus do not make a topic unusable."""
        usable = usable_topic_overrides(
            {"retention.ms": " 5 ", "segment.ms": "soon", "future.key": "1", "message.format.version": "3.0"}
        )
        self.assertEqual(usable, {"retention.ms": "5"})
        self.assertEqual(self.view.topic_config(usable).retention_ms, 5)

    @given(st.dictionaries(st.sampled_from([*TOPIC_KEYS, "x"]), st.one_of(st.none(), st.text(max_size=8)), max_size=4))
    def test_any_overrides_are_taken_or_refused(self, overrides: dict[str, Any]) -> None:
        """Nothing but ConfigError comes out."""
        try:
            self.view.validate_topic_overrides(overrides)
        except ConfigError as error:
            self.assertTrue(str(error))


class LoadTests(SynchronousTestCase):
    """Configurations that prevent a start."""

    def test_refusals(self) -> None:
        """One clear sentence for each."""
        for properties, words in (
            ({"num.partition": "1"}, "did you mean num.partitions"),
            ({"num.partitions": "0"}, "num.partitions: '0' is not valid"),
            ({"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"}, "must not exceed"),
            (
                {"group.consumer.heartbeat.interval.ms": "9000", "group.consumer.session.timeout.ms": "8000"}
                | {"group.consumer.min.session.timeout.ms": "8000"},
                "group.consumer.heartbeat.interval.ms=9000 must not exceed group.consumer.session.timeout.ms=8000",
            ),
            ({"socket.request.max.bytes": "2000000000"}, "queued.max.request.bytes"),
            ({"replica.fetch.wait.max.ms": "40000"}, "replica.socket.timeout.ms"),
            ({"listeners": "INSIDE://:9092"}, "INSIDE is missing in listener.security.protocol.map"),
            ({"listeners": "PLAINTEXT://h:1,SSL://h:1"}, "a second time"),
            ({"advertised.listeners": "SSL://h:1"}, "SSL is not one of listeners"),
            ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "no address"),
            ({"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"}, "must not exceed"),
            ({"sasl.enabled.mechanisms": "GSSAPI"}, "SCRAM-SHA-256"),
            (
                {"log.cleaner.threads": "3", "log.cleaner.dedupe.buffer.size": "3000000"},
                "log.cleaner.dedupe.buffer.size=3000000 is less than 1048576 bytes for each of log.cleaner.threads=3",
            ),
            ({"log.cleaner.threads": "0"}, "log.cleaner.threads: '0' is not valid"),
            ({"log.dirs": ""}, "log.dirs"),
            ({"log.dirs": "/a,/a"}, "each once"),
            ({"remote.log.storage.system.enable": "true"}, "needs remote.log.storage.uri"),
        ):
            error = self.assertRaises(ConfigError, ConfigView.load, properties)
            self.assertIn(words, str(error))
            self.assertNotIn("\n", str(error))

    def test_cleaner_threads(self) -> None:
        """A dynamic change at most doubles or halves them."""
        view = ConfigView.load({"log.cleaner.threads": "4"})
        for accepted in "2", "8":
            view.validate_broker_overrides({"log.cleaner.threads": accepted}, cluster=True)
        for refused in "1", "9":
            error = self.assertRaises(
                ConfigError, view.validate_broker_overrides, {"log.cleaner.threads": refused}, cluster=True
            )
            self.assertIn("2 to 8", str(error))

    def test_secrets_do_not_show_in_errors(self) -> None:
        """The text of a sensitive key is not repeated when it is not valid."""
        secret = ConfigKey("pin", integer(ConfigType.INT), 0, "A number.", sensitive=True)
        error = self.assertRaises(ConfigError, secret.parse, "hunter2")
        self.assertEqual(str(error).count("hunter2"), 0)
        self.assertIn("pin: the value is not valid", str(error))
        self.assertIsNone(error.__cause__)
        self.assertTrue(error.__suppress_context__)

    def test_warnings(self) -> None:
        """Kafka's keys that mean nothing here, and odd combinations, give a warning each."""
        view = ConfigView.load(
            {"num.network.threads": "3", "min.insync.replicas": "2", "message.max.bytes": "104857600"}
        )
        self.assertEqual(len(view.warnings), 3)
        self.assertIn("num.network.threads is ignored", view.warnings[0])

    def test_custom_listeners(self) -> None:
        """Listeners of any name work when the map has them, in any case."""
        view = ConfigView.load(
            {
                "listeners": "inside://:9092,OUTSIDE://[::]:9093",
                "listener.security.protocol.map": "INSIDE:PLAINTEXT,outside:SASL_SSL",
                "advertised.listeners": "OUTSIDE://kafka.example:443",
                "inter.broker.listener.name": "INSIDE",
            }
        )
        self.assertEqual([listener.name for listener in view.get(keys.LISTENERS)], ["INSIDE", "OUTSIDE"])
