"""Parses bootstrap addresses: ``localhost:9092``, ``a:9092,b:9092``, ``[::1]:9092``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from logbus.errors import ConfigError

DEFAULT_PORT = 9092


def parse_bootstrap(text: str | Iterable[str]) -> list[tuple[str, int]]:
    """
    Parse ``HOST[:PORT]``, a list of them, or several separated by commas; the default port is 9092.

    :raises ConfigError: a part is not an address; the message names it.
    """
    addresses = []
    if not isinstance(text, str):
        is_list = isinstance(text, Iterable) and not isinstance(text, (bytes, Mapping))
        parts: list[Any] = list(text) if is_list else [text]
        for part in parts:
            if not isinstance(part, str):
                raise ConfigError(f"{part!r} is not an address of a broker; write HOST:PORT, such as '127.0.0.1:9092'")
        text = ",".join(parts)
    for part in filter(None, (part.strip() for part in text.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or part.endswith("]"):
            host, port = part, str(DEFAULT_PORT)
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if (
            not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)
            or not bare
            or (":" in bare and bare == host)
        ):
            raise ConfigError(f"{part!r} is not an address of a broker; write HOST:PORT, such as 127.0.0.1:9092")
        addresses.append((bare, int(port)))
    if not addresses:
        raise ConfigError("no bootstrap address is given; write HOST:PORT, such as 127.0.0.1:9092")
    return addresses
