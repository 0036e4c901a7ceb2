"""Tests which records meet conditions."""

from __future__ import annotations

import json
from typing import Any
from unittest import TestCase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logbus.cli.record_filter import filter_of
from logbus.records.record import Record

ORDER = {"user": {"id": 7, "name": "zoë"}, "lines": [{"tea": "assam"}], "paid": True, "note": None, "n": "7"}


def a_record(value: bytes | None = None, key: bytes | None = None, headers: Any = ()) -> Record:
    """A record with default values."""
    return Record(3, 1000, key, value, headers)


class ConditionTests(TestCase):
    """A condition is a field, an operator and a text."""

    def meets(self, record: Record, *conditions: str, partition: int = 2) -> bool:
        """Whether a record of a partition meets the conditions."""
        return filter_of(conditions, ())(partition, record)

    def test_contents(self) -> None:
        """Keys, values and headers are compared with text; null differs from all text, and has nothing in it."""
        record = a_record(b"a=b", b"k1", (("trace", b"old"), ("trace", b"ab12"), ("none", None)))
        for condition, expected in (
            ("value=a=b", True), ("value=a", False), ("key!=k1", False), ("key~^k[0-9]$", True), ("key!~1", False),
            ("key>k0", True), ("key<k0", False), ("header.trace=ab12", True), ("header.trace~^old", False),
            ("header.absent=", False), ("header.absent!=x", True), ("header.none=", False), ("header.none!~.", True),
        ):  # fmt: skip
            self.assertIs(self.meets(record, condition), expected, condition)
        self.assertFalse(self.meets(a_record(), "value="))

    def test_numbers(self) -> None:
        """Partition, offset and timestamp are numbers."""
        record = a_record()
        for condition, expected in (
            ("offset=3", True), ("offset>=4", False), ("timestamp<1001", True), ("partition!=2", False),
        ):  # fmt: skip
            self.assertIs(self.meets(record, condition), expected, condition)

    def test_members(self) -> None:
        """Members of JSON have its types; a value that is no JSON, or has no such member, meets no equality."""
        record = a_record(json.dumps(ORDER).encode())
        for condition, expected in (
            ("value.user.id=7", True), ("value.user.id>=7", True), ("value.user.id>7.5", False), ("value.n=7", True),
            ("value.user.name=zoë", True), ("value.user.name~ë$", True), ("value.lines.0.tea=assam", True),
            ("value.lines.1.tea=assam", False), ("value.lines.1.tea!=assam", True), ("value.paid=true", True),
            ("value.paid=1", False), ("value.note=null", True), ("value.absent=null", False),
            ("value.user.name>9", True), ("value.user>9", False), ('value.user~"id": 7', True),
        ):  # fmt: skip
            self.assertIs(self.meets(record, condition), expected, condition)
        self.assertFalse(self.meets(a_record(b"{"), "value.user.id=7"))
        self.assertFalse(self.meets(a_record(b"[" * 100_000), "value.user.id=7"))

    def test_all_conditions(self) -> None:
        """A record must meet each of them, and each pattern must be found in its key or value."""
        record = a_record(b"green tea", b"42")
        self.assertTrue(filter_of(["key=42", "value~tea"], ["green", "^42$"])(0, record))
        self.assertFalse(filter_of(["key=42", "value~coffee"], [])(0, record))
        self.assertFalse(filter_of([], ["green", "red"])(0, record))

    def test_wrong_conditions(self) -> None:
        """Each is refused with what would be right."""
        for condition, expected in (
            ("key", "'key' is not FIELD=TEXT; besides = there are != ~ !~ < <= > >="),
            ("=a", "'=a' is not FIELD=TEXT; besides = there are "),
            ("kee=a", "'kee' is no field of a record; there are key, value, value.MEMBER "),
            ("header=a", "'header' is no field of a record; there are "),
            ("header.=a", "'header.' is no field of a record; there are "),
            ("offset=a", "offset is a number: 'a' cannot be compared with it by ="),
            ("offset~1", "offset is a number: '1' cannot be compared with it by ~"),
            ("key~[", "'[' is not a regular expression: unterminated character set at position 0"),
        ):
            with self.assertRaises(ValueError) as refused:
                filter_of([condition], [])
            self.assertTrue(str(refused.exception).startswith(f"--filter: {expected}"), str(refused.exception))
        with self.assertRaisesRegex(ValueError, "is not a regular expression"):
            filter_of([], ["("])

    @given(st.text(max_size=30), st.binary(max_size=30))
    def test_any_text(self, condition: str, value: bytes) -> None:
        """Whatever is given is a condition or refused, and each record meets it or does not."""
        try:
            wanted = filter_of([condition], [])
        except ValueError:
            return
        self.assertIn(wanted(0, a_record(value)), (True, False))


def test_operators_that_are_none() -> None:
    """What other languages have is refused with what is right here, instead of finding nothing."""
    for condition, right in (
        ("value.n==7", r"--filter: 'value.n==7': there is no operator ==, .*; value.n=7, or value.n~\^= for text"),
        ("value.n>>7", "no operator >>, .*; such as value.n>=7"),
        ("offset=>7", "no operator =>, .*; such as offset>=7"),
    ):
        with pytest.raises(ValueError, match=right):
            filter_of([condition], ())
    with pytest.raises(ValueError, match=r"--grep: .* is not a regular expression"):
        filter_of((), ["["])
