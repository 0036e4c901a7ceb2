"""Parts of an encoded message: joined bytes, and slices of files."""

from __future__ import annotations

import tempfile
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.records.file_slice import FileSlice, Parts, joined
from logbus.wire.encoder_runtime import join_bytes, uvarint
from logbus.wire.messages.records import FetchableTopicResponse, FetchResponse, PartitionData
from logbus.wire.schema import decode, encode
from tests.wire.reference import varint


def response(*records: object) -> FetchResponse:
    """An answer with one topic, and a partition for each of these records."""
    partitions = [
        PartitionData(partition_index=index, high_watermark=5, records=each)  # type: ignore[arg-type]
        for index, each in enumerate(records)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


class PartsTests(SynchronousTestCase):
    """Records in every form an answer may hold them."""

    def setUp(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115
        self.addCleanup(self.file.close)
        self.file.write(b"0123456789" * 100)
        self.file.flush()

    def slice(self, position: int, length: int) -> FileSlice:
        """A run of the file."""
        return FileSlice(self.file, position, length)

    def test_one_part_without_files(self) -> None:
        """Bytes in memory are joined to one bytes object, views and lists included."""
        forms: list[Any] = [None, b"", b"abc", memoryview(b"abc"), [b"a", memoryview(b"bc")], [], bytearray(b"abc")]
        for records in forms:
            for version in (4, 12):
                parts = encode(response(records, b"z"), version)
                self.assertEqual([type(part) for part in parts], [bytes])
                decoded, _ = decode(FetchResponse, version, joined(parts))
                partitions = decoded.responses[0].partitions
                wanted = None if records is None else b"".join(records) if isinstance(records, list) else bytes(records)
                self.assertEqual([each.records for each in partitions], [wanted, b"z"])

    def test_slices_are_passed_through(self) -> None:
        """A slice of a file is a part of its own, the very object, between joined bytes."""
        one, two = self.slice(3, 200), self.slice(500, 20)
        for version in (4, 11, 12, 13):
            parts = encode(response(one, b"mem", [two, b"tail"], None), version)
            self.assertEqual([type(part) for part in parts], [bytes, FileSlice, bytes, FileSlice, bytes])
            self.assertIs(parts[1], one)
            self.assertIs(parts[3], two)
            decoded, end = decode(FetchResponse, version, joined(parts))
            self.assertEqual(end, len(joined(parts)))
            self.assertEqual(
                [each.records for each in decoded.responses[0].partitions],
                [one.read(), b"mem", two.read() + b"tail", None],
            )

    def test_slice_before_bytes(self) -> None:
        """A list of parts is looked through to its end."""
        one = self.slice(0, 20)
        for records in ([one, b"tail"], [b"head", one], [b"a", one, b"b"]):
            parts = encode(response(records), 12)
            self.assertIn(one, parts)
            self.assertEqual(joined(parts), joined(encode(response(joined(records)), 12)))

    def test_lengths_of_slices(self) -> None:
        """A compact length is right on both sides of its second byte."""
        for length in (0, 1, 126, 127, 128, 999):
            parts = encode(response(self.slice(0, length)), 12)
            self.assertEqual(joined(parts), joined(encode(response(self.slice(0, length).read()), 12)))

    def test_empty_slices_vanish(self) -> None:
        """Nothing is sent from a file of which nothing is wanted."""
        self.assertEqual([type(part) for part in encode(response(self.slice(0, 0)), 12)], [bytes])


class JoinTests(SynchronousTestCase):
    """Joining bytes in memory."""

    def test_order_is_kept(self) -> None:
        """Runs of bytes become one part each; slices keep their places."""
        one, two = FileSlice(None, 0, 5), FileSlice(None, 5, 5)  # type: ignore[arg-type]
        given: Parts = [b"a", memoryview(b"b"), one, two, b"c"]
        self.assertEqual(join_bytes(given), [b"ab", one, two, b"c"])
        self.assertEqual(join_bytes([one]), [one])
        self.assertEqual(join_bytes([]), [])


class VarintTests(SynchronousTestCase):
    """Unsigned varints."""

    @given(st.integers(0, 2**35))
    def test_spelling(self, value: int) -> None:
        """Seven bits a byte, the lowest first."""
        self.assertEqual(uvarint(value), varint(value))
