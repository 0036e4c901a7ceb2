"""What a cleaning does with each record, in Python and compiled."""

from __future__ import annotations

from unittest import skipUnless

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import DecodeError
from logbus.records.batch import HEADER_SIZE, Record, encode_batch, read_header
from logbus.storage.cleaner import implementations, offset_map
from logbus.storage.cleaner.record_filter import Section

RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(0, 2**41) | st.integers(0, 3),
        st.none() | st.binary(max_size=3) | st.binary(min_size=60, max_size=200),
        st.none() | st.binary(max_size=90),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=12,
)


def section_of(records: list[Record], base_offset: int = 0) -> Section:
    """The records as they are in a batch."""
    data = encode_batch(records, base_offset=base_offset)
    header = read_header(data)
    return Section(
        memoryview(data)[HEADER_SIZE:], len(records), base_offset, header.last_offset_delta, header.base_timestamp
    )


class Filters(SynchronousTestCase):
    """Of the implementation in use."""

    def test_what_stays(self) -> None:
        """
        The last record of each key stays, those without one, and those that nobody looked at; tombstones for a time.
        """
        values = [(b"a", b"1"), (None, b"2"), (b"a", None), (b"b", b"4"), (b"b", b"5")]
        section = section_of([Record(0, 10 * n, key, value) for n, (key, value) in enumerate(values)], 100)
        keys = implementations.OffsetMap(1000)
        self.assertEqual(keys.put_records(section, 0), -1)
        kept = keys.keep_records(section, 1000, False)
        self.assertEqual((kept.record_count, kept.keyless, kept.tombstones, kept.max_timestamp), (3, 1, True, 40))
        left = section._replace(data=kept.data, record_count=3).decode()
        self.assertEqual([(record.offset, record.value) for record in left], [(101, b"2"), (102, None), (104, b"5")])
        self.assertEqual(keys.keep_records(section, 1000, True)[1:], (2, 1, False, 40))
        self.assertEqual(keys.keep_records(section, 103, False)[1:], (4, 1, True, 40))
        self.assertIsNone(keys.keep_records(section, 0, True).data)

    def test_a_full_map(self) -> None:
        """
        The first record without room is told; those before it, and known keys, are in the map.
        """
        section = section_of([Record(0, 0, key, b"") for key in (b"a", b"a", b"b", b"a")], 7)
        keys = implementations.OffsetMap(0)
        self.assertEqual(keys.put_records(section, 0), 9)
        self.assertEqual(keys.get(b"b"), -1)
        self.assertEqual(implementations.OffsetMap(0).put_records(section, 9), 10)

    @given(RECORDS, st.data())
    def test_damage(self, records: list[Record], data: st.DataObject) -> None:
        """
        Of changed bytes either implementation makes the same: what stays, or an error.
        """
        section = section_of(records)
        raw = bytearray(section.data)
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
        cut = data.draw(st.none() | st.integers(0, len(raw)))
        count = section.record_count + data.draw(st.sampled_from([0, 0, 0, -1, 1]))
        damaged = section._replace(data=bytes(raw[:cut]), record_count=count)
        self.assertEqual(outcome(implementations.OffsetMap, damaged), outcome(offset_map.OffsetMap, damaged))


@skipUnless(implementations.IS_COMPILED, "it is not compiled here")
class Equal(SynchronousTestCase):
    @given(st.lists(RECORDS, max_size=4), st.integers(0, 40), st.integers(0, 40), st.booleans(), st.integers(0, 400))
    def test_both_do_the_same(self, batches: list[list[Record]], start: int, end: int, drops: bool, size: int) -> None:
        """
        The compiled map and the one in Python agree about every batch of a log.
        """
        maps = implementations.OffsetMap(size), offset_map.OffsetMap(size)
        base, sections = 0, []
        for records in batches:
            sections.append(section_of(records, base))
            base += len(records)
        for section in sections:
            found = [each.put_records(section, start) for each in maps]
            self.assertEqual(*found)
            if found[0] >= 0:
                break
        self.assertEqual(len(maps[0]), len(maps[1]))
        self.assertEqual(maps[0].capacity, maps[1].capacity)
        for section in sections:
            self.assertEqual(*(each.keep_records(section, end, drops) for each in maps))

    @given(st.lists(st.binary(max_size=20)))
    def test_single_keys(self, keys: list[bytes]) -> None:
        """
        It is a dictionary of keys of any length.
        """
        found = implementations.OffsetMap(10_000)
        for offset, key in enumerate(keys):
            found.put(key, offset)
        self.assertEqual({key: found.get(key) for key in keys}, {key: n for n, key in enumerate(keys)})


def outcome(kind: type[offset_map.OffsetMap], section: Section) -> object:
    """What a map makes of records; an error as its text."""
    keys = kind(10_000)
    try:
        return keys.put_records(section, 0), keys.keep_records(section, 1000, False)
    except DecodeError as error:
        return str(error)
