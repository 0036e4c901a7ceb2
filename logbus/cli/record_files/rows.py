"""Records of formats that have columns: Avro and Parquet. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from logbus.cli.input_records import InputRecord
from logbus.cli.record_filter import AnyRecord
from logbus.records.record import readable_name

COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")


def check_columns(names: Collection[str]) -> None:
    """
    Check that a file is of records.

    :raise ValueError: it has no column ``value``.
    """
    if "value" not in names:
        raise ValueError(f"it has no column 'value'; there are {', '.join(sorted(names)) or 'none'}")


def row_of(partition: int, record: AnyRecord) -> dict[str, Any]:
    """Return a record's row: the columns of :data:`COLUMNS`; ``timestamp`` in milliseconds since 1970."""
    headers = [{"name": readable_name(name), "value": content} for name, content in record.headers]
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": record.key,
        "value": record.value,
        "headers": headers,
    }


def record_of(row: Mapping[str, Any]) -> InputRecord:
    """
    Return the record of a row. Text is sent in UTF-8.

    :raise ValueError: a column has a value of a wrong kind.
    """
    timestamp = _number(row, "timestamp")
    return InputRecord(
        _content(row.get("key"), "key"),
        _content(row.get("value"), "value"),
        _headers(row.get("headers")),
        _number(row, "partition"),
        None if timestamp == -1 else timestamp,
    )


def _content(value: object, name: str) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    if value is None or isinstance(value, bytes):
        return value
    raise ValueError(f"its {name} is neither bytes nor text but {type(value).__name__}")


def _number(row: Mapping[str, Any], name: str) -> int | None:
    value = row.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and -1 <= value < 1 << 63):
        return value
    raise ValueError(f"its {name} is {value!r}; it must be a whole number")


def _headers(value: Any) -> Sequence[tuple[str, bytes | None]]:
    if value is None:
        return ()
    try:
        return [(_name(each["name"]), _content(each["value"], "header")) for each in value]
    except (TypeError, KeyError):
        raise ValueError("its headers are not structs of name and value") from None


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
