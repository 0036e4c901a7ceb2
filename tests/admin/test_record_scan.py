"""Tests of :mod:`logbus.admin.record_scan`."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.record_scan import Found, RecordFilter, scan
from logbus.records.batch import encode_batch, encode_marker_batch
from logbus.records.compression import Codec
from logbus.records.control_records import ControlType, Marker
from logbus.records.record import Record
from logbus.records.record_stream import PIECE

WORDS = st.sampled_from([b"", b"a", b"ab", b"abc", b"x" * 70_000 + b"ab"])


def finish(steps: Generator[None, None, Found]) -> Found:
    """The result of a scan."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        result: Found = done.value
        return result


def page(data: bytes, start: int = 0, **more: Any) -> Found:
    """Scan with defaults."""
    return finish(scan(data, 0, start, **{"limit": 1000, "shown": 1, **more}))


class ScanTests(SynchronousTestCase):
    """Scans."""

    @given(
        st.lists(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4), max_size=4),
        st.sampled_from(list(Codec)),
        st.one_of(st.none(), st.sampled_from([b"a", b"ab", b"b", b"xab"])),
        st.one_of(st.none(), st.sampled_from([b"bc", b"a"])),
        st.integers(1, 5),
    )
    def test_page_by_page(
        self, batches: list[list[tuple[bytes, bytes]]], codec: Codec, key: bytes | None, value: bytes | None, limit: int
    ) -> None:
        """Pages, put together, have all wanted records once, and whole batches are ruled out rightly."""
        data, offset, expected = b"", 0, []
        for batch in batches:
            data += encode_batch([Record(0, 5, k, v) for k, v in batch], base_offset=offset, codec=codec)
            for k, v in batch:
                if (key is None or key in k) and (value is None or value in v):
                    expected.append(offset)
                offset += 1
        found: list[int] = []
        at = scanned = 0
        while at < offset:
            part = page(data, at, limit=limit, wanted=RecordFilter(key, value))
            self.assertGreater(part.next_offset, at)
            found += [item["offset"] for item in part.items]
            self.assertLessEqual(len(part.items), limit)
            scanned += part.scanned
            at = part.next_offset
        self.assertEqual(found, expected)

    def test_aborted(self) -> None:
        """Markers are never shown, and records of aborted transactions only on request."""
        ids = {"producer_id": 7, "producer_epoch": 0}
        data = encode_batch([Record(0, 5, None, b"a")] * 2, base_sequence=0, transactional=True, **ids)
        data += encode_marker_batch(Marker(ControlType.ABORT, 0), base_offset=2, timestamp=5, **ids)
        data += encode_batch([Record(0, 5, None, b"b")], base_offset=3)
        self.assertEqual([item["offset"] for item in page(data).items], [0, 1, 3])
        self.assertEqual([item["offset"] for item in page(data, aborted=[(7, 0)]).items], [3])
        self.assertEqual(page(data).next_offset, 4)

    def test_time_is_over(self) -> None:
        """A scan whose time is over ends when it has moved on."""
        data = b"".join(encode_batch([Record(0, 5, None, b"a")], base_offset=n) for n in range(3))
        found = page(data, is_over=lambda: True)
        self.assertEqual((len(found.items), found.next_offset, found.is_full), (1, 1, True))

    def test_end(self) -> None:
        """Nothing is read from the end on, also in the middle of a batch."""
        data = encode_batch([Record(0, 5, None, b"a")] * 5)
        found = page(data, 1, end=3)
        self.assertEqual(([item["offset"] for item in found.items], found.next_offset), ([1, 2], 3))

    def test_a_bomb_in_steps(self) -> None:
        """What is small and decompresses to much is gone through in many steps."""
        data = encode_batch([Record(0, 5, None, bytes(100 * PIECE))], codec=Codec.ZSTD)
        self.assertLess(len(data), 100_000)
        steps = sum(1 for _ in scan(data, 0, 0, limit=1, shown=1, wanted=RecordFilter(value=b"x")))
        self.assertGreater(steps, 99)
