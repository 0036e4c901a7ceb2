"""
The addresses in ``listeners``, ``advertised.listeners`` and ``admin.listeners``: ``NAME://host:port`` (Kafka:
EndPoint).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from logbus.config.kinds import ConfigType, Kind

_LISTENER = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]+)://(\[(?P<v6>[0-9A-Fa-f:.%a-z]+)\]|(?P<host>[^\s:/\[\]]*)):(?P<port>[0-9]{1,5})"
)


class ListenerAddress(NamedTuple):
    """
    The address of a listener.

    :ivar name: upper case, as Kafka normalises it; ``http`` or ``https`` in ``admin.listeners``.
    :ivar host: without brackets; empty means every interface.
    :ivar port: 0 means any free port.
    """

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def _parse(text: str) -> tuple[ListenerAddress, ...]:
    found: list[ListenerAddress] = []
    for part in text.split(","):
        match = _LISTENER.fullmatch(part.strip())
        if match is None or int(match["port"]) > 65535:
            raise ValueError(part)
        found.append(ListenerAddress(match["name"].upper(), match["v6"] or match["host"] or "", int(match["port"])))
    if len({listener.name for listener in found}) != len(found):
        raise ValueError(text)
    return tuple(found)


HTTP, HTTPS = "http", "https"


def _parse_http(text: str) -> tuple[ListenerAddress, ...]:
    if not text.strip():
        return ()
    found = [_LISTENER.fullmatch(part.strip()) for part in text.split(",")]
    addresses: list[ListenerAddress] = []
    for match in found:
        scheme = "" if match is None else match["name"].lower()
        if match is None or scheme not in (HTTP, HTTPS) or int(match["port"]) > 65535:
            raise ValueError(text)
        addresses.append(ListenerAddress(scheme, match["v6"] or match["host"] or "", int(match["port"])))
    return tuple(addresses)


def http_listener_list() -> Kind[tuple[ListenerAddress, ...]]:
    """A list of HTTP addresses, possibly empty, separated by commas."""
    return Kind(
        ConfigType.LIST,
        _parse_http,
        lambda value: ",".join(map(str, value)),
        "http://host:port or https://host:port with commas between, port from 0 to 65535, or empty",
    )


def listener_list() -> Kind[tuple[ListenerAddress, ...]]:
    """A non-empty list of listeners with distinct names, separated by commas."""
    return Kind(
        ConfigType.LIST,
        _parse,
        lambda value: ",".join(map(str, value)),
        "NAME://host:port with commas between, each NAME once, port from 0 to 65535",
    )
