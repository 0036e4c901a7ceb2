"""
Records in JSON: bytes are text if they are UTF-8, and base64 otherwise. Pure.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from logbus.admin.json_schema import array, boolean, integer, nullable, object_schema, string
from logbus.records.record import Record, readable_name

MAX_SHOWN = 262_144
"""Bytes of a key, a value or a header that are shown at most."""

MAX_HEADERS = 100
"""Headers of a record that are shown, or may be written."""

SHOWN = nullable(
    object_schema(
        "Bytes: as text if they are UTF-8, else as base64; null: there are none.",
        text=string("The bytes, if they are UTF-8."),
        base64=string("The bytes in base64, if they are not UTF-8.", format="byte"),
        size=integer("How many bytes there are."),
        cut=boolean("Whether only the first ones are shown."),
        optional=("text", "base64"),
    )
)
RECORD = object_schema(
    "A record.",
    partition=integer("Number of the partition."),
    offset=integer("Its offset."),
    timestamp=integer("Milliseconds since 1970; -1: it has none."),
    key=SHOWN,
    value={**SHOWN, "description": "As the key; null: the record is a tombstone, which deletes its key."},
    headers=array("The record's headers, in order.", object_schema("A header.", name=string("Its name."), value=SHOWN)),
    headers_left_out=integer("How many more headers there are."),
)

GIVEN = nullable(
    object_schema(
        "Bytes: one member says which; null: none.",
        text=string("Text, which is written in UTF-8."),
        json={"description": "A JSON value, which is written in UTF-8, without spaces."},
        base64=string("Bytes in base64.", format="byte"),
        optional=("text", "json", "base64"),
    )
)
NEW_RECORD = object_schema(
    "A record to produce.",
    key=GIVEN,
    value={**GIVEN, "description": "As the key; null: a tombstone, which deletes its key from a compacted topic."},
    headers=array(
        "Headers, in order; names may repeat.",
        object_schema("A header.", name=string("Its name."), value=GIVEN),
        maxItems=MAX_HEADERS,
    ),
    timestamp=integer("Milliseconds since 1970; none: now.", minimum=0, maximum=2**63 - 1),
    partition=integer("The partition; none: chosen by the key, as Kafka's producers do.", minimum=0, maximum=2**31 - 1),
    optional=("key", "headers", "timestamp", "partition"),
)


def shown_bytes(data: bytes | None, most: int) -> dict[str, Any] | None:
    """
    Return bytes as JSON.

    :param most: how many bytes are shown; the last character is left out if it would be cut in two.
    """
    if data is None:
        return None
    part = data[:most]
    about = {"size": len(data), "cut": len(data) > most}
    try:
        return {"text": part.decode("utf-8"), **about}
    except UnicodeDecodeError as e:
        if about["cut"] and e.reason == "unexpected end of data" and len(part) - e.start < 4:
            return {"text": part[: e.start].decode("utf-8"), **about}
        return {"base64": b64encode(part).decode("ascii"), **about}


def record_json(partition: int, record: Record, most: int) -> tuple[dict[str, Any], int]:
    """
    Return a record as JSON, and about how many bytes it has there.

    :param most: bytes of a key, a value or a header that are shown.
    """
    headers = record.headers[:MAX_HEADERS]
    told = {
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": shown_bytes(record.key, most),
        "value": shown_bytes(record.value, most),
        "headers": [
            {"name": readable_name(name)[:most], "value": shown_bytes(content, most)} for name, content in headers
        ],
        "headers_left_out": len(record.headers) - len(headers),
    }
    contents = (record.key, record.value, *(content for _, content in headers))
    size = 100 + sum(min(most, len(content)) for content in contents if content is not None)
    return told, size + sum(50 + min(most, len(name)) for name, _ in headers)


def given_bytes(given: Mapping[str, Any] | None, where: str) -> bytes | None:
    """
    Return the bytes that JSON of the schema :data:`GIVEN` stands for.

    :param where: the member, for errors.
    :raise ValueError: it stands for none.
    """
    if given is None:
        return None
    if len(given) != 1:
        raise ValueError(f"{where} has {len(given)} members; it must have one of text, json and base64")
    ((form, content),) = given.items()
    if form == "text":
        return str(content).encode("utf-8")
    if form == "json":
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    try:
        return b64decode(content, validate=True)
    except ValueError as e:
        raise ValueError(f"{where}.base64 is not base64: {e}") from None


def given_record(given: Mapping[str, Any], where: str, now_ms: int) -> Record:
    """
    Return the record that JSON of the schema :data:`NEW_RECORD` stands for, without an offset.

    :raise ValueError: it stands for none.
    """
    headers = tuple(
        (header["name"], given_bytes(header["value"], f"{where}.headers[{number}].value"))
        for number, header in enumerate(given.get("headers", ()))
    )
    return Record(
        -1,
        given.get("timestamp", now_ms),
        given_bytes(given.get("key"), f"{where}.key"),
        given_bytes(given["value"], f"{where}.value"),
        headers,
    )
