"""Bootstrap addresses."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.cluster.addresses import parse_bootstrap
from logbus.errors import ConfigError


class AddressTests(SynchronousTestCase):
    def test_forms(self) -> None:
        """
        Hosts with and without ports, several of them, and IPv6 in brackets.
        """
        self.assertEqual(parse_bootstrap("a:1, b,[::1]:3,[::1]"), [("a", 1), ("b", 9092), ("::1", 3), ("::1", 9092)])

    def test_invalid_addresses(self) -> None:
        """The message names the part that is invalid."""
        for wrong in ("a:b", "a:0", "a:70000", ":9092", "::1", "::1:9092", "a:-1"):
            self.assertIn(repr(wrong), str(self.assertRaises(ConfigError, parse_bootstrap, f"ok:1,{wrong}")))
        self.assertRaises(ConfigError, parse_bootstrap, " , ")
