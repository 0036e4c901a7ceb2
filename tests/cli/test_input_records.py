"""Tests which records lines of input stand for."""

from __future__ import annotations

import json
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from logbus.cli.input_records import InputRecord, json_lines, lines
from logbus.cli.record_printer import record_format
from logbus.records.record import Record

CONTENT = st.none() | st.binary(max_size=20)
HEADERS = st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=5), CONTENT), max_size=3)


class JsonTests(TestCase):
    """A line is a JSON object."""

    @given(CONTENT, CONTENT, HEADERS, st.integers(-1, (1 << 63) - 1), st.integers(0, (1 << 31) - 1))
    def test_what_consume_prints(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        timestamp: int,
        partition: int,
    ) -> None:
        """Every record that is printed as JSON is read as the same record."""
        record = Record(offset=3, timestamp=timestamp, key=key, value=value, headers=headers)
        line = record_format(None, True, None)("letters", partition, record)
        expected = InputRecord(key, value, headers, partition, None if timestamp == -1 else timestamp)
        found = json_lines()(line)
        assert found is not None
        self.assertEqual(found._replace(headers=list(found.headers)), expected)
        anew = json_lines({"partition", "timestamp"})(line)
        assert anew is not None
        self.assertEqual((anew.partition, anew.timestamp, anew.value), (None, None, value))

    def test_other_values(self) -> None:
        """Numbers, objects and arrays are sent as JSON."""
        found = json_lines()(b'{"key": 7, "value": {"name": "\\u00e9", "of": [1, null, true]}}')
        self.assertEqual(found, InputRecord(b"7", '{"name":"é","of":[1,null,true]}'.encode()))

    def test_empty_lines(self) -> None:
        """They stand for no record."""
        self.assertIsNone(json_lines()(b""))
        self.assertIsNone(json_lines()(b" \r"))

    def test_wrong_lines(self) -> None:
        """Each is refused with what is wrong with it."""
        for line, expected in (
            (b"\xff", "it is not UTF-8 at byte 1"),
            (b"{", "it is not JSON: Expecting property name enclosed in double quotes at column 2"),
            (b'{"value": "cut', "it is not JSON: Unterminated string starting at column 11"),
            (b"[" * 100_000, "it is not JSON that can be read: it nests too deep"),
            (b'"a"', 'it is no JSON object, such as {"key": "a", "value": "b"}'),
            (b'{"value": NaN}', "it is not JSON: NaN is no number of JSON"),
            (b'{"key": "a"}', "it has no value; null is a tombstone"),
            (b'{"value": "a", "value": "b"}', "its member 'value' is there twice"),
            (b'{"value": "a", "value_base64": "YQ=="}', "it has both value and value_base64"),
            (b'{"value_base64": "?"}', "its value_base64 is not base64"),
            (b'{"value_base64": 5}', "its value_base64 is not base64"),
            (b'{"value": "\\ud800"}', "its value has half of a surrogate pair, which is no character"),
            (b'{"value": "a", "partition": -1}', "its partition is -1; it must be a whole number from 0 to 2147483647"),
            (b'{"value": "a", "timestamp": true}', "its timestamp is true; it must be a whole number from 0 to "),
            (b'{"value": "a", "headers": {}}', "its headers are no array, such as "),
            (b'{"value": "a", "headers": [1]}', "one of its headers is no object with name and value, such as "),
            (
                b'{"value": "a", "headers": [{"name": "n", "vlaue": "v"}]}',
                "its header 'n' has no value or value_base64",
            ),
        ):
            with self.assertRaises(ValueError) as refused:
                json_lines()(line)
            self.assertTrue(str(refused.exception).startswith(expected), str(refused.exception))
        with self.assertRaisesRegex(ValueError, "its member 'vlaue' is unknown; there are key, key_base64, value, "):
            json_lines()(json.dumps({"vlaue": 1}).encode())


class LineTests(TestCase):
    """A line is a value, or a key and a value."""

    def test_keys_and_tombstones(self) -> None:
        """The first separator counts; a value that stands for null is a tombstone."""
        found = lines(b"::", b"-")
        self.assertEqual(found(b"a::b::c"), InputRecord(b"a", b"b::c"))
        self.assertEqual(found(b"a::-"), InputRecord(b"a", None))
        self.assertEqual(lines(None, None)(b"a:b"), InputRecord(None, b"a:b"))
        with self.assertRaisesRegex(ValueError, "it has no '::' in it"):
            found(b"a:b")
