"""
Settings as a test has them at hand: texts, numbers, bools and spans of time, by Kafka's names or in Python's spelling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

KIT_CLIENT_ID = "logbus-test-kit"
"""The client id of the client with which the kit looks at brokers."""

Setting = str | int | float | bool | timedelta | Sequence[str | int | float | bool]
"""A value of a configuration key."""

UNITS: Mapping[str, timedelta] = {
    "ms": timedelta(milliseconds=1),
    "seconds": timedelta(seconds=1),
    "minutes": timedelta(minutes=1),
    "hours": timedelta(hours=1),
}
"""The units of keys, which are the last parts of their names."""


def as_texts(config: Mapping[str, Setting]) -> dict[str, str]:
    """
    Settings as a properties file would have them: ``num.partitions`` and ``true``, ``3``, ``a,b``.

    A ``timedelta`` is a number of the unit that ends the key's name.

    :param config: by names, as Kafka has them (``num.partitions``) or with ``_`` for each dot (``num_partitions``).
    :raise TypeError: names the key whose value cannot be one.
    """
    if not isinstance(config, Mapping):
        raise TypeError(f"config is {config!r}; give a dict such as {{'num.partitions': 3}}")
    texts: dict[str, str] = {}
    for given, value in config.items():
        if not isinstance(given, str):
            raise TypeError(f"config: {given!r} is no key: expected a text such as 'num.partitions'")
        name = given if "." in given else given.replace("_", ".")
        if name in texts:
            raise TypeError(f"config: {name} is set twice, as {given}, too")
        if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
            texts[name] = ",".join(_text(name, each) for each in value)
        else:
            texts[name] = _text(name, value)
    return texts


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, timedelta):
        return _span(name, value)
    raise TypeError(f"config: {name}: {value!r} is not a text, a number, a bool, a timedelta or a list of them")


def _span(name: str, value: timedelta) -> str:
    unit = name.rpartition(".")[2]
    if unit not in UNITS:
        raise TypeError(f"config: {name}: {value!r} is a time, and the key has none: its name does not end in a unit")
    count, rest = divmod(value, UNITS[unit])
    if rest:
        raise TypeError(f"config: {name}: {value!r} is no whole number of {unit}")
    return str(count)
