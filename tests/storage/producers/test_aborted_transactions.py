"""Transactions in a log: markers, fencing, the last stable offset, and the transaction index."""

from __future__ import annotations

import struct
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode
from logbus.records.batch import ControlType, Marker, iter_batches, read_header
from logbus.storage import file_names
from logbus.storage.appends.append_as_follower import append_as_follower
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.appends.append_marker import append_marker
from logbus.storage.producers.aborted_transactions import rebuild_transaction_index
from logbus.storage.producers.last_stable_offset import OpenTransactions
from logbus.storage.producers.producer_snapshot import decode_snapshot, encode_snapshot
from logbus.storage.producers.producer_state_loader import load_producer_state
from logbus.storage.producers.producer_state_manager import ProducerStateEntry, ProducerStateManager
from logbus.storage.segments.transaction_index import AbortedTransaction
from logbus.storage.settings import StorageSettings
from logbus.storage.truncation import truncate_fully
from logbus.testing.simulation.environment.memory_disk import MemoryDisk, PowerCutOutcome, no_space
from tests.storage.builders import NOW_MS, PARTITION, a_log, a_manager, batch, data_of
from tests.storage.test_log_model import now

ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT
SMALL = TopicConfig(segment_bytes=300)


class TransactionCase(SynchronousTestCase):
    """A log that producers with transactions write to."""

    def setUp(self) -> None:
        self.log = a_log()
        self.sequences: dict[tuple[int, int], int] = {}

    def write(self, pid: int, epoch: int = 0, count: int = 1, transactional: bool = True) -> int:
        """Append a batch that continues the producer's sequence; its base offset."""
        sequence = self.sequences.get((pid, epoch), 0)
        data = batch(
            *[b"v"] * count, producer_id=pid, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
        )
        offset = append_as_leader(self.log, data, 3).base_offset
        self.sequences[pid, epoch] = sequence + count
        return offset

    def mark(self, pid: int, type: ControlType = COMMIT, epoch: int = 0, coordinator: int = 0, version: int = 0) -> int:
        """Append a marker; its offset."""
        return append_marker(self.log, pid, epoch, Marker(type, coordinator), 3, NOW_MS, version).base_offset

    def known(self, pid: int) -> ProducerStateEntry:
        """What the log knows of a producer."""
        entry = self.log.producers.get(pid)
        assert entry is not None
        return entry

    def refused(self, code: ErrorCode, work: Any, *args: Any, **kwargs: Any) -> str:
        end = self.log.log_end_offset
        error = self.assertRaises(ApiError, work, *args, **kwargs)
        self.assertEqual((error.code, self.log.log_end_offset), (code, end))
        return str(error)


