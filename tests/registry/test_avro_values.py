"""Avro values as people read them, compared with fastavro; and hostile ones."""

from __future__ import annotations

import json
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logbus.registry.avro_schema import read_avro
from logbus.registry.avro_values import MOST_VALUES, read_value

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "count", "type": "int"},
        {"name": "paid", "type": "boolean"},
        {"name": "weight", "type": "double"},
        {"name": "size", "type": "float"},
        {"name": "to", "type": ["null", "string"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "prices", "type": {"type": "map", "values": "long"}},
        {"name": "parent", "type": ["null", "Order"]},
    ],
}
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)
ORDERS: Any = st.deferred(
    lambda: st.fixed_dictionaries(
        {
            "id": st.integers(-(1 << 63), (1 << 63) - 1),
            "count": st.integers(-(1 << 31), (1 << 31) - 1),
            "paid": st.booleans(),
            "weight": NUMBERS,
            "size": NUMBERS,
            "to": st.none() | st.text(),
            "state": st.sampled_from(["NEW", "SENT"]),
            "tags": st.lists(st.text(), max_size=5),
            "prices": st.dictionaries(st.text(), st.integers(-5, 1 << 40), max_size=5),
            "parent": st.none() | ORDERS,
        }
    )
)


def read(schema: Any, data: bytes) -> Any:
    return read_value(data, read_avro(schema, {}).type)


def written(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@given(ORDERS)
def test_as_fastavro_wrote_it(order: Any) -> None:
    """Every value comes back, and none that is cut or has more behind it."""
    data = written(ORDER, order)
    assert read(ORDER, data) == order
    for wrong in (data[:-1], data + b"\0"):
        with pytest.raises(ValueError, match="byte"):
            read(ORDER, wrong)


@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    """Whatever bytes there are, the result is JSON, or an error."""
    try:
        json.dumps(read(ORDER, data), allow_nan=False)
    except ValueError:
        pass


def test_for_people() -> None:
    """Bytes are hexadecimal, decimals are numbers, and what JSON has no number for is text."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    assert read(decimal, written(decimal, Decimal("-12.34"))) == "-12.34"
    assert read({"type": "fixed", "name": "F", "size": 3}, b"\x01\xab\x00") == "01 ab 00"
    assert read("double", written("double", float("nan"))) == "nan"
    assert read({"type": "array", "items": "int"}, b"\x03\x04\x02\x04\x00") == [1, 2], "a block with its size"


@pytest.mark.parametrize(
    ("schema", "data", "told"),
    [
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\x0f", "more than 5000 values"),
        ({"type": "array", "items": "null"}, b"\xf0\x2e" * 5, "more than 5000 values"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, b"", "nested more than"),
        ({"type": "array", "items": {"type": "array", "items": "null"}}, b"\x02", "within a value"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "number 1 of 1"),
        (["null", "int"], b"\x01", "number -1 of 2"),
        ("long", b"\xff" * 11, "more than ten bytes"),
        ("string", b"\x01", "within a value"),
        ("string", b"\xfe\xff\xff\xff\x0f", "within a value"),
    ],
)
def test_hostile(schema: Any, data: bytes, told: str) -> None:
    """What would take for ever, or is wrong, is told soon."""
    with pytest.raises(ValueError, match=told):
        read(schema, data)


def test_many_values() -> None:
    """So many are shown."""
    schema = {"type": "array", "items": "int"}
    assert len(read(schema, written(schema, [7] * (MOST_VALUES - 1)))) == MOST_VALUES - 1
