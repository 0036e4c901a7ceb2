"""Compares keywords of JSON Schema that constrain a single value: types, ranges, lengths, sets of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from logbus.registry.json_text import normal

ALL_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})

_OF = {
    "minimum": "number",
    "maximum": "number",
    "exclusiveMinimum": "number",
    "exclusiveMaximum": "number",
    "multipleOf": "number",
    "minLength": "string",
    "maxLength": "string",
    "pattern": "string",
    "minItems": "array",
    "maxItems": "array",
    "uniqueItems": "array",
    "required": "object",
    "minProperties": "object",
    "maxProperties": "object",
}
"""The type of value that each keyword constrains."""


@define
class NormalForms:
    """
    Normal forms of what is in two schemas, each made once: a branch of one is compared with many of the other.

    What is asked for must be a part of a schema, and stay: it is known by its identity.
    """

    _texts: dict[int, str] = field(factory=dict)
    _sets: dict[tuple[int, str], frozenset[str]] = field(factory=dict)

    def text(self, value: Any) -> str:
        """Return a value in normal form."""
        found = self._texts.get(id(value))
        if found is None:
            found = self._texts[id(value)] = normal(value)
        return found

    def values(self, schema: dict[str, Any], keyword: str) -> frozenset[str]:
        """Return the values that ``enum`` or ``const`` of a schema allows, in normal form."""
        found = self._sets.get((id(schema), keyword))
        if found is None:
            found = self._sets[id(schema), keyword] = frozenset(map(normal, _values(schema, keyword)))
        return found


def types_of(schema: dict[str, Any]) -> set[str]:
    """Return the types that a schema's ``type`` allows; numbers include integers."""
    given = schema.get("type")
    if given is None:
        return set(ALL_TYPES)
    types = {given} if isinstance(given, str) else set(given)
    return types | {"integer"} if "number" in types else types


def implies_bound(
    keyword: str,
    wanted: dict[str, Any],
    writers: Sequence[dict[str, Any]],
    types: set[str],
    dialect: int,
    forms: NormalForms,
) -> bool | None:
    """
    Return whether the ``writers`` together imply a keyword of the reader.

    :param types: the types that the writers allow.
    :return: None if the keyword is not one of these.
    """
    value = wanted[keyword]
    if keyword == "type":
        return types <= types_of(wanted) or _values_are(writers, types_of(wanted), dialect)
    if keyword == "enum" or (keyword == "const" and dialect >= 6):
        mine = forms.values(wanted, keyword)
        return any(found <= mine for found in _sets(writers, dialect, forms))
    about = _OF.get(keyword)
    if about is None:
        return None
    if about not in types and not (about == "number" and "integer" in types):
        return True
    if keyword in ("minimum", "exclusiveMinimum"):
        return _bounded(_low(wanted, dialect), [_low(each, dialect) for each in writers], 1)
    if keyword in ("maximum", "exclusiveMaximum"):
        return _bounded(_high(wanted, dialect), [_high(each, dialect) for each in writers], -1)
    if keyword.startswith("min"):
        return value <= 0 or any(each.get(keyword, 0) >= value for each in writers)
    if keyword.startswith("max"):
        return any(keyword in each and each[keyword] <= value for each in writers)
    if keyword == "multipleOf":
        return any("multipleOf" in each and _multiple(each["multipleOf"], value) for each in writers)
    if keyword == "uniqueItems":
        return not value or any(each.get("uniqueItems") is True for each in writers)
    if keyword == "required":
        return set(value) <= {name for each in writers for name in each.get("required", ())}
    return any(each.get(keyword) == value for each in writers)


def _values(schema: dict[str, Any], keyword: str) -> list[Any]:
    return list(schema["enum"]) if keyword == "enum" else [schema["const"]]


def _sets(writers: Sequence[dict[str, Any]], dialect: int, forms: NormalForms) -> list[frozenset[str]]:
    """Return the sets of values to which writers are limited."""
    return [
        forms.values(each, keyword)
        for each in writers
        for keyword in ("enum", "const")
        if keyword in each and (keyword == "enum" or dialect >= 6)
    ]


def _values_are(writers: Sequence[dict[str, Any]], types: set[str], dialect: int) -> bool:
    """Return whether a writer allows only values of these types."""
    return any(
        all(_type(value) in types for value in _values(each, keyword))
        for each in writers
        for keyword in ("enum", "const")
        if keyword in each and (keyword == "enum" or dialect >= 6)
    )


def _type(value: Any) -> str:
    if value is None:
        return "null"
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "object"


def _low(schema: dict[str, Any], dialect: int) -> list[tuple[float, int]]:
    """Return the lower bounds: a number, and 1 if it is exclusive."""
    return _edges(schema, "minimum", "exclusiveMinimum", dialect, 1)


def _high(schema: dict[str, Any], dialect: int) -> list[tuple[float, int]]:
    """Return the upper bounds: a number, and −1 if it is exclusive."""
    return _edges(schema, "maximum", "exclusiveMaximum", dialect, -1)


def _edges(schema: dict[str, Any], inclusive: str, exclusive: str, dialect: int, sign: int) -> list[tuple[float, int]]:
    if dialect == 4:
        return [(schema[inclusive], sign if schema.get(exclusive) is True else 0)] if inclusive in schema else []
    edges = [(schema[inclusive], 0)] if inclusive in schema else []
    return [*edges, *([(schema[exclusive], sign)] if exclusive in schema else [])]


def _bounded(mine: list[tuple[float, int]], theirs: list[list[tuple[float, int]]], sign: int) -> bool:
    """Return whether for each of my bounds one of theirs is at least as narrow."""
    return all(
        any((edge >= wanted) if sign > 0 else (edge <= wanted) for each in theirs for edge in each) for wanted in mine
    )


def _multiple(theirs: Any, mine: Any) -> bool:
    if isinstance(theirs, int) and isinstance(mine, int):
        return theirs % mine == 0
    return bool(theirs == mine)
