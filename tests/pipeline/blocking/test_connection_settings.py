"""Tests the connection settings."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.pipeline.blocking.connection_settings import ConnectionSettings
from logbus.pipeline.errors import OptionError


class SettingsTests(SynchronousTestCase):
    """How to reach brokers."""

    def test_jaas_passwords(self) -> None:
        """Both login modules, with any quoting."""
        for config in (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="a b" password="c\\"d;";',
            "org.apache.kafka.common.security.plain.PlainLoginModule  REQUIRED\n username='a b'  password='c\"d;' ; ",
            'kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule required user_x=1 username="a b" '
            'password="c\\"d;";',
        ):
            made = ConnectionSettings.from_options(
                {
                    "bootstrap.servers": "a:1",
                    "security.protocol": "sasl_plaintext",
                    "sasl.mechanism": "scram-sha-256",
                    "sasl.jaas.config": config,
                }
            )
            assert made.sasl is not None
            self.assertEqual((made.sasl.username, made.sasl.password), ("a b", 'c"d;'))
            self.assertEqual(made.sasl.mechanism, "SCRAM-SHA-256")

    def test_invalid_jaas_text(self) -> None:
        """The error says what shape it has."""
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        for config in ("x", f"{module} required;", f'{module} required username="a" password="b"', "x.Y required z=1;"):
            with self.assertRaises(OptionError) as caught:
                ConnectionSettings.from_options(
                    {
                        "bootstrap.servers": "a:1",
                        "security.protocol": "SASL_SSL",
                        "sasl.mechanism": "PLAIN",
                        "sasl.jaas.config": config,
                    }
                )
            self.assertIn("'sasl.jaas.config'", str(caught.exception))
