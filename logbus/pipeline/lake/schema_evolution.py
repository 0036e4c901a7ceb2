"""
Schema evolution of a table: which schemas new rows may have. Schemas are Spark's JSON. Pure.

New rows may add columns, which are null in older rows, or lack some. A column's type cannot change. Names that differ
in case only are the same name in Spark, so they cannot be two columns.
"""

from __future__ import annotations

import json
from typing import Any

from logbus.pipeline.errors import LakeError


def merged_schema(table: str, old: Any, new: Any) -> Any:
    """
    Merge the schema of new rows into the table's.

    :param old: of the table; None before its first rows.
    :raise LakeError: a column would change its type, or its name differs in case; it names the column and both.
    """
    if old is None:
        return new
    return {**old, "fields": _fields(table, "", old["fields"], new["fields"])}


def _fields(table: str, path: str, old: list[Any], new: list[Any]) -> list[Any]:
    fields = {each["name"]: each for each in old}
    spellings = {name.lower(): name for name in fields}
    for each in new:
        before = fields.get(each["name"])
        if before is None and (other := spellings.get(each["name"].lower())):
            raise LakeError(
                f"{table}: column {path + each['name']!r} of the new rows and {path + other!r} differ in case "
                "only: call it by one name"
            )
        spellings[each["name"].lower()] = each["name"]
        fields[each["name"]] = each if before is None else _field(table, path + each["name"], before, each)
    return list(fields.values())


def _field(table: str, path: str, old: Any, new: Any) -> Any:
    before, after = old["type"], new["type"]
    if isinstance(before, dict) and isinstance(after, dict) and before["type"] == after["type"] == "struct":
        return {**old, "type": {**before, "fields": _fields(table, f"{path}.", before["fields"], after["fields"])}}
    if _bare(before) != _bare(after):
        raise LakeError(
            f"{table}: column {path!r} is {_said(before)} in the table and {_said(after)} in the new rows; load these "
            "into a table of their own, or change the schema that they are read with"
        )
    return old


def has_more(old: Any, merged: Any) -> bool:
    """Whether a merged field has more than the table's; None: the table lacks it."""
    return old is None or bool(_bare(old["type"]) != _bare(merged["type"]))


def _bare(kind: Any) -> Any:
    """A type without nullability and metadata."""
    if isinstance(kind, dict):
        return {
            key: _bare(value)
            for key, value in kind.items()
            if key not in ("nullable", "metadata") and "Null" not in key
        }
    return [_bare(each) for each in kind] if isinstance(kind, list) else kind


def _said(kind: Any) -> str:
    return kind if isinstance(kind, str) else json.dumps(_bare(kind), separators=(",", ":"))
