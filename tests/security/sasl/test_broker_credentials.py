"""Tests of :mod:`logbus.security.sasl.broker_credentials`."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.security.sasl.broker_credentials import read_broker_credentials
from logbus.security.sasl.client_login import ClientLogin

MECHANISM = "sasl.mechanism.inter.broker.protocol"
ENABLED = "sasl.enabled.mechanisms"
JAAS = "listener.name.among.{}.sasl.jaas.config"
PLAIN = {
    MECHANISM: "PLAIN",
    ENABLED: "PLAIN",
    JAAS.format("plain"): 'x.PlainLoginModule required username="broker" password="secret" user_broker="secret";',
}


def read(settings: dict[str, str]) -> ClientLogin:
    return read_broker_credentials(ConfigView.load(set=settings), "among")


class BrokerCredentialsTests(SynchronousTestCase):
    def test_plain(self) -> None:
        """PLAIN has its name and password in the entry that also has the users."""
        found = read(PLAIN)
        self.assertEqual(found, ClientLogin("PLAIN", "broker", "secret"))
        self.assertEqual(list(found.exchange()), [b"\0broker\0secret"])

    def test_scram(self) -> None:
        """SCRAM has an entry of its own."""
        found = read(
            {
                MECHANISM: "SCRAM-SHA-512",
                ENABLED: "SCRAM-SHA-512",
                JAAS.format("scram-sha-512"): 'x.ScramLoginModule required username="broker" password="secret";',
            }
        )
        self.assertEqual(next(found.exchange())[:14], b"n,,n=broker,r=")
        self.assertNotIn("secret", repr(found))

    def test_refusals(self) -> None:
        """What is wrong is named, and no password is."""
        jaas = JAAS.format("plain")
        without = {name: value for name, value in PLAIN.items() if name != jaas}
        for settings, expected in (
            (without, jaas),
            ({**PLAIN, MECHANISM: "OAUTHBEARER"}, f"{MECHANISM}: brokers do not log in to each other by OAUTHBEARER"),
            ({**PLAIN, ENABLED: "SCRAM-SHA-256"}, f"{ENABLED} lacks PLAIN"),
            ({**PLAIN, jaas: 'x.ScramLoginModule required username="broker" password="secret";'}, "PlainLoginModule"),
            ({**PLAIN, jaas: 'x.PlainLoginModule required user_broker="secret";'}, "lacks username or password"),
            ({**PLAIN, jaas: "secret"}, f"{jaas}: it is not of the shape"),
        ):
            with self.subTest(expected):
                said = str(self.assertRaises(ConfigError, read, settings))
                self.assertIn(expected, said)
                self.assertNotIn("secret", said)
