"""Tests of :mod:`logbus.broker.security`: how brokers log in to each other."""

from __future__ import annotations

from random import Random

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.broker.environment import Environment
from logbus.broker.security import BrokerSecurity
from logbus.cluster.security_nodes import SecurityNodes
from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.ilogbus import Listener

JAAS = 'x.PlainLoginModule required username="b" password="secret" user_b="secret";'
SETTINGS = {
    "zookeeper.connect": "localhost",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.among.plain.sasl.jaas.config": JAAS,
}


def security(settings: dict[str, str], *listeners: tuple[str, str], is_worker: bool = False) -> BrokerSecurity:
    env = Environment(Clock(), ConfigView.load(set=settings), lambda: 0.0, Random(1))
    return BrokerSecurity(
        env,
        [Listener(name, "kafka", "tcp:0:interface=127.0.0.1", security_protocol=how) for name, how in listeners],
        SecurityNodes,
        is_worker=is_worker,
    )


AMONG, CLEAR, EDGE = ("among", "SASL_PLAINTEXT"), ("clear", "PLAINTEXT"), ("edge", "SSL")


class BetweenBrokersTests(SynchronousTestCase):
    def test_log_in(self) -> None:
        """Brokers log in where their listener has SASL; a broker alone does not."""
        named = {**SETTINGS, "inter.broker.listener.name": "among"}
        broker = security(named, CLEAR, AMONG)
        broker.load()
        self.addCleanup(broker.sasl.stop)
        self.assertIsNotNone(broker.log_in_to_brokers())
        self.assertIsNone(security({**named, "zookeeper.connect": ""}, CLEAR, AMONG).log_in_to_brokers())
        self.assertIsNone(security({**named, "inter.broker.listener.name": "clear"}, CLEAR, AMONG).log_in_to_brokers())

    def test_protected(self) -> None:
        """Clients leave room where only brokers are: at a listener of their own, if there are other brokers."""
        named = {"inter.broker.listener.name": "clear"}
        self.assertEqual(security(named, CLEAR, EDGE, is_worker=True).protected_listener(), "clear")
        self.assertEqual(
            security({**named, "zookeeper.connect": "localhost"}, CLEAR, EDGE).protected_listener(), "clear"
        )
        self.assertIsNone(security(named, CLEAR, EDGE).protected_listener())
        self.assertIsNone(security(named, CLEAR, CLEAR, is_worker=True).protected_listener())

    def test_by_protocol(self) -> None:
        """Without a name brokers connect to the first listener with their security protocol; there must be one."""
        for protocol, logs_in in (("PLAINTEXT", False), ("SASL_PLAINTEXT", True)):
            settings = {**SETTINGS, "security.inter.broker.protocol": protocol}
            for listeners in ((AMONG, CLEAR), (CLEAR, AMONG)):
                broker = security(settings, *listeners)
                broker.load()
                self.addCleanup(broker.sasl.stop)
                self.assertEqual(broker.log_in_to_brokers() is not None, logs_in)
        said = str(self.assertRaises(ConfigError, security(SETTINGS, EDGE).load))
        self.assertIn("listener edge: brokers would connect to it, but security.inter.broker.protocol is not SSL", said)

    def test_workers(self) -> None:
        """Workers are brokers also without ZooKeeper: they log in to each other, and must be told where."""
        settings = {**SETTINGS, "zookeeper.connect": ""}
        named = security({**settings, "inter.broker.listener.name": "among"}, CLEAR, AMONG, is_worker=True)
        named.load()
        self.addCleanup(named.sasl.stop)
        self.assertIsNotNone(named.log_in_to_brokers())
        for first in (AMONG, EDGE):
            said = str(self.assertRaises(ConfigError, security(settings, first, is_worker=True).load))
            self.assertIn(f"listener {first[0]}: workers would connect to it, but security.inter.broker", said)

    def test_no_credentials(self) -> None:
        """A broker that could not log in does not start."""
        named = {**SETTINGS, "inter.broker.listener.name": "among"}
        named["listener.name.among.plain.sasl.jaas.config"] = 'x.PlainLoginModule required user_b="secret";'
        said = str(self.assertRaises(ConfigError, security(named, AMONG).load))
        self.assertIn("lacks username or password", said)
        self.assertNotIn("secret", said)
