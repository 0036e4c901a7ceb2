"""Tests of :mod:`logbus.kafka07.position_index`."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.kafka07.position_index import Entry, PositionIndex, encode_entry

TOPIC = UUID(int=7)
STEPS = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 50), st.integers(0, 5)), min_size=1, max_size=20)


def entries_of(steps: list[tuple[int, int, int]]) -> list[Entry]:
    """Entries that increase by these steps."""
    found = [Entry(0, 0, -1)]
    for offset, position, timestamp in steps:
        last = found[-1]
        found.append(Entry(last.offset + offset, last.position + position, last.timestamp + timestamp))
    return found[1:]


def index_of(entries: list[Entry]) -> PositionIndex:
    """An index of these entries."""
    index = PositionIndex(entries[0])
    for entry in entries[1:]:
        index.add(entry)
    return index


def decoded(data: bytes, topic_id: UUID = TOPIC) -> list[Entry] | None:
    """The entries in a file."""
    index, more = PositionIndex.decode_some(data, topic_id)
    while index is not None and more:
        more = index.add_encoded(data)
    return None if index is None else [*map(index.__getitem__, range(len(index)))]


class Indexes(SynchronousTestCase):
    @given(STEPS, st.integers(-1, 1100))
    def test_finding(self, steps: list[tuple[int, int, int]], at: int) -> None:
        """
        The last entry at or before a position, an offset and a time is found.
        """
        entries = entries_of(steps)
        index = index_of(entries)
        for find, field in ((index.at_position, 1), (index.at_offset, 0), (index.before_time, 2)):
            expected = max((n for n, entry in enumerate(entries) if entry[field] <= at), default=-1)
            self.assertEqual(find(at), expected)

    @given(STEPS, st.data())
    def test_a_file(self, steps: list[tuple[int, int, int]], data: st.DataObject) -> None:
        """
        A file has the index again, whether written at once or entry by entry. Of one that was cut off, or ends in
        zeros or in anything else, the beginning counts.
        """
        entries = entries_of(steps)
        whole = index_of(entries).encode(TOPIC)
        self.assertEqual(decoded(whole), entries)
        self.assertEqual(index_of(entries[:1]).encode(TOPIC) + b"".join(map(encode_entry, entries[1:])), whole)
        cut = data.draw(st.integers(0, len(whole)))
        rest = data.draw(st.binary(max_size=60) | st.just(bytes(60)))
        left = max(0, (cut - 24) // 28)
        found = decoded(whole[:cut] + rest)
        self.assertEqual((found or [])[:left], entries[:left])
        if whole[cut:] != rest[: len(whole) - cut]:
            self.assertLessEqual(len(found or []), max(left + 1, 1))
        self.assertIsNone(decoded(whole, UUID(int=8)))

    @given(STEPS, st.data())
    def test_dropping(self, steps: list[tuple[int, int, int]], data: st.DataObject) -> None:
        """
        Entries are dropped from the beginning, where another takes their place, and from the end.
        """
        entries = entries_of(steps)
        index = index_of(entries)
        offset = data.draw(st.integers(entries[0].offset, entries[-1].offset))
        before = entries[index.at_offset(offset)]
        index.begin_at(Entry(offset, before.position, before.timestamp))
        found = [*map(index.__getitem__, range(len(index)))]
        self.assertEqual(found[0].offset, offset)
        self.assertEqual(found[1:], [entry for entry in entries if entry.offset > offset])

    def test_order(self) -> None:
        """
        What is not behind the last entry is refused.
        """
        index = PositionIndex(Entry(5, 50, 1))
        for entry in (Entry(5, 60, 1), Entry(6, 49, 1), Entry(6, 60, 0)):
            self.assertRaises(ValueError, index.add, entry)
