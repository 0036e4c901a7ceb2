"""Sums of windows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.mirror.audit.record_digest import record_digest
from logbus.mirror.audit.window_totals import SideTotals, differing_windows

BYTES = st.none() | st.sampled_from([b"", b"a", b"ab", b"b"])
HEADERS = st.lists(st.tuples(st.sampled_from(["", "a", "ab"]), BYTES), max_size=2).map(tuple)
RECORDS = st.tuples(st.integers(-1, 40), BYTES, BYTES, HEADERS)


def record(offset: int, what: tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]) -> object:
    timestamp, key, value, headers = what
    return ConsumerRecord("t", 0, offset, timestamp, key, value, headers)


def digest(what: object, offset: int = 0) -> int:
    return record_digest(record(offset, what))  # type: ignore[arg-type]


def totals(timestamps: list[tuple[int, int]]) -> SideTotals:
    """The totals of records, which are given by time and digest."""
    side = SideTotals(10)
    for offset, (timestamp, number) in enumerate(timestamps):
        window = side.window_of(timestamp)
        assert window is not None
        side.add(window, number, offset)
    return side


DIGESTS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2**128 - 1)), max_size=30)


class DigestTests(SynchronousTestCase):
    """What stands for a record."""

    @given(RECORDS, RECORDS)
    def test_same(self, one: object, other: object) -> None:
        """Records have the same digest just if time, key, value and headers are the same, wherever they are."""
        self.assertEqual(digest(one) == digest(other, 7), one == other)


class WindowTests(SynchronousTestCase):
    """Comparing sums instead of records."""

    @given(DIGESTS, st.data())
    def test_without_the_beginning(self, records: list[tuple[int, int]], data: st.DataObject) -> None:
        """What is left without the first records are the totals of the others."""
        count = data.draw(st.integers(0, len(records)))
        left, rest = totals(records).without(totals(records[:count])), totals(records[count:])
        self.assertEqual(differing_windows(left, rest), [])
        self.assertEqual(left.count, len(records) - count)

    @given(DIGESTS, st.data())
    def test_any_change_shows(self, records: list[tuple[int, int]], data: st.DataObject) -> None:
        """A record that is missing, repeated or replaced, and two in another order, are seen in their windows."""
        records = [*records, (5, 77)]
        at = data.draw(st.integers(0, len(records) - 1))
        time, number = records[at]
        window, before, behind = time - time % 10, records[:at], records[at + 1 :]
        for changed in (
            [*before, *behind],
            [*before, (time, number), (time, number), *behind],
            [*before, (time, (number + 1) % 2**128), *behind],
        ):
            self.assertEqual(differing_windows(totals(records), totals(changed)), [window])
        swapped = [*before, (time, 1), (time, 2), *behind]
        other = [*before, (time, 2), (time, 1), *behind]
        self.assertEqual(differing_windows(totals(swapped), totals(other)), [window])
        self.assertTrue(totals(swapped).windows[window].has_records_of(totals(other).windows[window]))
