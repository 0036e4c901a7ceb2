"""
Which columns of a table say what of a record, and whether they can. Pure.

Types are told apart by Spark's own names of them (``simpleString``), so that nothing of Spark is needed here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import frozen

from logbus.pipeline.errors import ColumnError

_BYTES = ("string", "binary")
_HEADERS = ("array<struct<key:string,value:binary>>",)
TYPES = {
    "value": _BYTES,
    "key": _BYTES,
    "headers": _HEADERS,
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
"""What each column may be."""


@frozen
class Columns:
    """
    Which of the columns there are, besides ``value``.

    :ivar topic: rows go where it says: there is no option that wins over it.
    """

    key: bool = False
    headers: bool = False
    topic: bool = False
    partition: bool = False
    timestamp: bool = False


def columns_of(fields: Iterable[tuple[str, Any]], topic: str | None) -> Columns:
    """
    Look at the columns of what is to be written; those that no record has are passed over. Names are told apart without
    regard to case, as Spark does.

    :param fields: name and type of each.
    :param topic: the option.
    :raises ColumnError: names the column that is missing or wrong, and what it takes.
    """
    found: dict[str, str] = {}
    for spelled, kind in fields:
        name = spelled.lower()
        if name not in TYPES:
            continue
        if name in found:
            raise ColumnError(f"there are two columns {name!r}; the sink needs to know which is meant")
        found[name] = str(kind)
    if "value" not in found:
        raise ColumnError(f"column 'value' is missing; it is required, and takes {_either(TYPES['value'])}")
    if topic is None and "topic" not in found:
        raise ColumnError("where do rows go? Give the option 'topic', or a column 'topic', which takes string")
    for name, kind in found.items():
        if kind not in TYPES[name]:
            raise ColumnError(f"column {name!r} is {kind}; it takes {_either(TYPES[name])}")
    return Columns(
        key="key" in found,
        headers="headers" in found,
        topic=topic is None,
        partition="partition" in found,
        timestamp="timestamp" in found,
    )


def _either(types: tuple[str, ...]) -> str:
    return " or ".join(types)
