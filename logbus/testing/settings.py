"""
Settings as a test has them at hand: texts, numbers and bools by Kafka's names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Setting = str | int | float | bool | Sequence[str | int | float | bool]
"""A value of a configuration key."""


def as_texts(config: Mapping[str, Setting]) -> dict[str, str]:
    """
    Settings as a properties file would have them: ``true``, ``3``, ``a,b``.

    :raise TypeError: names the key whose value cannot be one.
    """
    texts: dict[str, str] = {}
    for name, value in config.items():
        if not isinstance(name, str):
            raise TypeError(f"config: {name!r} is no key: expected a text such as 'num.partitions'")
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
    raise TypeError(f"config: {name}: {value!r} is not a text, a number, a bool or a list of them")
