"""
Tests of :mod:`logbus.records.gathering`: the bytes equal those of records encoded one by one, and the compiled
implementation equals the Python one.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logbus.records import gathering, implementations, kernel
from logbus.records.header import HEADER_SIZE
from tests.records.test_kernel import HEADERS, INT64, MAYBE_BYTES

NAMES = st.text(st.characters(), max_size=3)  # Surrogates, too.
ANY_HEADERS = HEADERS | st.lists(st.tuples(NAMES, MAYBE_BYTES | st.just(bytearray(b"x")) | st.just("x")), max_size=2)
TIMESTAMPS = st.integers(0, 100) | INT64 | st.integers()
RECORDS = st.lists(st.tuples(TIMESTAMPS, MAYBE_BYTES, MAYBE_BYTES, ANY_HEADERS), max_size=8)


def seen(buffer: gathering.RecordBuffer) -> tuple[Any, ...]:
    """What can be asked of a buffer."""
    return buffer.count, buffer.size, buffer.base_timestamp, buffer.max_timestamp, buffer.contents()


class RecordBufferTests(SynchronousTestCase):
    """Whichever is in use."""

    @given(st.lists(st.tuples(st.integers(0, 2**40), MAYBE_BYTES, MAYBE_BYTES, HEADERS), min_size=1, max_size=8))
    def test_bytes(self, records: Any) -> None:
        """
        The contents are the records, encoded one after the other, and the size and timestamps are theirs.
        """
        buffer = implementations.RecordBuffer()
        self.assertEqual([buffer.append(*each) for each in records], list(range(len(records))))
        base = records[0][0]
        parts = [kernel.encode_record(each[0] - base, n, *each[1:]) for n, each in enumerate(records)]
        size = HEADER_SIZE + sum(map(len, parts))
        highest = max(each[0] for each in records)
        self.assertEqual(seen(buffer), (len(records), size, base, highest, b"".join(parts)))

    def test_large_numbers(self) -> None:
        """
        Lengths and deltas of several bytes, and many records.
        """
        buffer = implementations.RecordBuffer()
        parts = []
        for n, size in enumerate((0, 63, 64, 8191, 8192, 1 << 21, *range(9000))):
            value = b"x" * min(size, 1 << 21)
            buffer.append(n * 1000, value, None)
            parts.append(kernel.encode_record(n * 1000, n, value, None))
        self.assertEqual(buffer.contents(), b"".join(parts))

    def test_room(self) -> None:
        """
        A record that does not fit is not taken, unless it is the first.
        """
        buffer = implementations.RecordBuffer()
        self.assertEqual(buffer.append_within(10, 1, None, b"x" * 100), 0)
        before = seen(buffer)
        self.assertEqual(buffer.append_within(buffer.size + 108, 7, None, b"x" * 100), -1)
        self.assertEqual(seen(buffer), before)
        self.assertEqual(buffer.append_within(buffer.size + 109, 7, None, b"x" * 100), 1)

    def test_refused_values(self) -> None:
        """
        Numbers beyond 64 bits, names that are no text, keys that are no bytes: an error, and all is as it was.
        """
        buffer = implementations.RecordBuffer()
        buffer.append(-(1 << 62), None, b"x")
        before = seen(buffer)
        for timestamp in (1 << 63, -(1 << 63) - 1, 1 << 62):
            self.assertRaises(ValueError, buffer.append, timestamp, None, b"x")
        self.assertRaises(ValueError, buffer.append, 0, None, b"x", [("\ud800", None)])
        self.assertRaises(TypeError, buffer.append, 0, "key", b"x")
        self.assertRaises(TypeError, buffer.append, 0, None, b"x", [("name", "text")])
        self.assertEqual(seen(buffer), before)
        self.assertEqual(buffer.append(0, None, b"x"), 1)

    def test_nothing(self) -> None:
        """
        Without records there are no bytes.
        """
        self.assertEqual(seen(implementations.RecordBuffer()), (0, HEADER_SIZE, -1, -1, b""))


class CompiledTests(SynchronousTestCase):
    """Both, side by side."""

    def setUp(self) -> None:
        if not implementations.GATHERING_IS_COMPILED:
            why = "LOGBUS_PURE is set" if os.environ.get("LOGBUS_PURE") else "the installation found no C compiler"
            raise SkipTest(why)

    @given(RECORDS, st.integers(0, 600))
    def test_same(self, records: Any, limit: int) -> None:
        """
        Each record has the same outcome, or an error, and leaves the same behind.
        """
        buffers = implementations.RecordBuffer(), gathering.RecordBuffer()
        for each in records:
            mine, others = (outcome_of(buffer, limit, each) for buffer in buffers)
            self.assertEqual(mine, others)
            self.assertEqual(seen(buffers[0]), seen(buffers[1]))


def outcome_of(buffer: gathering.RecordBuffer, limit: int, record: Any) -> int | None:
    """The result of a call; None if it fails: of several errors any may be reported."""
    try:
        return buffer.append_within(limit, *record)
    except (TypeError, ValueError):
        return None
