"""logbus.addresses: one address is one, however it is written."""

from __future__ import annotations

import pytest

from logbus.addresses import canonical_address, unmapped_address


@pytest.mark.parametrize(
    ("host", "same"),
    [("::ffff:10.0.0.1", "10.0.0.1"), ("10.0.0.1", "10.0.0.1"), ("2001:db8::1", "2001:db8::1"), ("", "")],
)
def test_unmapped(host: str, same: str) -> None:
    """A client of IPv4 has its own address on a socket of IPv6; others stay as they are."""
    assert unmapped_address(host) == same


@pytest.mark.parametrize(
    ("host", "same"),
    [
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("FE80::0:1%eth0", "fe80::1"),
        ("2001:db8:0:0:0:0:0:5", "2001:db8::5"),
        ("", ""),
        ("x", "x"),
    ],
)
def test_canonical(host: str, same: str) -> None:
    """Of several ways to write an address there is one; what is no address stays as it is."""
    assert canonical_address(host) == same
