"""Tests of :mod:`logbus.config.unenforced_security`."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.config import ConfigView
from logbus.config.unenforced_security import refuse_unenforced
from logbus.errors import ConfigError

PLAIN = ("kafka", "PLAINTEXT")


def refusal(settings: dict[str, str], *listeners: tuple[str, str]) -> str:
    """Return the refusal of settings; empty if there is none."""
    try:
        refuse_unenforced(ConfigView.load(set=settings), listeners or (PLAIN,))
    except ConfigError as e:
        return str(e)
    return ""


class UnenforcedTests(SynchronousTestCase):
    def test_keys(self) -> None:
        """
        Each key that asks for authentication or authorization is refused by its name.
        """
        for name, value in (
            ("security.inter.broker.protocol", "SASL_SSL"),
            ("sasl.mechanism.inter.broker.protocol", "PLAIN"),
        ):
            with self.subTest(name):
                said = refusal({name: value})
                self.assertIn(f"{name}: ", said)
                self.assertNotIn("secret", said)

    def test_explicit_defaults_are_allowed(self) -> None:
        """A file that only repeats the defaults is accepted."""
        for name, value in (
            ("authorizer.class.name", ""),
            ("super.users", ""),
            ("security.inter.broker.protocol", "SSL"),
            ("ssl.client.auth", "required"),
            ("allow.everyone.if.no.acl.found", "false"),
            ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL"),
        ):
            with self.subTest(name):
                self.assertEqual(refusal({name: value}), "")

    def test_listeners(self) -> None:
        """
        Brokers of a cluster need a listener without SASL among themselves.
        """
        cluster = {"zookeeper.connect": "localhost"}
        out = ("OUT", "SASL_SSL")
        self.assertEqual(refusal({}, out), "")
        self.assertEqual(refusal(cluster, PLAIN, out), "")
        self.assertIn("listener OUT: brokers do not log in", refusal(cluster, out, PLAIN))
        self.assertEqual(refusal({**cluster, "inter.broker.listener.name": "kafka"}, out, PLAIN), "")
        self.assertIn("listener OUT: ", refusal({**cluster, "inter.broker.listener.name": "OUT"}, PLAIN, out))
        self.assertEqual(refusal({}, PLAIN, ("SECURE", "SSL")), "")
