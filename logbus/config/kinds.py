"""
Kinds of configuration values: parse a text into a typed value, and describe what is accepted (Kafka: ConfigDef.Type).

A :class:`Kind` is independent of keys and layers; :mod:`logbus.config.config_key` adds a name.
Texts are trimmed, and numbers are parsed as in Java (no ``1_000``, only ASCII digits), so that a file means the same as
in Kafka.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from typing import Generic, TypeVar

from attrs import frozen

T = TypeVar("T")

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_REPLICA = re.compile(r"[0-9]+:[0-9]+")


class ConfigType(IntEnum):
    """The types of values in DescribeConfigs responses (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_BOUNDS = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), INT_MAX),
    ConfigType.LONG: (-(2**63), LONG_MAX),
}


@frozen(eq=False)
class Kind(Generic[T]):
    """
    A kind of value.

    :ivar parse: converts a trimmed text to a value; raises ValueError, whose message is not shown, if it is invalid.
    :ivar format: converts a value to a text that ``parse`` reads back.
    :ivar accepts: describes valid texts, to follow "accepted:".
    :ivar choices: the words that are valid, if there are few.
    """

    type: ConfigType
    parse: Callable[[str], T]
    format: Callable[[T], str]
    accepts: str
    choices: tuple[str, ...] = ()


def boolean() -> Kind[bool]:
    """``true`` or ``false``, in any case."""

    def parse(text: str) -> bool:
        try:
            return {"true": True, "false": False}[text.lower()]
        except KeyError:
            raise ValueError(text) from None

    return Kind(ConfigType.BOOLEAN, parse, lambda value: "true" if value else "false", "true or false")


