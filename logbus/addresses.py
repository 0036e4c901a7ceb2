"""Addresses of hosts as text. Pure."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

_MAPPED = "::ffff:"


def unmapped_address(host: str) -> str:
    """Return a client's address as Java has it: that of a client of IPv4 also where it came to a socket of IPv6."""
    return host.removeprefix(_MAPPED) if "." in host else host


@lru_cache(1024)
def canonical_address(host: str) -> str:
    """Return the one way to write an address: IPv4 also if it comes by IPv6, and without a zone."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    return str(address if mapped is None else mapped)
