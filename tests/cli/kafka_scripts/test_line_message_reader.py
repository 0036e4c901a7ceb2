"""Lines become records by the properties of Kafka's LineMessageReader."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.input_records import InputRecord
from logbus.cli.kafka_scripts.line_message_reader import LineMessageReader
from logbus.cli.kafka_scripts.option_parser import UsageError


def reader(**properties: str) -> LineMessageReader:
    """A reader; underscores stand for dots."""
    return LineMessageReader.of({name.replace("_", "."): value for name, value in properties.items()})


class LineMessageReaderTest(SynchronousTestCase):
    """What Kafka's reader makes of the same lines."""

    def test_value(self) -> None:
        """A line is a value, tabs and all; the carriage return of other systems is not part of it."""
        self.assertEqual(reader().record(b"a\tb", 1), InputRecord(None, b"a\tb"))
        self.assertEqual(reader().record(b"\xff\r", 1), InputRecord(None, b"\xff"))

    def test_key(self) -> None:
        """The first separator ends the key."""
        self.assertEqual(reader(parse_key="true").record(b"k\tv\tw", 1), InputRecord(b"k", b"v\tw"))
        self.assertEqual(reader(parse_key="true", key_separator="::").record(b"k::v", 1), InputRecord(b"k", b"v"))

    def test_headers(self) -> None:
        """Headers are before the key."""
        found = reader(parse_key="true", parse_headers="true", null_marker="NULL").record(b"a:1,b:NULL\tk\tNULL", 1)
        self.assertEqual(found, InputRecord(b"k", None, (("a", b"1"), ("b", None))))
        self.assertEqual(
            reader(parse_headers="true", null_marker="NULL").record(b"NULL\tv", 1), InputRecord(None, b"v")
        )

    def test_missing(self) -> None:
        """A line without a separator is refused in Kafka's words, or is a value."""
        with self.assertRaisesRegex(ValueError, "^No key separator found on line number 3: 'bad'$"):
            reader(parse_key="true").record(b"bad", 3)
        with self.assertRaisesRegex(ValueError, "^No headers delimiter found on line number 4: 'bad'$"):
            reader(parse_headers="true").record(b"bad", 4)
        with self.assertRaisesRegex(ValueError, "^No header key separator found in pair 'h' on line number 5$"):
            reader(parse_headers="true").record(b"h\tv", 5)
        self.assertEqual(reader(parse_key="true", ignore_error="true").record(b"bad", 3), InputRecord(None, b"bad"))

    def test_properties(self) -> None:
        """Unknown properties, empty separators and equal ones are refused."""
        for given_, wrong in (
            ({"parse_keys": "true"}, "parse.keys is not a property of the reader; there are parse.key, "),
            ({"key_separator": ""}, "key.separator is empty"),
            ({"parse_headers": "true", "headers_separator": ":"}, "may not be equal"),
        ):
            with self.assertRaisesRegex(UsageError, wrong):
                reader(**given_)

    @given(
        st.lists(st.tuples(st.sampled_from(["a", "b", "é"]), st.binary(max_size=5)), min_size=1, max_size=3),
        st.binary(max_size=6),
        st.binary(max_size=6),
    )
    def test_round_trip(self, headers: list[tuple[str, bytes]], key: bytes, value: bytes) -> None:
        """What a record's parts are written as, with separators that are not in them, is read as the record."""
        kept = bytes.maketrans(b"\t,:\r\n", b"_____")
        key, value = key.translate(kept), value.translate(kept)
        pairs = tuple((name, each.translate(kept)) for name, each in headers)
        line = b",".join(name.encode() + b":" + each for name, each in pairs) + b"\t" + key + b"\t" + value
        self.assertEqual(reader(parse_key="true", parse_headers="true").record(line, 1), InputRecord(key, value, pairs))
