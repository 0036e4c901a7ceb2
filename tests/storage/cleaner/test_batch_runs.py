"""What a cleaning does with runs of batches, compiled and in Python."""

from __future__ import annotations

import os
from array import array
from importlib import import_module
from tempfile import TemporaryFile
from typing import Any
from unittest import skipUnless

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import DecodeError
from logbus.records.batch import HEADER_SIZE
from logbus.records.compression import Codec
from logbus.storage.cleaner import implementations, offset_map
from logbus.storage.cleaner.compaction import Compaction, add_batches
from logbus.storage.segments import index_entries
from logbus.storage.segments.index_entries import IndexEntries, IndexState
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

    @given(BATCHES, st.integers(0, 300), st.integers(0, 3), st.integers(-1, 2**41))
    def test_index_batches(self, batches: list[dict[str, Any]], interval: int, start: int, latest: int) -> None:
        """Index entries are the same."""
        data = encoded(batches)
        state = IndexState(0, interval, 0, -1, latest, 0, -1, 0)
        for some in (data, data[:-1]):
            made = index_entries.index_batches(some, start, state)
            self.assertEqual(implementations.index_batches(some, start, state), made)

    @given(BATCHES, st.integers(0, 40), st.sampled_from([0, 30, 9000]), st.integers(1, 300_000), st.integers(1, 9000))
    def test_files(self, batches: list[dict[str, Any]], end: int, longer: int, most: int, interval: int) -> None:
        """What is read from a file and written to another one is what it would be in memory, however large it is."""
        for one in batches:
            one["values"] = [value and value * (1 + longer) for value in one["values"]]
        data, lasts = encoded(batches), array("q", [3, 17]).tobytes()
        keys, same = implementations.OffsetMap(10_000), implementations.OffsetMap(10_000)
        run_end = keys.put_batches(data, 0, 1)
        run = keys.filter_batches(data, 0, end, lasts)
        state = IndexState(0, interval, 0, -1, 50, 0, -1, 0)
        index = index_entries.index_batches(run.data, 5, state)
        with TemporaryFile(buffering=0) as file, TemporaryFile(buffering=0) as out:
            file.write(b"before!" + data)
            fd, size = file.fileno(), 7 + len(data)
            position, reached = 7, -1
            while (found := same.put_file(fd, position, size, most, 0.0, 1))[0] > position:
                position, reached = found
            self.assertEqual((position - 7, reached, len(same)), (*run_end, len(keys)))
            position, written, counts, dropped = 7, 5, [0, 0, 0, 0], None
            offsets, times = b"", b""
            while True:
                part = same.filter_file(fd, position, size, most, 0.0, end, lasts, out.fileno(), written, state)
                if part.position == position:
                    break
                position, written = part.position, written + part.written
                more = part.records, part.removed, part.changed, part.keyless
                counts = [a + b for a, b in zip(counts, more, strict=True)]
                dropped = part.dropped
                offsets, times, state = (
                    offsets + part.index_entries.offsets,
                    times + part.index_entries.times,
                    part.index_entries.state,
                )
            out.seek(5)
            self.assertEqual(out.read(), run.data)
        self.assertEqual((position - 7, written - 5), (run.position, len(run.data)))
        self.assertEqual(counts, [run.records, run.removed, run.changed, run.keyless])
        self.assertEqual(dropped, data[run.dropped : run.dropped + HEADER_SIZE] if run.dropped >= 0 else None)
        self.assertEqual(IndexEntries(offsets, times, state), index)

    def test_files_that_fail(self) -> None:
        """What cannot be read or written is left to those who say so."""
        data, keys = batch(b"a", keys=[b"k"]), implementations.OffsetMap(1000)
        state = IndexState(0, 10, 0, -1, -1, 0, -1, 0)
        with TemporaryFile(buffering=0) as file, open(os.devnull, "rb") as unwritable:
            file.write(data)
            fd = file.fileno()
            part = keys.filter_file(fd, 0, len(data), 999, 0.0, 9, b"", unwritable.fileno(), 0, state)
            self.assertEqual(part, (0, 0, IndexEntries(b"", b"", state), 0, 0, 0, 0, None))
            self.assertEqual(keys.put_file(fd, 0, len(data) - 1, 999, 0.0, 0), (0, -1))
            self.assertEqual(keys.put_file(fd, 5, len(data), 999, 0.0, 0), (5, -1))
        self.assertEqual(keys.put_file(-1, 0, 99, 999, 0.0, 0), (0, -1))

    @given(st.binary(max_size=100))
    def test_checksum(self, data: bytes) -> None:
        """By the processor's instruction, and by tables."""
        checksum: Any = import_module("logbus.storage.cleaner._offset_map").checksum
        self.assertEqual([checksum(data, True), checksum(data, False)], [crc32c(data)] * 2)
