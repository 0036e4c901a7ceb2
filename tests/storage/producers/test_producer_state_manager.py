"""Producer state: the rules for batches, and snapshots."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, ErrorCode
from logbus.records.batch import ControlType, Marker, encode_marker_batch, read_header
from logbus.records.checksum import crc32c
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.producers.producer_snapshot import SnapshotCorrupt, decode_snapshot, encode_snapshot
from logbus.storage.producers.producer_state_manager import BatchMetadata, ProducerStateEntry, ProducerStateManager
from tests.storage.builders import a_log, batch

LAST = 2**31 - 1


class SequenceTests(SynchronousTestCase):
    """What a producer may send next."""

    def setUp(self) -> None:
        self.log = a_log()

    def send(self, sequence: int, count: int = 1, epoch: int = 0, pid: int = 5) -> int:
        """Append; the base offset."""
        data = batch(*[b"v"] * count, producer_id=pid, producer_epoch=epoch, base_sequence=sequence)
        return append_as_leader(self.log, data, 0).base_offset

    def refused(self, code: ErrorCode, sequence: int, count: int = 1, epoch: int = 0) -> None:
        end = self.log.log_end_offset
        self.assertEqual(self.assertRaises(ApiError, self.send, sequence, count, epoch).code, code)
        self.assertEqual(self.log.log_end_offset, end)

    def test_in_sequence(self) -> None:
        """Each batch goes on where the one before ended."""
        self.assertEqual([self.send(0, 3), self.send(3, 2), self.send(5)], [0, 3, 5])

    def test_duplicates(self) -> None:
        """Each of the last five batches, sent again, is answered with its offset and not written."""
        for sequence in range(0, 14, 2):
            self.send(sequence, 2)
        self.assertEqual([self.send(sequence, 2) for sequence in (4, 6, 8, 10, 12)], [4, 6, 8, 10, 12])
        self.assertEqual(self.log.log_end_offset, 14)

    def test_without_a_sequence(self) -> None:
        """What a coordinator writes for a producer is not counted, and no duplicate; a newer epoch fences it."""

        def write(epoch: int) -> int:
            data = batch(b"v", producer_id=5, producer_epoch=epoch, base_sequence=-1, transactional=True)
            return append_as_leader(self.log, data, 0, from_coordinator=True).base_offset

        self.assertEqual([write(epoch) for epoch in (1, 1, 2)], [0, 1, 2])
        self.assertEqual(self.assertRaises(ApiError, write, 1).code, ErrorCode.INVALID_PRODUCER_EPOCH)
        self.refused(ErrorCode.INVALID_RECORD, -1)

    def test_old_duplicates(self) -> None:
        """An older one is a duplicate whose offset is forgotten."""
        for sequence in range(0, 14, 2):
            self.send(sequence, 2)
        self.refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, 2, 2)

    def test_gaps(self) -> None:
        """A gap, or a batch that overlaps what is there, is out of order."""
        self.send(0, 3)
        self.refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 4)
        self.refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 1, 2)
        self.refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, 4)

    def test_wrap(self) -> None:
        """2**31 - 1 is followed by 0, between batches and within one."""
        self.send(LAST - 1, 2)
        self.send(0)
        self.send(1)
        self.assertEqual(self.send(LAST - 1, 2), 0)
        self.send(LAST - 1, 4, pid=6)
        self.assertEqual(self.log.producers.get(6).last_sequence, 1)  # type: ignore[union-attr]
        self.assertEqual(self.send(2, pid=6), 8)
        self.assertEqual(self.send(LAST - 1, 4, pid=6), 4)

    def test_unknown_producer(self) -> None:
        """A producer that is not known, or no more, may start anywhere."""
        self.assertEqual(self.send(77), 0)
        self.assertEqual([self.log.producers.expire(2**62) for _ in range(2)], [0, 1])
        self.assertEqual(self.send(99), 1)

    def test_epochs(self) -> None:
        """An older epoch is fenced; a newer one starts at 0."""
        self.send(0, epoch=3)
        self.refused(ErrorCode.INVALID_PRODUCER_EPOCH, 1, epoch=2)
        self.refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 1, epoch=4)
        self.send(0, epoch=4)
        self.refused(ErrorCode.INVALID_PRODUCER_EPOCH, 1, epoch=3)

    def test_expiry(self) -> None:
        """Producers go when their last batch is old, unless a transaction is open."""
        producers = ProducerStateManager()
        old = batch(timestamp=1000, producer_id=1, producer_epoch=0, base_sequence=0)
        producers.appended(read_header(old), 0)
        open_one = batch(timestamp=1000, producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
        producers.appended(read_header(open_one), 1)
        producers.end_offset = 2
        self.assertEqual((producers.expire(1000), producers.expire(1001), len(producers)), (0, 1, 1))
        self.assertEqual(producers.get(2).open_since, 1)  # type: ignore[union-attr]

    def test_a_marker_ends_the_transaction(self) -> None:
        """What is open since an offset is not any more."""
        producers = ProducerStateManager()
        data = batch(producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
        producers.appended(read_header(data), 1)
        marker = Marker(ControlType.COMMIT, 3)
        ended = encode_marker_batch(marker, producer_id=2, producer_epoch=0, timestamp=1)
        producers.appended(read_header(ended), 2, marker)
        entry = producers.get(2)
        assert entry is not None
        self.assertEqual((entry.open_since, entry.last_sequence, len(entry.batches)), (None, 0, 1))

    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, LAST), st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), max_size=30))
    def test_retries_are_written_once(self, first: int, sends: list[tuple[int, int]]) -> None:
        """Whichever of the batches in flight a producer sends again, the log holds each once, in order."""
        log = a_log()
        sequence, expected, sent = first, 0, []
        for count, back in sends:
            data = batch(*[b"v"] * count, producer_id=1, producer_epoch=0, base_sequence=sequence)
            self.assertEqual(append_as_leader(log, data, 0).base_offset, expected)
            sent.append((data, expected))
            sequence, expected = (sequence + count) % 2**31, expected + count
            for again, offset in sent[-1 - min(back, 4) :]:
                self.assertEqual(append_as_leader(log, again, 0).base_offset, offset)
        self.assertEqual(log.log_end_offset, expected)


class SnapshotTests(SynchronousTestCase):
    """Producer state on disk."""

    def test_format(self) -> None:
        """Kafka's ProducerSnapshot, version 1."""
        producers = ProducerStateManager(8, [ProducerStateEntry(7, 2, [BatchMetadata(3, 5, 10, 12, 99)], 99, -1, 10)])
        body = struct.pack(">iqhiqiqiq", 1, 7, 2, 5, 12, 2, 99, -1, 10)
        self.assertEqual(encode_snapshot(producers), struct.pack(">hI", 1, crc32c(body)) + body)

    entries = st.builds(
        lambda pid, epoch, seq, count, offset, ts, open_since: ProducerStateEntry(
            pid,
            epoch,
            [BatchMetadata(seq, (seq + count) % 2**31, offset, offset + count, ts)],
            ts,
            -1,
            open_since,
        ),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**15 - 1),
        st.integers(0, LAST),
        st.integers(0, 10_000),
        st.integers(0, 2**60),
        st.integers(-1, 2**60),
        st.none() | st.integers(0, 2**60),
    )

    @settings(deadline=None)
    @given(st.lists(entries, max_size=10))
    def test_round_trip(self, entries: list[ProducerStateEntry]) -> None:
        """What is written is read."""
        producers = ProducerStateManager(3, entries)
        self.assertEqual(list(decode_snapshot(encode_snapshot(producers), 3)), list(producers))

    @given(st.data())
    def test_damage(self, data: st.DataObject) -> None:
        """A flipped bit or a missing end is noticed."""
        producers = ProducerStateManager(3, [ProducerStateEntry(7, 2, [BatchMetadata(3, 5, 10, 12, 99)], 99)])
        whole = bytearray(encode_snapshot(producers))
        if data.draw(st.booleans()):
            del whole[data.draw(st.integers(0, len(whole) - 1)) :]
        else:
            whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        self.assertRaises(SnapshotCorrupt, decode_snapshot, bytes(whole), 3)
