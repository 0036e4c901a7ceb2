"""Tests of :mod:`logbus.protocols`."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ConfigError
from logbus.ilogbus import IProtocolPlugin, Listener
from logbus.protocols import AdminPlugin, KafkaPlugin, parse_advertise, parse_listen, protocol_plugins


class PluginTests(SynchronousTestCase):
    def test_built_in(self) -> None:
        """
        Kafka and HTTP are found as plugins, like other protocols.
        """
        found = protocol_plugins()
        self.assertIsInstance(found["kafka"], KafkaPlugin)
        self.assertIsInstance(found["admin"], AdminPlugin)
        for plugin in found.values():
            self.assertTrue(IProtocolPlugin.providedBy(plugin))
            self.assertTrue(plugin.summary)


class ListenTests(SynchronousTestCase):
    def test_forms(self) -> None:
        """
        The name is the protocol's, unless another is given; the endpoint is Twisted's, whatever is in it.
        """
        for text, expected in (
            ("kafka:tcp:9092", Listener("kafka", "kafka", "tcp:9092")),
            ("in.side-1=kafka:tcp:0:interface=0.0.0.0", Listener("in.side-1", "kafka", "tcp:0:interface=0.0.0.0")),
            (r"kafka:tcp6:0:interface=\:\:1", Listener("kafka", "kafka", r"tcp6:0:interface=\:\:1")),
            ("s=kafka:ssl:1:privateKey=a=b.pem", Listener("s", "kafka", "ssl:1:privateKey=a=b.pem")),
            ("line-2:unix:/run/x", Listener("line-2", "line-2", "unix:/run/x")),
        ):
            with self.subTest(text):
                self.assertEqual(parse_listen(text), expected)

    def test_not_of_this_form(self) -> None:
        """
        Invalid values are named, with a valid example.
        """
        for text in ("", "9092", "kafka", "kafka:", "=kafka:tcp:1", "a b=kafka:tcp:1", "KAFKA:tcp:1"):
            with self.subTest(text):
                error = self.assertRaises(ConfigError, parse_listen, text)
                self.assertIn("expected [NAME=]PROTOCOL:ENDPOINT, such as kafka:tcp:9092", str(error))


class AdvertiseTests(SynchronousTestCase):
    def test_forms(self) -> None:
        """
        Names, IPv4 and IPv6 addresses in brackets.
        """
        self.assertEqual(parse_advertise("kafka=log.example.org:9092"), ("kafka", ("log.example.org", 9092)))
        self.assertEqual(parse_advertise("in=10.0.0.1:1"), ("in", ("10.0.0.1", 1)))
        self.assertEqual(parse_advertise("six=[::1]:65535"), ("six", ("::1", 65535)))

    def test_not_of_this_form(self) -> None:
        """
        Invalid values are named, with a valid example.
        """
        for text in (
            "",
            "kafka",
            "kafka=host",
            "host:9092",
            "kafka=:9092",
            "kafka=host:0",
            "kafka=host:65536",
            "k=::1:1",
        ):
            with self.subTest(text):
                error = self.assertRaises(ConfigError, parse_advertise, text)
                self.assertIn("expected NAME=HOST:PORT", str(error))
