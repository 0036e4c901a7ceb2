"""Which addresses share one client's part of limits. Pure."""

from __future__ import annotations

import ipaddress

_IPV6_PREFIX = 64
"""Whoever has an IPv6 address usually has the 2^64 of its network."""


def address_share(host: str) -> str:
    """
    Return what an address counts as: an IPv4 address for itself, an IPv6 address for its network.

    :param host: an address; empty on a UNIX socket.
    """
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, _IPV6_PREFIX), strict=False))