def integer(type: ConfigType, at_least: int | None = None, at_most: int | None = None) -> Kind[int]:
    """A whole number of the type's width, within the bounds given (inclusive)."""
    lowest, highest = _BOUNDS[type]
    low = lowest if at_least is None else at_least
    high = highest if at_most is None else at_most

    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise ValueError(text)
        value = int(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return Kind(type, parse, str, f"a whole number from {low} to {high}")


def number_or(kind: Kind[int], special: int) -> Kind[int]:
    """``kind``, or a number beyond its bounds that means something else."""

    def parse(text: str) -> int:
        return special if _INTEGER.fullmatch(text) and int(text) == special else kind.parse(text)

    return Kind(kind.type, parse, kind.format, f"{special}, or {kind.accepts}")


def count_or_auto() -> Kind[int]:
    """A whole number, at least 1, or ``auto``, which is 0."""
    count = integer(ConfigType.INT, 1, 1024)

    def parse(text: str) -> int:
        return 0 if text == "auto" else count.parse(text)

    return Kind(ConfigType.STRING, parse, lambda value: str(value) if value else "auto", f"auto, or {count.accepts}")


def decimal(at_least: float = -math.inf, at_most: float = math.inf) -> Kind[float]:
    """A finite decimal number within the bounds given (inclusive)."""

    def parse(text: str) -> float:
        if not _DECIMAL.fullmatch(text):
            raise ValueError(text)
        value = float(text)
        if not (math.isfinite(value) and at_least <= value <= at_most):
            raise ValueError(text)
        return value

    bounds = [f"from {at_least:g}"] if math.isfinite(at_least) else []
    bounds += [f"to {at_most:g}"] if math.isfinite(at_most) else []
    return Kind(ConfigType.DOUBLE, parse, repr, " ".join(["a number", *bounds]))


def one_of(*choices: str) -> Kind[str]:
    """One of several words, case-sensitive."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return Kind(
        ConfigType.STRING, parse, str, "one of " + ", ".join(choice or "(empty)" for choice in choices), choices
    )


def string(type: ConfigType = ConfigType.STRING) -> Kind[str]:
    """Any text, the empty one included."""
    return Kind(type, str, str, "any text")


def password() -> Kind[str]:
    """A text that is never shown."""
    return string(ConfigType.PASSWORD)


def json_object() -> Kind[dict[str, object]]:
    """A JSON object, whose text is never shown."""

    def parse(text: str) -> dict[str, object]:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError(text)
        return found

    return Kind(ConfigType.PASSWORD, parse, json.dumps, 'a JSON object, such as {"key": "value"}')


def optional(kind: Kind[T]) -> Kind[T | None]:
    """``kind``, or None when the text is empty."""

    def parse(text: str) -> T | None:
        return kind.parse(text) if text else None

    def format(value: T | None) -> str:
        return "" if value is None else kind.format(value)

    return Kind(kind.type, parse, format, kind.accepts + ", or empty")


def listed(
    choices: Collection[str] | None = None, *, separator: str = ",", empty: bool = True
) -> Kind[tuple[str, ...]]:
    """
    A list of distinct texts, trimmed.

    :param choices: the allowed words, or None for any.
    :param empty: whether the list may be empty.
    """

    def parse(text: str) -> tuple[str, ...]:
        items = tuple(item for part in text.split(separator) if (item := part.strip()))
        if len(set(items)) != len(items) or not (items or empty):
            raise ValueError(text)
        if choices is not None and not set(items) <= set(choices):
            raise ValueError(text)
        return items

    what = "texts" if choices is None else "some of " + ", ".join(choices)
    between = {",": "commas", ";": "semicolons"}[separator]
    accepts = f"{what} with {between} between, each once" + ("" if empty else ", at least one")
    return Kind(ConfigType.LIST, parse, separator.join, accepts)


def throttled_replicas() -> Kind[tuple[str, ...]]:
    """``*``, or a list of replicas (KIP-73; Kafka: ThrottledReplicaListValidator)."""
    texts = listed()

    def parse(text: str) -> tuple[str, ...]:
        items = texts.parse(text)
        if items != ("*",) and not all(_REPLICA.fullmatch(item) for item in items):
            raise ValueError(text)
        return items

    accepts = "'*', or replicas as PARTITION:BROKER with commas between, each once"
    return Kind(ConfigType.LIST, parse, ",".join, accepts)


def expressions() -> Kind[tuple[str, ...]]:
    """A list of regular expressions; see :func:`split_expressions`."""
    accepts = "regular expressions with commas between, such as orders,bills-.*"
    return Kind(ConfigType.LIST, lambda text: tuple(split_expressions(text)), ",".join, accepts)


def split_expressions(text: str) -> list[str]:
    """The expressions of a list, separated by commas; those in braces and brackets belong to an expression."""
    found, depth, current = [], 0, ""
    for letter in text:
        depth += (letter in "{[(") - (letter in "}])")
        if letter == "," and depth <= 0:
            found.append(current.strip())
            current = ""
        else:
            current += letter
    return [each for each in [*found, current.strip()] if each]


def mapping(values: Collection[str] | None = None, *, whole_numbers: bool = False) -> Kind[Mapping[str, str]]:
    """
    ``key:value`` pairs separated by commas; the key ends at the last colon (it may be an IPv6 address).

    :param values: the allowed values, or None for any.
    :param whole_numbers: whether values are numbers from 0 to 2147483647.
    """

    def parse(text: str) -> Mapping[str, str]:
        pairs: dict[str, str] = {}
        for part in text.split(","):
            if not part.strip():
                continue
            key, colon, value = (piece.strip() for piece in part.rpartition(":"))
            if not (colon and key and value) or key in pairs:
                raise ValueError(text)
            if (values is not None and value not in values) or (
                whole_numbers and not (value.isascii() and value.isdigit() and int(value) <= INT_MAX)
            ):
                raise ValueError(text)
            pairs[key] = value
        return pairs

    right = "number" if whole_numbers else "value" if values is None else "|".join(values)
    return Kind(
        ConfigType.STRING,
        parse,
        lambda pairs: ",".join(f"{key}:{value}" for key, value in pairs.items()),
        f"name:{right} pairs with commas between, each name once",
    )
