"""Tests which values are encoded as Avro, and what is said of others."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from logbus.pipeline.errors import OptionError
from logbus.pipeline.functions.avro import avro_encoder
from logbus.pipeline.functions.column_function import WRITING, Malformed, MalformedValue, converted

DATE = {"type": "int", "logicalType": "date"}
NODE = {
    "type": "record",
    "name": "n.Node",
    "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": {"type": "array", "items": "Node"}}],
}


def order(kind: Any) -> str:
    """A record with one field."""
    return json.dumps({"type": "record", "name": "Order", "fields": [{"name": "pounds", "type": kind}]})


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("int", 2**31, "pounds: 2147483648 is no int, which has 32 bits"),
        ("int", -(2**31) - 1, "pounds: -2147483649 is no int, which has 32 bits"),
        ("int", 1.5, "pounds: 1.5 is no int"),
        ("long", Decimal("1.5"), "pounds: 1.5 is no long"),
        ("float", 1e300, r"pounds: 1e\+300 is too large for a float"),
        (["null", "float"], 1e300, r"pounds: 1e\+300 is too large for a float"),
        ("boolean", 2, "pounds: 2 is no boolean"),
        (DATE, 2**40, "pounds: 1099511627776 is no int"),
        ({"type": "array", "items": "int"}, [1, 2**31], r"pounds\[1\]: 2147483648 is no int"),
        ({"type": "map", "values": "int"}, {"a": 2**31}, r"pounds\['a'\]: 2147483648 is no int"),
        (NODE, {"v": 1, "next": [{"v": 2**31, "next": []}]}, r"pounds.next\[0\].v: 2147483648 is no int"),
    ],
)
def test_refused(kind: Any, value: Any, words: str) -> None:
    """A value that would be read as another one, or not at all; the field is named."""
    with pytest.raises(Malformed, match=f"^the value does not fit schema 7: {words}"):
        avro_encoder(7, order(kind))({"pounds": value})


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        ("int", 2**31 - 1, b"\xfe\xff\xff\xff\x0f"),
        ("int", -(2**31), b"\xff\xff\xff\xff\x0f"),
        ("int", 2.0, b"\4"),
        ("long", 2**31, b"\x80\x80\x80\x80\x10"),
        ("long", Decimal(7), b"\x0e"),
        ("float", float("inf"), b"\0\0\x80\x7f"),
        ("float", 3, b"\0\0@@"),
        ("boolean", True, b"\1"),
        (["null", "int"], None, b"\0"),
        (["null", "int", "long"], 2**31, b"\4\x80\x80\x80\x80\x10"),
        (DATE, datetime.date(1970, 1, 3), b"\4"),
        (NODE, {"v": 1, "next": []}, b"\2\0"),
        ("double", 1e300, b"\x9cu\0\x88<\xe47~"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", b"\2"),
    ],
)
def test_written(kind: Any, value: Any, written: bytes) -> None:
    """What fits is written."""
    assert avro_encoder(7, order(kind))({"pounds": value}) == b"\0\0\0\0\7" + written


def test_alone() -> None:
    """A value need not be a record."""
    with pytest.raises(Malformed, match=r"^the value does not fit schema 7: 2147483648 is no int, which has 32 bits$"):
        avro_encoder(7, '"int"')(2**31)


def test_the_hint_is_for_reading() -> None:
    """Functions that write have no mode, and so do not advise one."""
    with pytest.raises(MalformedValue, match=r"^to_avro: the value does not fit schema 7: 2147483648 .* 32 bits$"):
        converted("to_avro", pa.array([2**31]), avro_encoder(7, '"int"'), pa.binary(), WRITING)


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_a_column_of_text(mode: str) -> None:
    """A function that reads is given bytes; another column is a mistake in the query, whatever the mode."""
    with pytest.raises(OptionError, match=r"^from_avro reads a binary column, and this one is string: "):
        converted("from_avro", pa.array(["text", None]), bytes, pa.string(), mode)
    for kind in (pa.binary(), pa.large_binary(), pa.null()):
        assert converted("from_avro", pa.array([None], kind), bytes, pa.string(), mode).to_pylist() == [None]