class MarkerTests(TransactionCase):
    """Fencing of markers, and the state after one."""

    def test_the_batch(self) -> None:
        """A marker is a control batch of one record, with the leader's epoch and the producer's."""
        self.write(7)
        self.assertEqual(self.mark(7, ABORT, coordinator=5), 1)
        ((_, header),) = iter_batches(data_of(self.log.read(1, 1000).data))
        self.assertEqual((header.base_offset, header.last_offset, header.leader_epoch), (1, 1, 3))
        self.assertEqual((header.producer_id, header.producer_epoch, header.base_sequence), (7, 0, -1))
        self.assertTrue(header.control and header.transactional)
        entry = self.known(7)
        self.assertEqual((entry.coordinator_epoch, entry.last_timestamp, entry.open_since), (5, NOW_MS, None))

    def test_an_older_epoch(self) -> None:
        """A marker of the producer's past is refused."""
        self.write(7, epoch=2)
        self.assertIn("epoch 2", self.refused(ErrorCode.INVALID_PRODUCER_EPOCH, self.mark, 7, epoch=1))
        self.assertTrue(self.log.producers.open_transaction(7, 2))

    def test_a_replaced_coordinator(self) -> None:
        """A coordinator is refused once a newer one was heard of; the same one is not."""
        self.write(7)
        self.mark(7, coordinator=4)
        self.write(7)
        self.refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED, self.mark, 7, coordinator=3)
        self.mark(7, coordinator=4)

    def test_the_next_epoch(self) -> None:
        """With version 2 a marker carries the next epoch, and what is late of the transaction is refused."""
        self.write(7)
        self.mark(7, epoch=1, version=2)
        self.refused(ErrorCode.INVALID_PRODUCER_EPOCH, self.write, 7, epoch=0)
        self.sequences[7, 1] = 1
        self.refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, self.write, 7, epoch=1)
        self.sequences[7, 1] = 0
        self.write(7, epoch=1)

    def test_a_late_marker(self) -> None:
        """With version 2 a marker that comes again cannot end the next transaction; with version 1 it would."""
        self.write(7)
        self.mark(7, epoch=1, version=2)
        self.write(7, epoch=1)
        self.assertIn("same epoch", self.refused(ErrorCode.INVALID_PRODUCER_EPOCH, self.mark, 7, epoch=1, version=2))
        self.mark(7, epoch=1, version=1)
        self.assertFalse(self.log.producers.open_transaction(7, 1))

    def test_repeated_marker(self) -> None:
        """A marker that is repeated when no transaction is open is written again, and changes nothing."""
        for version in (0, 1, 2):
            pid = 7 + version
            self.write(pid)
            first = self.mark(pid, ABORT, epoch=1, version=version)
            known = [self.log.aborted_transactions(0, 100), evolve(self.known(pid))]
            self.assertEqual(self.mark(pid, ABORT, epoch=1, version=version), first + 1)
            self.assertEqual([self.log.aborted_transactions(0, 100), self.known(pid)], known)
            self.assertEqual(self.log.producers.last_marker_offset(pid), first + 1)

    def test_an_unknown_producer(self) -> None:
        """A marker for a producer that never wrote here is written; from then on its epoch is known."""
        self.assertEqual(self.log.producers.last_marker_offset(7), -1)
        self.mark(7, ABORT, epoch=4)
        self.assertEqual(self.log.producers.last_marker_offset(7), 0)
        self.assertEqual(self.log.aborted_transactions(0, 10), [])
        self.refused(ErrorCode.INVALID_PRODUCER_EPOCH, self.write, 7, epoch=3)

    def test_no_writes_outside_a_transaction(self) -> None:
        """A producer with an open transaction cannot write outside of it; afterwards it can do both."""
        self.write(7)
        self.refused(ErrorCode.INVALID_TXN_STATE, self.write, 7, transactional=False)
        self.write(7)
        self.mark(7)
        self.write(7, transactional=False)
        self.write(7)
        self.assertTrue(self.log.producers.open_transaction(7, 0))

    def test_retry_after_the_end(self) -> None:
        """A retried batch is a duplicate after its transaction ended, too, in the same epoch."""
        data = batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        append_as_leader(self.log, data, 0)
        self.mark(7)
        self.assertTrue(append_as_leader(self.log, data, 0).duplicate)
        self.assertFalse(self.log.producers.open_transaction(7, 0))

    def test_wrap(self) -> None:
        """Sequence numbers go on from 0 after 2**31 - 1 within a transaction, too."""
        self.sequences[7, 0] = 2**31 - 1
        self.write(7)
        self.sequences[7, 0] = 0
        self.write(7)
        self.mark(7)
        self.assertEqual(self.write(7), 3)

    def test_expiry(self) -> None:
        """A producer with an open transaction is never forgotten; after the marker it is in time."""
        self.write(7)
        self.assertEqual(self.log.producers.expire(2**62), 0)
        self.mark(7)
        self.assertEqual((self.log.producers.expire(NOW_MS), self.log.producers.expire(NOW_MS + 1)), (0, 1))
        self.assertEqual(self.log.last_stable_offset(2), 2)

    def test_no_space(self) -> None:
        """Without space a marker is refused, and the transaction stays open."""
        self.write(7)
        disk = self.log.disk
        assert isinstance(disk, MemoryDisk)
        disk.faults = lambda op, path: no_space() if op == "write" else None
        self.refused(ErrorCode.KAFKA_STORAGE_ERROR, self.mark, 7)
        self.assertTrue(self.log.producers.open_transaction(7, 0))


