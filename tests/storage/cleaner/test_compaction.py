"""Properties of compaction's pure core: the records that stay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import DecodeError
from logbus.records.batch import (
    Marker,
    Record,
    check_crc,
    decode_batch,
    encode_batch,
    encode_marker_batch,
    read_header,
    read_marker,
)
from logbus.records.compression import Codec
from logbus.records.control_records import ControlType, encode_control_key
from logbus.records.header import ATTRIBUTES_AT, CRC, CRC_AT, batch_crc
from logbus.storage.cleaner.compaction import Compaction, add_keys
from logbus.storage.cleaner.offset_map import OffsetMap
from logbus.storage.segments.transaction_index import AbortedTransaction, AbortedTransactionSet

Drawn: TypeAlias = list[tuple[list[tuple[int, bool]], Codec, int, int, bool]]
"""For each batch: keys with whether the value is a delete marker, the codec, the producer, the gap before it, and
whether the broker stamps it."""

DAY = 86_400_000
NOW = 1_700_000_000_000

PAIRS = st.tuples(st.integers(0, 5), st.booleans())
BATCHES = st.lists(
    st.tuples(
        st.lists(PAIRS, min_size=1, max_size=5),
        st.sampled_from([Codec.NONE, Codec.GZIP, Codec.ZSTD]),
        st.integers(-1, 2),
        st.integers(0, 3),
        st.booleans(),
    ),
    max_size=14,
)


def a_log(drawn: Drawn) -> list[bytes]:
    """Batches with ascending offsets, and gaps where an earlier compaction may have made some."""
    log, offset = [], 0
    for pairs, codec, producer, gap, stamped in drawn:
        offset += gap
        records = [
            Record(0, NOW - DAY + offset + i, b"k%d" % key, None if gone else b"v%d" % (offset + i))
            for i, (key, gone) in enumerate(pairs)
        ]
        log.append(
            encode_batch(
                records,
                base_offset=offset,
                codec=codec,
                leader_epoch=3,
                producer_id=producer,
                producer_epoch=0 if producer >= 0 else -1,
                base_sequence=offset if producer >= 0 else -1,
                log_append_time=NOW if stamped else None,
            )
        )
        offset += len(pairs)
    return log


def end_of(log: list[bytes]) -> int:
    return read_header(log[-1]).next_offset if log else 0


def last_of_producers(log: list[bytes]) -> dict[int, int]:
    headers = map(read_header, log)
    return {header.producer_id: header.last_offset for header in headers if header.has_producer_id}


def clean(
    log: list[bytes],
    *,
    start: int = 0,
    bound: int | None = None,
    keys: int = 1000,
    now: int = NOW,
    retention: int = DAY,
    producers: dict[int, int] | None = None,
    bare: Mapping[int, int] = {},
    aborted: Iterable[AbortedTransaction] = (),
) -> tuple[list[bytes], int]:
    """One round over the whole log as one run; what is left, and how far it came."""
    seen = OffsetMap(keys * 32)
    end = end_of(log) if bound is None else bound
    told = AbortedTransactionSet(aborted)
    for data in log:
        header = read_header(data)
        if header.next_offset > end:
            # Bounds lie between segments, and so between batches.
            end = min(end, max(header.base_offset, start))
            break
        if start < header.next_offset:
            learnt = add_keys(seen, data, 0, header, start, told.of(header) is not None)
            if learnt < header.next_offset:
                end = learnt
                break
    last = last_of_producers(log) if producers is None else producers
    compaction = Compaction(seen, end, now, retention, last, bare)
    offered = ((data, read_header(data)) for data in log)
    left = [
        bytes(k) for data, header in offered if (k := compaction.retained(data, 0, header, told.of(header))) is not None
    ]
    ending = compaction.end_of_group()
    return [*left, ending] if ending is not None else left, end


def records(log: list[bytes]) -> list[Record]:
    return [record for data in log if not read_header(data).control for record in decode_batch(data)]


def state(found: Iterable[Record]) -> dict[bytes | None, bytes]:
    """The final values of a consumer that keeps the last value of each key."""
    last = {record.key: record.value for record in found}
    return {key: value for key, value in last.items() if value is not None}


class CompactionPropertyTests(SynchronousTestCase):
    """Properties of every compacted log."""

    @given(BATCHES, st.integers(0, 3 * DAY))
    def test_the_last_value_of_each_key(self, drawn: Drawn, later: int) -> None:
        """A reader from the start sees of each key the last value, and of values nothing more."""
        log = a_log(drawn)
        left, _ = clean(log, now=NOW + later)
        self.assertEqual(state(records(left)), state(records(log)))
        keys = [record.key for record in records(left)]
        self.assertEqual(len(keys), len(set(keys)))

    @given(BATCHES, st.integers(0, 80))
    def test_records_above_the_bound_are_kept(self, drawn: Drawn, bound: int) -> None:
        """Every record from the bound on stays as it is; a whole batch above it stays byte for byte."""
        log = a_log(drawn)
        left, end = clean(log, bound=bound)
        self.assertEqual(
            [record for record in records(left) if record.offset >= end],
            [record for record in records(log) if record.offset >= end],
        )
        self.assertEqual(
            [data for data in left if read_header(data).base_offset >= end],
            [data for data in log if read_header(data).base_offset >= end],
        )

    @given(BATCHES)
    def test_offsets_stay(self, drawn: Drawn) -> None:
        """What is left is some of what was there, in order, each batch with its range, its producer and a good CRC."""
        log = a_log(drawn)
        left, _ = clean(log)
        before = {read_header(data).base_offset: read_header(data) for data in log}
        known = {record.offset: record for record in records(log)}
        for data in left:
            header = read_header(data)
            was = before[header.base_offset]
            self.assertTrue(check_crc(data, 0, header))
            for name in ("last_offset_delta", "leader_epoch", "producer_id", "producer_epoch", "base_sequence"):
                self.assertEqual(getattr(header, name), getattr(was, name), name)
            self.assertEqual(header.log_append_time, was.log_append_time)
            if header.record_count:
                self.assertEqual(header.codec, was.codec)
        bases = [read_header(data).base_offset for data in left]
        self.assertEqual(bases, sorted(bases))
        offsets = [record.offset for record in records(left)]
        self.assertEqual(offsets, sorted(offsets))
        for record in records(left):
            self.assertEqual(record, known[record.offset])

    @given(BATCHES)
    def test_end_offset_and_sequences_are_kept(self, drawn: Drawn) -> None:
        """The log's end stays, and each producer's last batch, so that its sequence continues."""
        log = a_log(drawn)
        left, _ = clean(log)
        self.assertEqual(end_of(left), end_of(log))
        self.assertEqual(last_of_producers(left), last_of_producers(log))
        for data in left[:-1]:
            header = read_header(data)
            if not header.record_count:
                self.assertEqual(last_of_producers(log)[header.producer_id], header.last_offset)

    @given(BATCHES, st.integers(0, 2 * DAY))
    def test_a_second_time(self, drawn: Drawn, later: int) -> None:
        """A second cleaning changes nothing."""
        once, end = clean(a_log(drawn), now=NOW + later)
        twice, again = clean(once, now=NOW + later)
        self.assertEqual((twice, again), (once, end))

    @given(BATCHES, st.lists(st.integers(0, 60), max_size=4), st.integers(1, 4))
    def test_in_rounds(self, drawn: Drawn, bounds: list[int], keys: int) -> None:
        """However the work is cut into rounds, by bounds or by memory, the records left are the same in the end."""
        log = a_log(drawn)
        whole = records(clean(log)[0])
        left, start = log, 0
        for bound in sorted(min(bound, end_of(log)) for bound in bounds):
            left, reached = clean(left, start=start, bound=max(bound, start), keys=keys)
            start = max(start, reached)
        for _ in range(200):
            if start >= end_of(log):
                break
            left, reached = clean(left, start=start, keys=keys)
            self.assertGreater(reached, start)
            start = reached
        self.assertEqual(records(left), whole)

    @given(BATCHES, st.integers(0, DAY - 1), st.integers(0, 3))
    @settings(max_examples=50)
    def test_markers_stay_a_while(self, drawn: Drawn, waits: int, rounds: int) -> None:
        """A reader who began before a key was cleaned sees its delete marker for delete.retention.ms; then it goes."""
        log = a_log(drawn)
        markers = {r.key for r in records(log) if r.value is None} - set(state(records(log)))
        left, _ = clean(log)
        for i in range(rounds):
            left, _ = clean(left, now=NOW + waits * (i + 1) // (rounds + 1))
        self.assertEqual({record.key for record in records(left) if record.value is None}, markers)
        left, _ = clean(left, now=NOW + DAY)
        self.assertEqual([record.key for record in records(left) if record.value is None], [])
        self.assertEqual(state(records(left)), state(records(log)))


class CompactionTests(SynchronousTestCase):
    """Particular batches."""

    def test_the_delete_horizon(self) -> None:
        """The date is in the batch as Kafka has it (KIP-534), and the records' own times are as they were."""
        log = a_log([([(1, False), (1, True)], Codec.NONE, -1, 0, False)])
        left, _ = clean(log)
        header = read_header(left[0])
        self.assertEqual(header.attributes, 1 << 6)
        self.assertEqual((header.base_timestamp, header.delete_horizon), (NOW + DAY, NOW + DAY))
        self.assertEqual(header.max_timestamp, NOW - DAY + 1)
        self.assertEqual(records(left), [Record(1, NOW - DAY + 1, b"k1", None)])

    def test_the_horizon_waits_for_the_bound(self) -> None:
        """Of a batch whose keys did not all fit no marker gets its date: older values of theirs may still be there."""
        log = a_log([([(1, True), (2, False)], Codec.NONE, -1, 0, False)])
        left, end = clean(log, keys=1)
        self.assertEqual((left, end), (log, 1))

    def a_transaction(self, type: ControlType) -> list[bytes]:
        """A value, another one of producer 7's transaction, its marker, and a key that looks like the marker's."""
        numbers: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
        inside = [Record(0, NOW, b"k", b"new"), Record(0, NOW, b"l", b"other")]
        return [
            encode_batch([Record(0, NOW, b"k", b"old")]),
            encode_batch(inside, base_offset=1, base_sequence=0, transactional=True, **numbers),
            encode_marker_batch(Marker(type, 0), base_offset=3, timestamp=NOW, **numbers),
            encode_batch([Record(0, NOW, encode_control_key(type), b"x")], base_offset=4),
        ]

    def test_committed(self) -> None:
        """What was committed replaces what was before it; the marker stays as long as a record does."""
        log = self.a_transaction(ControlType.COMMIT)
        left, end = clean(log, producers={})
        self.assertEqual((left, end), (log[1:], 5))
        left, _ = clean(left, now=NOW + 2 * DAY, producers={})
        self.assertEqual(left, log[1:])

    def test_marker_is_removed_last(self) -> None:
        """Without records of its transaction a marker stays for delete.retention.ms, with the date in its batch."""
        log = self.a_transaction(ControlType.COMMIT)
        newer = encode_batch([Record(0, NOW, b"k", b"1"), Record(0, NOW, b"l", b"2")], base_offset=5)
        left, _ = clean([*log, newer], producers={})
        self.assertEqual([read_header(data).base_offset for data in left], [3, 4, 5])
        header = read_header(left[0])
        self.assertTrue(header.control and header.transactional)
        self.assertEqual(header.delete_horizon, NOW + DAY)
        self.assertEqual(read_marker(left[0], 0, header), Marker(ControlType.COMMIT, 0))
        self.assertEqual(clean(left, now=NOW + DAY - 1, producers={})[0], left)
        gone, _ = clean(left, now=NOW + DAY, producers={})
        self.assertEqual(gone, left[1:])

    def test_aborted(self) -> None:
        """Aborted records are removed, and replace no others."""
        log = self.a_transaction(ControlType.ABORT)
        left, _ = clean(log, producers={}, aborted=[AbortedTransaction(7, 1, 3, 4)])
        self.assertEqual([read_header(data).base_offset for data in left], [0, 3, 4])
        self.assertEqual(left[0], log[0])
        self.assertEqual(read_header(left[1]).delete_horizon, NOW + DAY)

    def test_aborted_above_the_bound(self) -> None:
        """As long as its marker lies above the bound a transaction stays as it is."""
        log = self.a_transaction(ControlType.ABORT)
        left, end = clean(log, bound=3, producers={}, aborted=[AbortedTransaction(7, 1, 3, 4)])
        self.assertEqual((left, end), (log, 3))

    def test_the_last_of_a_producer(self) -> None:
        """Of a producer that is known an empty batch is left, or, without one in its epoch, the marker."""
        log = self.a_transaction(ControlType.ABORT)
        aborted = [AbortedTransaction(7, 1, 3, 4)]
        left, _ = clean(log, producers={7: 2}, aborted=aborted)
        self.assertEqual([read_header(data).record_count for data in left], [1, 0, 1, 1])
        late, _ = clean(left, now=NOW + DAY, producers={7: 2}, aborted=aborted)
        self.assertEqual([read_header(data).base_offset for data in late], [0, 1, 4])
        bare, _ = clean(left, now=NOW + DAY, producers={}, bare={7: 0}, aborted=aborted)
        self.assertEqual([read_header(data).base_offset for data in bare], [0, 3, 4])
        other, _ = clean(left, now=NOW + DAY, producers={}, bare={7: 1}, aborted=aborted)
        self.assertEqual([read_header(data).base_offset for data in other], [0, 4])

    def test_a_marker_at_the_end(self) -> None:
        """The last batch of a run leaves its header, which says nothing of a transaction."""
        left, _ = clean(self.a_transaction(ControlType.COMMIT)[2:3], producers={})
        left, end = clean(left, now=NOW + DAY, producers={})
        header = read_header(left[0])
        self.assertEqual((len(left), end, header.record_count, header.control), (1, 4, 0, True))
        self.assertIsNone(read_marker(left[0], 0, header))
        self.assertEqual(clean(left, now=NOW + DAY, producers={})[0], left)

    def test_records_without_a_key(self) -> None:
        """They stay, and are counted."""
        data = encode_batch([Record(0, NOW, None, b"x"), Record(0, NOW, b"k", b"1"), Record(0, NOW, b"k", b"2")])
        keys = OffsetMap(1000)
        header = read_header(data)
        self.assertEqual(add_keys(keys, data, 0, header), 3)
        compaction = Compaction(keys, 3, NOW, DAY)
        left = bytes(compaction.retained(data, 0, header) or b"")
        self.assertEqual([record.value for record in decode_batch(left)], [b"x", b"2"])
        self.assertEqual((compaction.keyless, compaction.removed, compaction.records), (1, 1, 3))

    def test_damage(self) -> None:
        """A batch with a wrong CRC is not rewritten with a right one."""
        data = bytearray(encode_batch([Record(0, NOW, b"k", b"value")]))
        data[-2] ^= 1
        header = read_header(data)
        self.assertRaises(DecodeError, add_keys, OffsetMap(1000), data, 0, header)
        self.assertRaises(DecodeError, Compaction(OffsetMap(1000), 1, NOW, DAY).retained, data, 0, header)

    def test_unreadable(self) -> None:
        """Nor is one with a right CRC whose records cannot be decoded."""
        data = bytearray(encode_batch([Record(0, NOW, b"k", b"value")]))
        data[ATTRIBUTES_AT + 1] = 5
        CRC.pack_into(data, CRC_AT, batch_crc(data, 0, len(data)))
        self.assertRaises(DecodeError, add_keys, OffsetMap(1000), data, 0, read_header(data))

    def test_producers_of_old(self) -> None:
        """Of a producer that is forgotten no batch is kept for its own sake."""
        drawn: Drawn = [([(1, False)], Codec.NONE, 1, 0, False), ([(1, False)], Codec.NONE, 2, 0, False)]
        known, _ = clean(a_log(drawn))
        self.assertEqual([read_header(data).record_count for data in known], [0, 1])
        forgotten, _ = clean(a_log(drawn), producers={2: 1})
        self.assertEqual([read_header(data).record_count for data in forgotten], [1])
