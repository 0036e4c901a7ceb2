"""Tests of :mod:`logbus.admin.address_share`."""

from __future__ import annotations

import ipaddress

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.address_share import address_share


class AddressShareTests(SynchronousTestCase):
    """Who counts as one client."""

    def test_ipv4(self) -> None:
        """Each IPv4 address is one, also where it is written as IPv6; a UNIX socket has none."""
        self.assertEqual(address_share("10.0.0.1"), "10.0.0.1")
        self.assertEqual(address_share("::ffff:10.0.0.1"), "10.0.0.1")
        self.assertEqual(address_share(""), "")
        self.assertEqual(address_share("::1:odd"), "::1:odd")

    @given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
    def test_ipv6(self, one: int, other: int) -> None:
        """Addresses of one network are one client."""
        network = 0x20010DB8_00000001 << 64
        shares = {address_share(str(ipaddress.IPv6Address(network + low))) for low in (one, other)}
        self.assertEqual(shares, {"2001:db8:0:1::/64"})
        self.assertEqual(address_share("fe80::1%eth0"), "fe80::/64")