class LastStableOffsetTests(TransactionCase):
    """Where readers of committed records stop."""

    def test_open(self) -> None:
        """At the oldest transaction that is open, however many there are."""
        self.write(1)
        self.write(2)
        self.write(9, transactional=False)
        self.assertEqual(self.log.last_stable_offset(3), 0)
        self.mark(1)
        self.assertEqual(self.log.last_stable_offset(4), 1)
        self.mark(2)
        self.assertEqual(self.log.last_stable_offset(5), 5)

    def test_the_marker_must_be_committed(self) -> None:
        """A transaction whose marker is not below the high watermark still holds them back."""
        self.write(9, transactional=False)
        self.write(1)
        self.mark(1)
        self.assertEqual([self.log.last_stable_offset(mark) for mark in (0, 1, 2)], [0, 1, 1])
        self.assertEqual(self.log.last_stable_offset(3), 3)

    def test_nested_transactions(self) -> None:
        """The last stable offset depends on where the transactions began whose markers are not committed yet."""
        for pid in (1, 2, 3):
            self.write(pid)
        for pid in (2, 3, 1):
            self.mark(pid)
        self.assertEqual([self.log.last_stable_offset(mark) for mark in (3, 4, 5)], [0, 0, 0])
        self.assertEqual(self.log.last_stable_offset(6), 6)

    def test_start_offset_inside_a_transaction(self) -> None:
        """No offset before the log's start is reported, even if an open transaction began there."""
        self.write(1, count=3)
        self.write(9, transactional=False)
        self.log.advance_start(2)
        self.assertEqual([self.log.last_stable_offset(mark) for mark in (2, 4)], [2, 2])
        self.mark(1)
        self.assertEqual(self.log.last_stable_offset(5), 5)

    def test_ten_thousand(self) -> None:
        """What is decided is not kept once it is committed, and of what is not only what matters."""
        transactions = OpenTransactions()
        for pid in range(10_000):
            transactions.began(pid, pid)
        for pid in range(1, 10_000):
            transactions.ended(pid, 10_000 + pid)
        self.assertEqual((len(transactions), transactions.last_stable_offset(20_000)), (1, 0))
        transactions.ended(0, 20_000)
        self.assertEqual(transactions.last_stable_offset(20_000), 0)
        self.assertEqual(len(transactions._decided), 1)
        self.assertEqual(transactions.last_stable_offset(20_001), 20_001)
        self.assertEqual(len(transactions._decided), 0)

    @given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=60), st.integers(0, 60))
    def test_by_definition(self, steps: list[tuple[int, bool]], committed: int) -> None:
        """It is the least of the high watermark and of what began and has no committed marker."""
        transactions, ended = OpenTransactions(), []
        began: dict[int, int] = {}
        for offset, (pid, ends) in enumerate(steps):
            if ends and pid in began:
                transactions.ended(pid, offset)
                ended.append((offset, began.pop(pid)))
            elif not ends and pid not in began:
                began[pid] = offset
                transactions.began(pid, offset)
        waiting = [first for marker, first in ended if marker >= committed]
        self.assertEqual(transactions.last_stable_offset(committed), min([committed, *began.values(), *waiting]))
        self.assertEqual(transactions.first_offset, min(began.values(), default=None))
        self.assertEqual(transactions.oldest, min(began, key=lambda pid: began[pid], default=None))


