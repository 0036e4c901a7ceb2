"""What a cleaning does with runs of batches, compiled and in Python."""

from __future__ import annotations

from typing import Any
from unittest import skipUnless

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import DecodeError
from logbus.records.batch import iter_batches
from logbus.records.compression import Codec
from logbus.storage.cleaner import implementations, offset_map, record_filter
from logbus.storage.cleaner.compaction import Compaction, add_batches
from logbus.storage.segments.transaction_index import AbortedTransaction, AbortedTransactionSet
from tests.storage.builders import batch

KEYS = st.none() | st.sampled_from([b"a", b"b", b"c", b"long" * 20])
BATCHES = st.lists(
    st.fixed_dictionaries(
        {
            "keys": st.lists(KEYS, min_size=1, max_size=5),
            "values": st.lists(st.none() | st.binary(max_size=9), min_size=5, max_size=5),
            "producer": st.sampled_from([-1, -1, 1, 2]),
            "codec": st.sampled_from([Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP]),
            "transactional": st.sampled_from([False, False, False, True]),
            "timestamp": st.integers(0, 2**41),
            "gap": st.integers(0, 3),
        }
    ),
    min_size=1,
    max_size=12,
)


def encoded(batches: list[dict[str, Any]]) -> bytes:
    """The batches, one after the other."""
    data, offset = b"", 0
    for one in batches:
        offset += one["gap"]
        keys = one["keys"]
        producer = one["producer"] if not one["transactional"] else 3
        data += batch(
            *one["values"][: len(keys)],
            keys=keys,
            base_offset=offset,
            producer_id=producer,
            producer_epoch=-1 if producer < 0 else 0,
            base_sequence=-1 if producer < 0 else 0,
            codec=one["codec"],
            transactional=one["transactional"],
            timestamp=one["timestamp"],
        )
        offset += len(keys)
    return data


def cleaned(maps: Any, data: bytes, end: int, size: int = 10_000) -> Any:
    """What both passes make of the bytes, or the kind of error."""
    keys = maps(size)
    aborted = AbortedTransactionSet([AbortedTransaction(3, 4, 9, 10)])
    try:
        learnt = add_batches(keys, data, 0, 1, aborted)
        compaction = Compaction(keys, min(end, learnt[1]), 1000, 500, {1: 3, 2: 17})
        position, pieces = compaction.retained_of_all(data, 0, aborted)
    except DecodeError:
        return DecodeError
    counts = compaction.records, compaction.removed, compaction.changed, compaction.keyless
    return learnt, len(keys), position, b"".join(pieces), counts, compaction.end_of_group()


@skipUnless(implementations.IS_COMPILED, "nothing is compiled")
class BatchRuns(SynchronousTestCase):
    """The compiled implementation does as the one in Python."""

    @given(BATCHES, st.integers(0, 40), st.integers(0, 200))
    def test_both_passes(self, batches: list[dict[str, Any]], end: int, size: int) -> None:
        """Keys, batches that stay, and counts are the same; so they are when the map is small."""
        data = encoded(batches)
        self.assertEqual(cleaned(implementations.OffsetMap, data, end), cleaned(offset_map.OffsetMap, data, end))
        self.assertEqual(
            cleaned(implementations.OffsetMap, data, end, size), cleaned(offset_map.OffsetMap, data, end, size)
        )

    @given(BATCHES, st.data())
    def test_damage(self, batches: list[dict[str, Any]], data: st.DataObject) -> None:
        """Of changed bytes both make the same, or an error."""
        raw = bytearray(encoded(batches))
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        changed = bytes(raw[: data.draw(st.none() | st.integers(0, len(raw)))])
        self.assertEqual(cleaned(implementations.OffsetMap, changed, 99), cleaned(offset_map.OffsetMap, changed, 99))

    @given(BATCHES, st.integers(0, 300), st.integers(0, 3))
    def test_index_points(self, batches: list[dict[str, Any]], interval: int, start: int) -> None:
        """The batches that decide about index entries make the entries that all of them make."""
        data = encoded(batches)
        found = implementations.index_points(data, start, 0, interval, 7)
        every = record_filter.index_points(data, start, 0, interval, 7)
        self.assertEqual(entries(data, found, start, interval), entries(data, every, start, interval))

    @given(st.binary(max_size=100))
    def test_checksum(self, data: bytes) -> None:
        """By the processor's instruction, and by tables."""
        checksum: Any = implementations.compiled_module().checksum
        self.assertEqual([checksum(data, True), checksum(data, False)], [crc32c(data)] * 2)


def entries(data: bytes, points: list[int], start: int, interval: int) -> tuple[list[tuple[int, int, int]], int]:
    """The index entries, with the largest timestamp before each, and the largest of all."""
    headers = dict(iter_batches(data))
    made, indexed, latest = [], 0, 7
    for at in points:
        latest = max(latest, headers[at].max_timestamp)
        if start + at - indexed > interval:
            made.append((headers[at].last_offset, start + at, latest))
            indexed = start + at
    return made, latest
