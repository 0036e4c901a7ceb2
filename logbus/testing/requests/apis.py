"""Kafka's APIs by name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache

from logbus.errors import LogbusError
from logbus.wire.messages import api_keys, api_name

ANY = "*"
"""Stands for every API."""

OWN_APIS = 1000
"""The first key of the APIs that only brokers of this project have among themselves."""


class WrongRequest(LogbusError, ValueError):
    """Something that a test said about requests cannot be: the message says what would be right."""


@cache
def apis_by_name() -> Mapping[str, int]:
    """The keys of Kafka's APIs that a broker serves, by name."""
    return {api_name(key): key for key in sorted(api_keys()) if key < OWN_APIS}


def api_key_of(api: str | int) -> int | None:
    """
    The key of an API.

    :param api: Kafka's name, in any case, or its key; :data:`ANY` for all.
    :returns: None for all.
    :raise WrongRequest: there is no such API.
    """
    known = apis_by_name()
    if isinstance(api, int) and not isinstance(api, bool):
        if api in known.values():
            return api
        raise WrongRequest(f"there is no API {api}: expected the key of one that a broker serves, such as 0 (Produce)")
    if not isinstance(api, str):
        raise WrongRequest(f"api: {api!r} is neither a name such as 'Produce', nor a key such as 0, nor '*' for all")
    if api == ANY:
        return None
    for name, key in known.items():
        if name.lower() == api.lower():
            return key
    raise WrongRequest(f"there is no API {api!r}{alike(api, known)}")


def alike(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: those that are like it, or where all of them are."""
    by_lower = {each.lower(): each for each in known}
    found = [by_lower[each] for each in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]
    if not found:
        return f": expected one such as {', '.join(list(by_lower.values())[:3])}"
    return f"; did you mean {' or '.join(found)}?"