class TransactionIndexTests(TransactionCase):
    """The aborted transactions named to readers."""

    def index_of(self, base_offset: int = 0) -> bytes:
        return self.log.disk.read(f"orders-0/{file_names.segment_file(base_offset, file_names.TRANSACTION_INDEX)}")

    def test_format(self) -> None:
        """Kafka's, version 0: producer, first offset, the marker's, and up to where all had ended by then."""
        self.write(1, count=2)
        self.write(2)
        self.write(3)
        self.mark(2, ABORT)
        self.mark(1, ABORT)
        self.mark(3, ABORT, epoch=1, version=2)
        now(self.log.flusher.write_back_and_wait())
        self.assertEqual(
            self.index_of(),
            struct.pack(">hqqqq", 0, 2, 2, 4, 0)
            + struct.pack(">hqqqq", 0, 1, 0, 5, 3)
            + struct.pack(">hqqqq", 0, 3, 3, 6, 7),
        )

    def test_no_file_without_need(self) -> None:
        """Where nothing was aborted there is no file."""
        self.write(1)
        self.mark(1, COMMIT)
        self.mark(1, ABORT)
        self.log.roll()
        now(self.log.flusher.write_back_and_wait())
        self.assertEqual([name for name in self.log.disk.names("orders-0") if "txn" in name], [])

    def test_across_segments(self) -> None:
        """A transaction is found from each of its segments; the entry is where the marker is."""
        self.log.configure(SMALL)
        for _ in range(6):
            self.write(1)
            self.write(2)
        self.mark(1, ABORT)
        bases = [segment.base_offset for segment in self.log.segments]
        self.assertGreater(len(bases), 2)
        entry = AbortedTransaction(1, 0, 12, 1)
        for base in bases:
            self.assertEqual(self.log.aborted_transactions(base, base + 1), [entry])
        self.assertEqual(self.log.aborted_transactions(13, 14), [])
        self.mark(2, ABORT)
        self.assertEqual(self.log.aborted_transactions(2, 3), [entry, AbortedTransaction(2, 1, 13, 14)])
        self.assertEqual(self.log.aborted_transactions(0, 1), [entry])

    def test_many(self) -> None:
        """They are found with a few reads among a thousand, some of which are not in the file yet."""
        for n in range(1200):
            self.write(n)
            self.mark(n, ABORT)
            if n == 900:
                now(self.log.flusher.write_back_and_wait())
        disk = self.log.disk
        assert isinstance(disk, MemoryDisk)
        reads: list[str] = []
        disk.faults = lambda op, path: reads.append(path) if op == "read" else None
        for n in (0, 1, 127, 128, 450, 895, 900, 901, 902, 1100, 1199):
            for offset in (2 * n, 2 * n + 1):
                reads.clear()
                found = self.log.aborted_transactions(offset, offset + 3)
                self.assertEqual([entry.producer_id for entry in found], [m for m in (n, n + 1) if m < 1200][:2])
                self.assertLess(len(reads), 7)
        found = self.log.aborted_transactions(401, 2001)
        self.assertEqual([entry.first_offset for entry in found], list(range(400, 2001, 2)))
        self.assertEqual(self.log.aborted_transactions(2400, 2500), [])

    def test_segments_without(self) -> None:
        """A read skips segments without aborted transactions, checking each only once."""
        self.write(1)
        self.write(2)
        for type in (COMMIT, ABORT, COMMIT, COMMIT):
            self.mark(1, type)
            self.log.roll()
            self.write(1)
        entry = AbortedTransaction(1, 3, 4, 1)
        for first in (3, 0, 3):
            self.assertEqual(self.log.aborted_transactions(first, first + 4), [entry])
            self.assertEqual(self.log.aborted_transactions(5, 9), [])
        told = [
            segment.base_offset
            for segment in self.log.aborting.from_offset(self.log.segments, self.log.log_end_offset, 0)
        ]
        self.assertEqual(told, [3, self.log.segments[-1].base_offset])
        self.mark(2, ABORT)
        self.log.roll()
        self.assertEqual(self.log.aborted_transactions(0, 1), [])
        self.assertEqual(self.log.aborted_transactions(7, 8), [AbortedTransaction(2, 1, 10, 9)])
        self.write(3)
        self.mark(3, ABORT)
        self.assertEqual(self.log.aborted_transactions(11, 12), [AbortedTransaction(3, 11, 12, 9)])

    def test_in_order(self) -> None:
        """They come by their first offsets, whichever ended first."""
        for pid in (3, 1, 2):
            self.write(pid)
        for pid in (2, 1, 3):
            self.mark(pid, ABORT)
        self.assertEqual([entry.producer_id for entry in self.log.aborted_transactions(0, 6)], [3, 1, 2])

    def test_index_is_deleted_with_its_segment(self) -> None:
        """The transaction index is deleted with its segment."""
        self.write(1)
        self.mark(1, ABORT)
        self.log.roll()
        self.write(2)
        self.mark(2, ABORT)
        self.log.roll()
        truncate_fully(self.log, 100)
        self.assertEqual(self.log.aborted_transactions(100, 101), [])
        self.assertEqual([name for name in self.log.disk.names("orders-0") if ".txnindex" in name], [])

    def test_a_follower(self) -> None:
        """A follower has the same state, whether batches come together or one by one."""
        for pid in (1, 2):
            self.write(pid)
        self.mark(1, ABORT, coordinator=3)
        self.write(3)
        data = data_of(self.log.read(0, 10_000).data)
        whole, single = a_log(), a_log()
        append_as_follower(whole, data)
        for position, header in iter_batches(data):
            append_as_follower(single, data[position : position + header.size])
        for copy in (whole, single):
            self.assertEqual(list(copy.producers), list(self.log.producers))
            self.assertEqual(copy.aborted_transactions(0, 5), [AbortedTransaction(1, 0, 2, 1)])
            self.assertEqual(copy.last_stable_offset(4), 1)

    def test_invalid_control_batches(self) -> None:
        """A follower refuses an invalid control batch."""
        data = batch(b"", keys=[b"?"], producer_id=1, producer_epoch=0, control=True, transactional=True)
        error = self.assertRaises(ApiError, append_as_follower, self.log, data)
        self.assertEqual(error.code, ErrorCode.CORRUPT_MESSAGE)

    def test_without_space(self) -> None:
        """Without space entries wait in memory; the log is not taken to be safe beyond them."""
        self.write(1)
        self.mark(1, ABORT)
        disk = self.log.disk
        assert isinstance(disk, MemoryDisk)
        full = lambda op, path: no_space() if op == "write" and "txnindex" in path else None  # noqa: E731
        disk.faults = full
        now(self.log.flusher.write_back_and_wait())
        self.assertEqual((self.log.flushed_end_offset, self.log.recovery_point), (2, 1))
        self.assertEqual(len(self.log.aborted_transactions(0, 2)), 1)
        disk.faults = lambda op, path: None
        now(self.log.flusher.write_back_and_wait())
        self.assertEqual(self.log.recovery_point, 2)


