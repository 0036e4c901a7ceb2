"""
Checks that values fit an Avro schema where fastavro would write others.

It writes an ``int`` of more than 32 bits as bytes that no ``int`` has, 1.5 as an ``int`` without its fraction, 1e300 as
a ``float`` that is infinite, and any value as a ``boolean``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

Check = Callable[[Any], str]
"""Returns what is wrong with a value, with the path to it; "": nothing."""

_BITS = {"int": 32, "long": 64}
_NULL = "null"


def fit_check(schema: Any) -> Check:
    """The check of a schema, as ``fastavro.parse_schema`` returns it: with full names."""
    checks: dict[str, Check] = {}
    return _check(schema, checks) or (lambda value: "")


def _check(schema: Any, checks: dict[str, Check]) -> Check | None:
    """
    The check of a schema; None: every value that fastavro writes fits.

    :param checks: of named types, which may contain themselves.
    """
    if isinstance(schema, str):
        if schema in _BITS:
            return _integer(schema, _BITS[schema])
        if schema in ("float", "boolean"):
            return _float if schema == "float" else _boolean
        # A named type, which may be complete only later.
        return None if schema in _PRIMITIVE else lambda value: checks[schema](value) if schema in checks else ""
    if isinstance(schema, list):
        # Of several types fastavro takes the one that fits, and compares the range of an int.
        others = [each for each in schema if each != _NULL]
        one = _check(others[0], checks) if len(others) == 1 else None
        return None if one is None else lambda value: "" if value is None else one(value)
    kind = schema["type"]
    if kind in ("record", "error"):
        return _record(schema, checks)
    if kind == "array":
        return _each(_check(schema["items"], checks), enumerate)
    if kind == "map":
        return _each(_check(schema["values"], checks), lambda value: value.items())
    return None if kind in ("enum", "fixed") else _check(kind, checks)


_PRIMITIVE = frozenset({_NULL, "double", "bytes", "string"})


def _record(schema: Mapping[str, Any], checks: dict[str, Check]) -> Check:
    parts: list[tuple[str, Check]] = []

    def check(value: Any) -> str:
        for name, part in parts:
            if name in value and (found := part(value[name])):
                return f".{name}{found}"
        return ""

    checks[schema["name"]] = check
    parts += [(each["name"], part) for each in schema["fields"] if (part := _check(each["type"], checks)) is not None]
    return check


def _each(part: Check | None, items: Callable[[Any], Any]) -> Check | None:
    if part is None:
        return None
    return lambda value: next((f"[{key!r}]{found}" for key, each in items(value) if (found := part(each))), "")


def _integer(name: str, bits: int) -> Check:
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def check(value: Any) -> str:
        if not isinstance(value, int | float | Decimal):
            return ""  # A date, or what fastavro refuses.
        if not math.isfinite(value) or value != int(value):
            return f": {value} is no {name}"
        return "" if least <= value <= most else f": {value} is no {name}, which has {bits} bits"

    return check


def _float(value: Any) -> str:
    try:
        struct.pack("<f", value)
    except OverflowError:
        return f": {value} is too large for a float"
    except struct.error:
        pass  # fastavro refuses it.
    return ""


def _boolean(value: Any) -> str:
    return "" if isinstance(value, bool) else f": {value!r} is no boolean"
