"""
The columns of rows that hold the record's own metadata: topic, partition, offset, time, key and headers. Pure.

They are columns of the table, beside those of the event, or fields of one struct. A table has them in one way from its
first row on. A new one has columns, unless the event has a field with one of their names, which needs the struct.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from logbus.pipeline.errors import OptionError

METADATA = ("topic", "partition", "offset", "timestamp", "key")
"""The source's columns that are kept with the event's."""

METADATA_FIELDS: Sequence[Mapping[str, Any]] = [
    {"name": name, "type": kind}
    for name, kind in zip(METADATA, ("string", "integer", "long", "timestamp", "binary"), strict=True)
]
"""The same with their types, as in Spark's JSON."""

HEADERS = "headers"
HEADERS_FIELD: Mapping[str, Any] = {"name": HEADERS, "type": {"type": "array"}}
RECORD_COLUMNS = (*METADATA, HEADERS, "timestampType")
"""Names of the record's own columns, which no event's column beside them can have."""

COLUMNS = "columns"
"""The metadata are columns, and no struct."""

DEFAULT_STRUCT = "kafka"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_metadata(metadata: str) -> None:
    """
    Check what a user calls the struct.

    :raise OptionError: it is no name.
    """
    if metadata and not _NAME.fullmatch(metadata):
        raise OptionError(
            f"metadata is {metadata!r}; it takes {COLUMNS}, or the name of a column of letters, digits and _, such as "
            f"{DEFAULT_STRUCT}"
        )


def metadata_struct(names: Iterable[str], metadata: str) -> str:
    """
    The name of the struct with the metadata; "": they are columns.

    :param names: of the event's columns.
    :param metadata: :data:`COLUMNS`, or the name of the struct; "": a struct only if a name is taken.
    """
    if metadata:
        return "" if metadata == COLUMNS else metadata
    taken = {each.lower() for each in RECORD_COLUMNS}
    return DEFAULT_STRUCT if any(each.lower() in taken for each in names) else ""


def check_taken(names: Iterable[str], taken: Sequence[str], what: str, into: str = "") -> None:
    """
    Check that no column of an event has a reserved name.

    :param what: what the reserved names are, for the error.
    :param into: the name of the one column of the event, if there is one.
    :raise OptionError: one has.
    """
    lower = {each.lower() for each in taken}
    for name in names:
        if name.lower() not in lower:
            continue
        of = f"the name of {what} ({', '.join(sorted(taken))})"
        if into:
            raise OptionError(f"the event's column {into!r} has {of}: take another name (--into)")
        raise OptionError(
            f"the event's field {name!r} has {of}: put the event into a column of its own, such as --into event, where "
            f"the field is event.{name}"
        )


def metadata_of(schema: Mapping[str, Any] | None) -> str:
    """
    How a table has the metadata.

    :param schema: of the table, as Spark's JSON; None: it has no rows.
    :returns: :data:`COLUMNS`, or the name of the struct; "": it has none.
    """
    fields = [] if schema is None else schema["fields"]
    for each in fields:
        inner = each["type"]
        if isinstance(inner, dict) and inner.get("type") == "struct":
            names = [one["name"] for one in inner["fields"] if one["name"] != HEADERS]
            if names == list(METADATA):
                return str(each["name"])
    return COLUMNS if {each["name"] for each in fields} >= set(METADATA) else ""
