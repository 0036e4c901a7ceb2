"""JSON of schemas: what is too deep, or what two readers could take differently, is refused."""

from __future__ import annotations

import json
import re
from typing import Any

from logbus.registry.errors import invalid_schema

_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def loads(text: str, depth: int) -> Any:
    """
    Read a schema's text.

    :param depth: levels that it may nest.
    :raise RegistryRefusal: it is not JSON, nests deeper, names a member twice, or has a number that is none.
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
    """The shortest text for a value, its members in their order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def normal(value: Any) -> str:
    """The text that is the same for the same value, whatever the order of its members was."""
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
