"""Tests of :mod:`logbus.broker.security`: a whole broker in memory, with TLS and without."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from logbus.broker.environment import Environment
from logbus.broker.security import BrokerSecurity
from logbus.cluster.security_nodes import SecurityNodes
from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.ilogbus import Listener
from logbus.listener_config import secured
from logbus.net.tls import CurrentContext
from logbus.security.tls.listener_tls import ListenerTls
from tests.certificates import Authority
from tests.handlers.kit import MemoryBroker

ROOT = Authority.new()


@contextmanager
def logged() -> Iterator[list[str]]:
    """What is logged by the security of a broker."""
    said: list[str] = []

    def observe(event: dict[str, object]) -> None:
        if event.get("log_namespace") == "logbus.broker.security.BrokerSecurity":
            said.append(str(event["log_format"]).format(**{key: str(value) for key, value in event.items()}))

    globalLogPublisher.addObserver(observe)  # type: ignore[arg-type]
    try:
        yield said
    finally:
        globalLogPublisher.removeObserver(observe)  # type: ignore[arg-type]


class BrokerSecurityTests(SynchronousTestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.store = Path(directory.name) / "server.pem"

    def broker(self, **settings: str) -> MemoryBroker:
        """A broker with a plain listener and one with TLS; ``_`` stands for a dot."""
        config = {"ssl.keystore.location": str(self.store)}
        config |= {name.replace("_", "."): text for name, text in settings.items()}
        server = MemoryBroker(config, listeners=[Listener("kafka", "kafka", "tcp:9092")])
        edge = secured(Listener("SSL", "kafka", "tcp:9093"), server.broker.config)
        made = MemoryBroker(config, listeners=[*server.listeners, edge])
        self.addCleanup(made.close)
        return made

    def tls(self, server: MemoryBroker) -> ListenerTls:
        return server.broker.security._tls["SSL"]

    def test_registration(self) -> None:
        """Other brokers learn what each listener speaks."""
        ROOT.issue().write(self.store)
        server = self.broker().start()
        registered = server.broker.member.membership.registration.security_protocols
        self.assertEqual(registered, {"kafka": "PLAINTEXT", "SSL": "SSL"})
        plain, edge = server.listeners
        self.assertIsNone(server.broker.security.connections(plain))
        self.assertIsNone(server.broker.security.principal_builder(plain))
        self.assertIsInstance(server.broker.security.connections(edge), CurrentContext)
        self.assertIsNotNone(server.broker.security.principal_builder(edge))

    def test_listener_for_brokers(self) -> None:
        """Other brokers, which connect without TLS, are given a plain listener, whichever comes first."""
        ROOT.issue().write(self.store)
        server = self.broker()
        config = {"ssl.keystore.location": str(self.store)}
        reversed_listeners = MemoryBroker(config, listeners=[*reversed(server.listeners)]).start()
        self.addCleanup(reversed_listeners.close)
        server.start()
        for one in (server, reversed_listeners):
            self.assertEqual(one.broker.member.inter_broker_listener(), "kafka")

    def test_reload(self) -> None:
        """New certificates are told in the log; wrong ones are, too, and the old ones stay."""
        ROOT.issue().write(self.store)
        server = self.broker().start()
        before = self.tls(server).context
        with logged() as said:
            server.broker.security.reload()
            self.assertEqual(said, [])
            ROOT.issue("CN=next").write(self.store)
            server.broker.security.reload()
            new = "listener SSL: new connections use the certificate of CN=next, issued by CN=Test CA, valid until 20"
            self.assertIn(new, said[0])
            after = self.tls(server).context
            self.assertIsNot(after, before)
            self.store.unlink()
            server.broker.security.reload()
            self.assertIn("cannot be read: No such file or directory; the listener keeps its old", said.pop())
        self.assertIs(self.tls(server).context, after)

    def test_reload_of_what_has_expired(self) -> None:
        """A certificate that has expired takes no valid one's place, by whichever way it is read."""
        self.patch(BrokerSecurity, "_now", lambda _: datetime.now(UTC))
        ROOT.issue().write(self.store)
        server = self.broker().start()
        before = self.tls(server).context
        ROOT.issue("CN=old", days=-30).write(self.store)
        with logged() as said:
            server.broker.security.reload()
        self.assertRegex(said[0], "listener SSL: ssl.keystore.location: the certificate of CN=old expired on .* keeps")
        self.assertIs(self.tls(server).context, before)
        with self.assertRaisesRegex(ConfigError, "the certificate of CN=old expired on"):
            server.broker.security.check(server.broker.config)
        again = self.broker().start()
        ROOT.issue("CN=older", days=-31).write(self.store)
        with logged() as said:
            again.broker.security.reload()
        self.assertIn("new connections use the certificate of CN=older", said[0])

    def test_reload_for_brokers(self) -> None:
        """What other brokers would not accept is taken by no listener with the same key store."""
        self.patch(BrokerSecurity, "_now", lambda _: datetime.now(UTC))
        ROOT.issue(hosts=("b.test",)).write(self.store)
        settings = {
            "zookeeper.connect": "localhost",
            "ssl.keystore.location": str(self.store),
            "ssl.truststore.location": str(ROOT.write(self.store.parent / "ca.pem")),
            "inter.broker.listener.name": "INSIDE",
        }
        names = ("CLIENTS", "INSIDE")
        listeners = [Listener(one, "kafka", "tcp:0", ("b.test", 1), security_protocol="SSL") for one in names]
        env = Environment(Clock(), ConfigView.load(set=settings), lambda: 0.0, Random(1))
        security = BrokerSecurity(env, listeners, SecurityNodes)
        security.load()
        before = [security._tls[one].context for one in names]
        Authority.new("CN=Strangers").issue(hosts=("b.test",)).write(self.store)
        with logged() as said:
            security.reload()
        self.assertEqual([security._tls[one].context for one in names], before)
        self.assertRegex(said[0], "listener INSIDE: .*issued by CN=Strangers, cannot be verified.*keeps its old")
        self.assertEqual(
            said[1:], ["listener CLIENTS: its key store is the same; the listener keeps its old certificates"]
        )
        ROOT.issue("CN=next", hosts=("other.test", "b.test")).write(self.store)
        with logged() as said:
            security.reload()
        self.assertEqual(len([line for line in said if "new connections use the certificate of CN=next" in line]), 2)

    def test_no_way_to_start(self) -> None:
        """A broker whose key store is wrong does not start."""
        with self.assertRaisesRegex(ConfigError, "listener SSL: ssl.keystore.location: "):
            self.broker().start()

    def test_checks(self) -> None:
        """The broker's own dynamic settings are checked with its files."""
        ROOT.issue().write(self.store)
        server = self.broker().start()
        config = server.broker.config.with_broker_overrides({"listener.name.ssl.ssl.keystore.location": "/absent"})
        with self.assertRaisesRegex(ConfigError, "listener.name.ssl.ssl.keystore.location: /absent cannot be read"):
            server.broker.security.check(config)
        server.broker.security.check(server.broker.config)

    def test_warnings(self) -> None:
        """Expired certificates, and keys that have no effect, are in the log."""
        # The clock of a broker in memory is at a fixed time.
        ROOT.issue("CN=old", days=-30).write(self.store)
        with logged() as said:
            self.broker().start()
            self.assertRegex(" ".join(said), "listener SSL: the certificate of CN=old (expired on|is not valid before)")
        with logged() as said:
            plain = MemoryBroker({"ssl.keystore.location": str(self.store)}).start()
            self.addCleanup(plain.close)
            self.assertEqual(said, ["ssl.keystore.location has no effect: no listener has TLS"])
