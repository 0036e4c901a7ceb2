"""Tests the parsing of Spark's DDL, and compares it with Spark's."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from unittest import TestCase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logbus.pipeline.errors import OptionError
from logbus.pipeline.payloads.ddl import fields_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOOD = (
    "user STRING, at TIMESTAMP",
    "a: int",
    "`a b``c` INT NOT NULL COMMENT 'x, ''y', c struct<d: array<map<string,decimal(10,2)>>, e:timestamp_ntz>",
    "struct<a:int, b: struct<c: date>>",
    "a tinyint, b smallint, c bigint, d real, e numeric(3, 1), f varchar(9), g char(2), h timestamp_ltz",
    "a boolean,\n b byte, c short, d long, e float, f double, g binary, h void, i variant, j dec, k date",
    "a string COLLATE UTF8_LCASE",
    "a interval day to second",
    "a struct<>",
    "1a int, _b int, select string",
)
WRONG = (
    *("user STRNG", "a NONSENSE", "a", "a int,", "a array<int", "int", "a-b int", "a array<>", "a map<int>"),
    *("a int not", "a int comment x", ", a int", "a struct<b>", "a map<int, >", "a decimal(", "a array", "a int b int"),
)


class ReadingTests(TestCase):
    """What is known without Spark."""

    def test_names_and_types(self) -> None:
        """Of nested fields, too, under the names that Spark's JSON has."""
        self.assertEqual(
            fields_of("`a b` INT, at: struct<x: timestamp> NOT NULL"),
            [
                {"name": "a b", "type": "integer"},
                {"name": "at", "type": {"type": "struct", "fields": [{"name": "x", "type": "timestamp"}]}},
            ],
        )

    def test_mistakes(self) -> None:
        """What is wrong, and what would be right."""
        for schema, words in (
            ("user STRNG", "there is no type STRNG; did you mean STRING?"),
            ("a", "the field 'a' has no type"),
            ("", "a field's name is missing at the end"),
            ("a int,", "a field's name is missing at the end"),
            ("a array<int", "a > behind what is in array<...> is missing at the end"),
            ("a decimal(", "a bracket is not closed"),
            ("a int b int", "a comma is missing before 'b'"),
        ):
            with self.assertRaises(OptionError) as e:
                fields_of(schema)
            self.assertEqual(str(e.exception), f"{schema!r} is no schema such as 'user STRING, at TIMESTAMP': {words}")

    @given(st.one_of(st.text("ab<>(),:` '\"", max_size=30), st.text(max_size=20)))
    def test_arbitrary_text(self, schema: str) -> None:
        """It is a schema, or an error, or for Spark to say."""
        try:
            found = fields_of(schema)
        except OptionError:
            return
        self.assertTrue(found is None or found)


def kinds(field: Any) -> Any:
    """A type without what is not read of it: the numbers in brackets, and what arrays and maps hold."""
    if isinstance(field, str):
        return field.partition("(")[0]
    return [(each["name"], kinds(each["type"])) for each in field.get("fields", ())]


def test_spark_agrees(spark: SparkSession) -> None:
    """On what is a schema, and on its names and types."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import DataType, StructType

    for schema in GOOD:
        wanted = json.loads(DataType.fromDDL(schema).json())
        if (found := fields_of(schema)) is not None:
            assert kinds({"fields": found}) == kinds(wanted), schema
    for schema in WRONG:
        with pytest.raises((PySparkException, AssertionError)):
            assert isinstance(DataType.fromDDL(schema), StructType), schema
        with suppress(OptionError):
            assert fields_of(schema) is None, schema
