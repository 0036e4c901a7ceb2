"""Parses and normalizes the JSON of schemas; refuses deep nesting and ambiguous documents."""

from __future__ import annotations

import json
import re
from typing import Any

from logbus.registry.errors import invalid_schema

_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def loads(text: str, depth: int) -> Any:
    """
    Parse a schema's text.

    :param depth: the maximum depth of nesting.
    :raise RegistryRefusal: it is not JSON, is nested deeper, repeats a member, or has an invalid number.
    """
    level = 0
    for found in _STRUCTURE.finditer(text):
        if found[0] in "[{":
            level += 1
            if level > depth:
                raise invalid_schema(f"it nests deeper than {depth} levels")
        elif found[0] in "]}":
            level -= 1
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_float=_decimal, parse_constant=_constant)
        compact(value).encode("utf-8")
        return value
    except json.JSONDecodeError as e:
        raise invalid_schema(f"it is not JSON: {e.msg} at line {e.lineno}, column {e.colno}") from None
    except UnicodeEncodeError:
        raise invalid_schema("it has half of a surrogate pair, which is no character") from None
    except ValueError as e:
        raise invalid_schema(str(e)) from None


def compact(value: Any) -> str:
    """Encode a value without white space, keeping the order of members."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def normal(value: Any) -> str:
    """Encode a value in normal form, with sorted members."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the member {name[:100]!r} is there twice")
            seen.add(name)
    return members


def _decimal(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {digits[:50]} is too large")
    return value


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")