class DamageTests(SynchronousTestCase):
    """What is lost or damaged on disk is found again."""

    def setUp(self) -> None:
        self.disk = MemoryDisk()
        self.manager = a_manager(self.disk, settings=StorageSettings(), clock=Clock())
        now(self.manager.open())
        self.log = now(self.manager.create(PARTITION))
        for round in range(3):
            self.both_abort(round)
            self.log.roll()
        self.known = list(self.log.aborted_transactions(0, 12))
        self.assertEqual(len(self.known), 6)

    def both_abort(self, sequence: int) -> int:
        """Two transactions, aborted; how many bytes their records take."""
        size = 0
        for pid in (1, 2):
            data = batch(producer_id=pid, producer_epoch=0, base_sequence=sequence, transactional=True)
            size += append_as_leader(self.log, data, 0).size
        for pid in (1, 2):
            append_marker(self.log, pid, 0, Marker(ABORT, 0), 0, NOW_MS)
        return size

    def reopen(self) -> None:
        self.manager = a_manager(self.disk, clock=Clock())
        now(self.manager.open())
        self.log = self.manager.get(PARTITION)

    def damage(self, base_offset: int, data: bytes) -> None:
        self.disk.replace(f"orders-0/{file_names.segment_file(base_offset, file_names.TRANSACTION_INDEX)}", data)

    def damaged_ones(self) -> list[bytes]:
        first = struct.pack(">hqqqq", 0, 1, 4, 6, 5)
        second = struct.pack(">hqqqq", 0, 2, 5, 7, 8)
        return [
            b"torn",
            first + second[:-1],
            struct.pack(">hqqqq", 1, 1, 4, 6, 5) + second,
            struct.pack(">hqqqq", 0, 1, 0, 2, 5),
            struct.pack(">hqqqq", 0, 1, 7, 6, 5) + second,
        ]

    def test_after_a_clean_stop(self) -> None:
        """An index found to be damaged when it is used is rebuilt then, with a log message."""
        for data in self.damaged_ones():
            now(self.manager.close())
            self.damage(4, data)
            with capturedLogs() as logs:
                self.reopen()
                self.assertEqual(list(self.log.aborted_transactions(0, 12)), self.known, data)
            self.assertTrue([e for e in logs if "rebuilt" in (e["log_format"] or "")])
            self.lose_power()
            self.assertEqual(list(self.log.aborted_transactions(0, 12)), self.known, data)

    def test_a_segment_among_others(self) -> None:
        """What is rebuilt has the markers of its own segment only: later ones are not read for it."""
        now(self.manager.close())
        self.reopen()
        self.damage(0, b"torn")
        first = self.log.segments[0]
        first.close_transaction_index()
        index = rebuild_transaction_index(first, self.log.segments, self.log.log_end_offset, "it is torn")
        self.assertEqual(list(index.entries()), self.known[:2])

    def test_after_a_crash(self) -> None:
        """A start that recovers looks at all of them."""
        for data in [*self.damaged_ones(), self.order_wrong()]:
            now(self.log.flusher.write_back_and_wait())
            now(self.manager.directories[0].checkpoint_recovery_points())
            self.disk = self.disk.after_kill()
            self.damage(4, data)
            self.reopen()
            self.assertEqual(list(self.log.aborted_transactions(0, 12)), self.known, data)
            self.lose_power()
            self.assertEqual(list(self.log.aborted_transactions(0, 12)), self.known, data)

    def lose_power(self) -> None:
        """Of what was not synced nothing is left: what was found again must have been."""
        self.disk = self.disk.after_power_cut(PowerCutOutcome("lose"))
        self.reopen()

    def test_the_active_segment(self) -> None:
        """What lies below the recovery point is on stable storage, of the segment that is written to as well."""
        self.both_abort(3)
        now(self.log.flusher.write_back_and_wait())
        now(self.manager.directories[0].checkpoint_recovery_points())
        self.lose_power()
        self.assertEqual([entry[:3] for entry in self.log.aborted_transactions(12, 16)], [(1, 12, 14), (2, 13, 15)])

    def test_shortened_log(self) -> None:
        """If the log lost synced records, the aborted transactions in them are forgotten, too."""
        size = self.both_abort(3)
        now(self.log.flusher.write_back_and_wait())
        now(self.manager.directories[0].checkpoint_recovery_points())
        self.disk = self.disk.after_kill()
        self.disk.open(f"orders-0/{file_names.segment_file(12, file_names.LOG)}").truncate(size)
        self.reopen()
        self.assertEqual(self.log.log_end_offset, 14)
        self.assertEqual(list(self.log.aborted_transactions(0, 16)), self.known)
        append_as_leader(self.log, batch(), 0)
        append_marker(self.log, 1, 1, Marker(ABORT, 0), 0, NOW_MS)
        self.assertEqual(list(self.log.aborted_transactions(14, 16)), [AbortedTransaction(1, 12, 15, 13)])

    def order_wrong(self) -> bytes:
        return struct.pack(">hqqqq", 0, 2, 5, 7, 8) + struct.pack(">hqqqq", 0, 1, 4, 6, 5)

    def test_a_stop_without_space(self) -> None:
        """A stop that cannot write an index is none that the next start believes beyond it."""
        header = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        append_as_leader(self.log, batch(**header), 0)  # type: ignore[arg-type]
        append_marker(self.log, 5, 0, Marker(ABORT, 0), 0, NOW_MS)
        full = lambda op, path: no_space() if op == "write" and "txnindex" in path else None  # noqa: E731
        self.disk.faults = full
        now(self.manager.close())
        self.disk.faults = lambda op, path: None
        self.reopen()
        self.assertEqual(list(self.log.aborted_transactions(12, 14)), [AbortedTransaction(5, 12, 13, 14)])

    def test_truncation(self) -> None:
        """What is cut off is forgotten, damaged or not; a marker that goes opens its transaction again."""
        now(self.manager.close())
        self.damage(4, b"torn")
        self.reopen()
        now(self.manager.truncator.truncate({PARTITION: 7}))
        log = self.log
        self.assertEqual(list(log.aborted_transactions(0, 12)), self.known[:3])
        self.assertEqual(log.last_stable_offset(7), 5)
        self.assertTrue(log.producers.open_transaction(2, 0))

    def test_snapshots(self) -> None:
        """Coordinator epochs and open transactions come back from a snapshot, or without one from the batches."""
        log = self.log
        append_as_leader(log, batch(producer_id=1, producer_epoch=0, base_sequence=3, transactional=True), 0)
        append_marker(log, 2, 1, Marker(ABORT, 9), 0, NOW_MS)
        found = decode_snapshot(encode_snapshot(log.producers), log.log_end_offset)
        for name in self.disk.names("orders-0"):
            if name.endswith(file_names.SNAPSHOT):
                self.disk.unlink(f"orders-0/{name}")
        for producers in (found, load_producer_state(self.disk, "orders-0", log.segments, log.log_end_offset)):
            self.assertEqual(
                [(e.producer_id, e.epoch, e.coordinator_epoch, e.open_since, e.last_sequence) for e in producers],
                [(1, 0, 0, 12, 3), (2, 1, 9, None, -1)],
            )
            self.assertEqual(producers.transactions.last_stable_offset(14), 12)

    def test_empty_batches_start_no_transaction(self) -> None:
        """A batch that compaction emptied starts no transaction: that transaction has ended."""
        header = read_header(batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True))
        producers = ProducerStateManager()
        producers.appended(header._replace(record_count=0), 0)
        self.assertFalse(producers.open_transaction(1, 0))
        self.assertEqual(producers.get(1).last_sequence, 0)  # type: ignore[union-attr]
