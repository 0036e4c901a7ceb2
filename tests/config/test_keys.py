"""
Tests of the declarations themselves: :mod:`logbus.config.keys`, :mod:`~logbus.config.key_table`, the reference page.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import attrs
from twisted.trial.unittest import SynchronousTestCase

import logbus
from logbus.config import TopicConfig, keys
from logbus.config.config_key import ConfigKey, Dynamic, Scope
from logbus.config.key_table import (
    BROKER_KEYS,
    TOPIC_KEYS,
    broker_key,
    ignored_broker_key,
    ignored_topic_key,
    unknown_broker_key,
    unknown_topic_key,
)
from logbus.config.keys.ignored import FOREIGN_TOPIC_KEYS, IGNORED_BROKER_KEYS
from logbus.config.kinds import LONG_MAX
from logbus.config.reference import reference_rst
from logbus.errors import ConfigError

SEARCHED = [str(Path(logbus.__file__).parent.parent), *filter(None, sys.path)]

KAFKAS_FILE = """
broker.id num.network.threads num.io.threads socket.send.buffer.bytes socket.receive.buffer.bytes
socket.request.max.bytes log.dirs num.partitions num.recovery.threads.per.data.dir
offsets.topic.replication.factor transaction.state.log.replication.factor transaction.state.log.min.isr
share.coordinator.state.topic.replication.factor share.coordinator.state.topic.min.isr
log.flush.interval.messages log.flush.interval.ms log.retention.hours log.retention.bytes
log.segment.bytes log.retention.check.interval.ms zookeeper.connect zookeeper.connection.timeout.ms
group.initial.rebalance.delay.ms process.roles node.id controller.quorum.voters listeners
inter.broker.listener.name advertised.listeners controller.listener.names listener.security.protocol.map
"""

KAFKAS_TOPIC_KEYS = """
cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
delete.retention.ms file.delete.delay.ms flush.messages flush.ms follower.replication.throttled.replicas
index.interval.bytes leader.replication.throttled.replicas local.retention.bytes local.retention.ms
max.compaction.lag.ms max.message.bytes message.downconversion.enable message.format.version
message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.difference.max.ms
message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate
remote.storage.enable retention.bytes retention.ms segment.bytes segment.index.bytes segment.jitter.ms
segment.ms unclean.leader.election.enable
"""


class DeclarationTests(SynchronousTestCase):
    """Every declaration makes sense."""

    def test_defaults_are_valid(self) -> None:
        """Each default is a value that the key would accept, and survives as text."""
        for key in [*BROKER_KEYS.values(), *TOPIC_KEYS.values()]:
            if key.default is not None:
                self.assertEqual(key.parse(key.text(key.default) or ""), key.default, key.name)

    def test_each_is_documented(self) -> None:
        """Each has a sentence."""
        for key in [*BROKER_KEYS.values(), *TOPIC_KEYS.values()]:
            self.assertTrue(key.doc[0].isupper() or key.doc[0] == "`", key.name)
            self.assertTrue(key.doc.endswith("."), key.name)

    def test_names_are_unique(self) -> None:
        """No name is declared twice, or both ours and foreign."""
        declared = [value for value in vars(keys).values() if isinstance(value, ConfigKey)]
        names = [key.name for key in declared]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(set(names) & set(IGNORED_BROKER_KEYS), set())
        self.assertEqual(set(TOPIC_KEYS) & set(FOREIGN_TOPIC_KEYS), set())

    def test_constants_are_called_as_the_keys(self) -> None:
        """keys.NUM_PARTITIONS is num.partitions, and so for all."""
        for constant, key in vars(keys).items():
            if isinstance(key, ConfigKey):
                self.assertEqual(constant, key.name.upper().replace(".", "_"))

    def test_topic_config_has_all_topic_keys(self) -> None:
        """TopicConfig's fields are the topic keys, with their defaults."""
        fields = attrs.fields_dict(TopicConfig)
        self.assertEqual(set(fields), {name.replace(".", "_") for name in TOPIC_KEYS})
        for name, key in TOPIC_KEYS.items():
            default = frozenset(key.default) if name == "cleanup.policy" else key.default
            self.assertEqual(fields[name.replace(".", "_")].default, default, name)

    def test_kafkas_own_server_properties(self) -> None:
        """All keys of the file that ships with Kafka 3.9 are known, or accepted with a warning."""
        for name in KAFKAS_FILE.split():
            self.assertTrue(broker_key(name) or ignored_broker_key(name, "1"), name)

    def test_kafkas_topic_keys(self) -> None:
        """All topic keys of Kafka 3.9 are known, or accepted with a warning."""
        for name in KAFKAS_TOPIC_KEYS.split():
            accepted = str(LONG_MAX) if name == "message.timestamp.difference.max.ms" else "false"
            self.assertTrue(name in TOPIC_KEYS or ignored_topic_key(name, accepted), name)

    def test_topic_only_keys_are_no_broker_keys(self) -> None:
        """A key of topics only is not found among the brokers'."""
        only = [key for key in TOPIC_KEYS.values() if key.scope is Scope.TOPIC]
        self.assertTrue(only)
        for key in only:
            self.assertIsNone(broker_key(key.name))

    def test_keys_of_topics_can_change_everywhere(self) -> None:
        """Keys that are dynamic for a topic are dynamic for the cluster."""
        for key in TOPIC_KEYS.values():
            self.assertIs(key.dynamic, Dynamic.CLUSTER, key.name)

    def test_secrets_are_optional_and_marked(self) -> None:
        """Whatever is called a password, and private keys, are sensitive."""
        for name, key in BROKER_KEYS.items():
            if "password" in name or name.endswith((".keystore.key", "jaas.config")):
                self.assertTrue(key.sensitive, name)

    def test_reference_page_has_them_all(self) -> None:
        """The generated page mentions each key once as an entry."""
        lines = reference_rst().splitlines()
        for key in [*BROKER_KEYS.values(), *TOPIC_KEYS.values()]:
            self.assertEqual(lines.count(f"``{key.name}``"), 1, key.name)
        for name in IGNORED_BROKER_KEYS:
            self.assertTrue(any(line.startswith(f"``{name}``") for line in lines), name)

    def test_import_needs_nothing_heavy(self) -> None:
        """Importing the configuration imports neither Twisted nor asyncio."""
        script = (
            "import sys, logbus.config.describe_configs; print([m for m in sys.modules if m in ('twisted', 'asyncio')])"
        )
        # A runner may have changed the directory since this module was found.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(entry) for entry in SEARCHED)}
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
        )
        self.assertEqual(done.stdout.strip(), "[]")


