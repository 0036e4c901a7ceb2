"""JSON as Avro values, compared with fastavro; and values that do not fit."""

from __future__ import annotations

from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given

from logbus.registry.avro_encoding import encode_value
from logbus.registry.avro_schema import read_avro
from tests.registry.test_avro_values import ORDER, ORDERS, read, written

MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
FIXED_MONEY = {**MONEY, "type": "fixed", "name": "Money", "size": 8}
HASH = {"type": "fixed", "name": "Hash", "size": 3}
STATE = {"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]}
TEA = {"type": "record", "name": "Tea", "fields": [{"name": "name", "type": "string"}, {"name": "g", "type": "int"}]}


def encode(schema: Any, value: Any) -> bytes:
    return encode_value(value, read_avro(schema, {}).type)


@given(ORDERS)
def test_as_fastavro(order: Any) -> None:
    """The bytes are those that fastavro writes."""
    assert encode(ORDER, order) == written(ORDER, order)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (MONEY, "-12.34"),
        (MONEY, "0.00"),
        (MONEY, "128.00"),
        (FIXED_MONEY, "-1.00"),
        (FIXED_MONEY, "1.28"),
        (HASH, "01 ab 00"),
        ("bytes", ""),
        ("double", "nan"),
        ("float", "-inf"),
        (["null", HASH, "bytes", "string"], "00 01"),
        (["float", "double"], 0.1),
        (["int", "long"], 1 << 40),
        ([{"type": "map", "values": "int"}, "int"], {"int": 5}),
    ],
)
def test_as_they_are_read(schema: Any, value: Any) -> None:
    """What was read is written so that it is read again."""
    assert read(schema, encode(schema, value)) == value


def test_decimals() -> None:
    """Their bytes are fastavro's, from text and from numbers."""
    for text in ("0", "1.27", "-1.28", "-327.68", "327.67", "999.99"):
        assert encode(MONEY, text) == written(MONEY, Decimal(text)) == encode(MONEY, float(text))


def test_named_branches() -> None:
    """The specification's own JSON names the branch, where a plain value does not fit."""
    schema = ["null", "string", TEA]
    assert encode(schema, {"string": "a"}) == encode(schema, "a") == written(schema, "a")
    tea = {"name": "sencha", "g": 2}
    assert encode(schema, {"Tea": tea}) == encode(schema, tea) == written(schema, tea)


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ("int", 1 << 31, "it is 2147483648, no int"),
        ("int", True, "it is true, no int"),
        ("int", "1", "it is '1', no int"),
        ("long", None, "it is null, no long"),
        ("string", [], "it is an array, no string"),
        ("string", "\ud800", "it has half of a surrogate pair, which is no character"),
        ("float", 1e300, "it is 1e+300, no float"),
        ("double", "many", "it is 'many', no double"),
        ("bytes", "no hex", "it is 'no hex', no bytes in hexadecimal"),
        ("bytes", 7, "it is 7, no bytes in hexadecimal"),
        (HASH, "01", "it has 1 bytes; Hash in hexadecimal has 3"),
        (STATE, "OLD", "it is 'OLD', no symbol of State (NEW, SENT)"),
        (MONEY, "1.234", "it is '1.234', no decimal of 5 digits, 2 of them behind the point"),
        (MONEY, "1234.56", "it is '1234.56', no decimal of 5 digits, 2 of them behind the point"),
        (MONEY, "nan", "it is 'nan', no decimal of 5 digits, 2 of them behind the point"),
        ({**FIXED_MONEY, "size": 1}, "9.99", "it has 2 bytes; fixed Money has 1"),
        (["null", "int"], "a", "it is 'a', no null or int"),
        (TEA, {"name": "sencha"}, "it has no 'g', a field of Tea"),
        (TEA, {"name": "sencha", "g": 2, "h": 3}, "it has 'h', no field of Tea: it has name, g"),
        (TEA, {"name": "sencha", "g": "2"}, "g is '2', no int"),
        (["null", TEA], {"name": "sencha"}, "it has no 'g', a field of Tea"),
        ({"type": "array", "items": TEA}, [{"name": "a", "g": 1}, 5], "it[1] is 5, no record Tea"),
        ({"type": "map", "values": "int"}, {"a": "b"}, "it['a'] is 'b', no int"),
    ],
)
def test_unfit(schema: Any, value: Any, told: str) -> None:
    """The error says where, what is there, and what would be right."""
    with pytest.raises(ValueError) as caught:
        encode(schema, value)
    assert str(caught.value) == told


def test_too_deep() -> None:
    """A value that nests as deep as it likes is refused."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}
    value: Any = {"r": None}
    for _ in range(50):
        value = {"r": value}
    with pytest.raises(ValueError, match="nested more than 40 deep"):
        encode(schema, value)


def test_fastavro_reads_them() -> None:
    """What is written is read by others."""
    data = encode(["null", TEA], {"name": "sencha", "g": 2})
    assert fastavro.schemaless_reader(BytesIO(data), fastavro.parse_schema(["null", TEA]), None) == {
        "name": "sencha",
        "g": 2,
    }
