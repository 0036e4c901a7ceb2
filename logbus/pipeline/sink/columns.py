"""
Checks the columns of rows to be written: value, key, headers, topic, partition and timestamp. Pure.

Types are compared by Spark's names of them (``simpleString``), so that Spark is not imported here.
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
"""The accepted types of each column."""


@frozen
class SinkColumns:
    """
    Which columns the rows have, besides ``value``.

    :ivar topic: the column says where each row goes, since there is no option ``topic``.
    """

    key: bool = False
    headers: bool = False
    topic: bool = False
    partition: bool = False
    timestamp: bool = False


def sink_columns(fields: Iterable[tuple[str, Any]], topic: str | None) -> SinkColumns:
    """
    Check the columns of rows to be written; unknown ones are ignored. Names are not case-sensitive, as in Spark.

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
    return SinkColumns(
        key="key" in found,
        headers="headers" in found,
        topic=topic is None,
        partition="partition" in found,
        timestamp="timestamp" in found,
    )


def _either(types: tuple[str, ...]) -> str:
    return " or ".join(types)