class NamesTests(SynchronousTestCase):
    """Names that are keys, and what is said of those that are not."""

    def test_names_of_one_mirror(self) -> None:
        """Keys of mirrors are found behind the name of one; what is wrong there is told with that name."""
        self.assertIs(broker_key("mirror.flow.paris.on.too.large"), keys.MIRROR_ON_TOO_LARGE)
        self.assertIsNone(broker_key("mirror.flow.paris.topic"))
        self.assertIsNone(broker_key("mirror.flow.paris.num.partitions"))
        for name, part in (
            ("mirror.flow.paris.topic", "is not a mirror's configuration key; did you mean mirror.flow.paris.topics"),
            ("mirror.flow.topics", "write mirror.flow.NAME.topics"),
        ):
            self.assertIn(part, str(unknown_broker_key(name)))

    def test_listener_names(self) -> None:
        """Keys that can be set for one listener, and for one mechanism of it, are found behind the prefix."""
        self.assertIs(broker_key("listener.name.secure.ssl.keystore.location"), keys.SSL_KEYSTORE_LOCATION)
        self.assertIs(broker_key("listener.name.secure.scram-sha-256.sasl.jaas.config"), keys.SASL_JAAS_CONFIG)
        self.assertIs(broker_key("listener.name.secure.max.connections"), keys.MAX_CONNECTIONS)
        for name in (
            "listener.name.secure.num.partitions",
            "listener.name.secure.magic.sasl.jaas.config",
            "listener.name.secure.plain.ssl.keystore.location",
            "listener.name.secure",
            "listener.name..ssl.keystore.location",
        ):
            self.assertIsNone(broker_key(name), name)
        self.assertIn("only for the broker", str(unknown_broker_key("listener.name.secure.num.partitions")))

    def test_suggests_the_nearest(self) -> None:
        """A mistyped name is answered with the key that was meant."""
        self.assertIn("did you mean num.partitions", str(unknown_broker_key("num.partition")))
        self.assertIn("did you mean", str(unknown_topic_key("retention.mss")))
        self.assertNotIn("did you mean", str(unknown_broker_key("completely.different")))

    def test_broker_and_topic_names(self) -> None:
        """Using a topic's key on a broker, or the reverse, is an error that names the right key."""
        self.assertIn("log.retention.ms", str(unknown_broker_key("retention.ms")))
        self.assertIn("a topic's is retention.ms", str(unknown_topic_key("log.retention.ms")))
        self.assertIn("topics only", str(unknown_broker_key("leader.replication.throttled.replicas")))
        self.assertIn("brokers only", str(unknown_topic_key("broker.id")))

    def test_foreign_keys(self) -> None:
        """Kafka's keys that mean nothing here give a warning that names them and says why."""
        self.assertIn("num.io.threads is ignored: ", ignored_broker_key("num.io.threads", "8") or "")
        self.assertIn("quorum", ignored_broker_key("controller.quorum.voters", "1@h:1") or "")
        self.assertTrue(ignored_broker_key("listener.name.secure.ssl.provider", "x"))
        self.assertIsNone(ignored_broker_key("num.partitions", "1"))
        self.assertTrue(ignored_topic_key("message.format.version", "3.0"))
        self.assertIsNone(ignored_topic_key("retention.ms", "1"))

    def test_other_features_are_refused(self) -> None:
        """A feature that logbus lacks cannot be turned on by a key that is ignored."""
        self.assertTrue(ignored_broker_key("zookeeper.ssl.crl.enable", "false"))
        error = self.assertRaises(ConfigError, ignored_broker_key, "zookeeper.ssl.crl.enable", "true")
        self.assertIn("accepted: false", str(error))

    def test_error_message(self) -> None:
        """A wrong value's error has all three; that of a secret hides the value."""
        error = self.assertRaises(ConfigError, keys.NUM_PARTITIONS.parse, "many")
        self.assertEqual(
            str(error), "num.partitions: 'many' is not valid; accepted: a whole number from 1 to 2147483647"
        )
        self.assertEqual(keys.NUM_PARTITIONS.parse(" 3 "), 3)
