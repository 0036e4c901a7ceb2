"""Tests of :mod:`logbus.coordination.state_log`: appends in batches, loads in slices, and skipped damage."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.replication.partition import Partition
from logbus.cluster.replication.replica_manager import Replica
from logbus.config.topic_config import TopicConfig
from logbus.coordination.state_log import StateLog
from logbus.coordination.state_log_reader import RECORDS_A_TURN, RETRY_SECONDS, LoadSummary
from logbus.coordination.transactions.transaction_metadata import ProducerIdAndEpoch
from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.model import LeaderAndIsr
from logbus.net.time_slices import SliceScheduler
from logbus.records.batch import ControlType, Marker, iter_batches
from logbus.records.compression import MAX_DECOMPRESSED, Codec
from logbus.storage.log import Log
from logbus.testing.simulation.environment.memory_disk import MemoryDisk, no_space
from tests.net.fakes import iterate
from tests.storage.builders import NOW_MS, PARTITION, a_log

TOO_LARGE = ErrorCode.INVALID_COMMIT_OFFSET_SIZE


class StateLogTests(SynchronousTestCase):
    """On a memory disk, with a manual clock."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.codec = Codec.NONE
        self.disk = MemoryDisk()
        self.use(a_log(self.disk, config=TopicConfig(flush_before_ack=False)))

    def use(self, log: Log) -> None:
        self.replica = Replica(Partition(PARTITION, 0), UUID(int=1), log)
        self.replica.take_role(LeaderAndIsr(0, 0, (0,)))
        self.state = StateLog(
            self.replica, self.clock, lambda: NOW_MS, lambda: self.codec, lambda: 5000, SliceScheduler(self.clock)
        )

    def write(self, *records: tuple[bytes, bytes | None]) -> None:
        self.successResultOf(self.state.append(records, TOO_LARGE))

    def load(self, slice_bytes: int = 1 << 20) -> tuple[list[tuple[bytes | None, bytes | None]], LoadSummary]:
        read: list[tuple[bytes | None, bytes | None]] = []

        def apply(key: bytes | None, value: bytes | None) -> None:
            if key == b"senseless":
                raise DecodeError("no sense in it")
            read.append((key, value))

        loading = Deferred.fromCoroutine(self.state.load(apply, slice_bytes, lambda: True))
        for _ in range(1000):
            if loading.called:
                break
            self.clock.advance(0)
        return read, self.successResultOf(loading)

    @given(
        st.lists(st.lists(st.tuples(st.binary(max_size=9), st.none() | st.binary(max_size=99)), min_size=1)),
        st.sampled_from(Codec),
        st.integers(1, 500),
    )
    def test_records_are_read_in_order(
        self, batches: list[list[tuple[bytes, bytes | None]]], codec: Codec, slice_bytes: int
    ) -> None:
        """For any codec and slice size."""
        self.setUp()
        self.codec = codec
        for records in batches:
            self.write(*records)
        expected = [record for records in batches for record in records]
        read, loaded = self.load(slice_bytes)
        self.assertEqual(read, [one for one in expected if one[0] != b"senseless"])
        self.assertTrue(loaded.complete)

    def test_load_yields_to_the_reactor(self) -> None:
        """At most some hundred records are applied at a time, and the load can be cancelled in between."""
        for _ in range(3):
            self.write(*[(b"k", b"v")] * RECORDS_A_TURN)
        read: list[Any] = []
        turns: list[int] = []

        def wanted() -> bool:
            turns.append(len(read))
            return len(turns) < 3

        loading = Deferred.fromCoroutine(self.state.load(lambda *one: read.append(one), 1 << 20, wanted))
        self.assertEqual(len(read), 0)
        self.clock.advance(0)
        self.assertEqual(self.successResultOf(loading), LoadSummary(2 * RECORDS_A_TURN, 0, complete=False))
        self.assertEqual(turns, [0, RECORDS_A_TURN, 2 * RECORDS_A_TURN])

    def test_a_large_batch(self) -> None:
        """The records of one batch are applied in several turns."""
        self.write(*[(b"k", b"v")] * (10 * RECORDS_A_TURN))
        read: list[Any] = []
        turns: list[int] = []

        def wanted() -> bool:
            turns.append(len(read))
            return True

        loading = Deferred.fromCoroutine(self.state.load(lambda *one: read.append(one), 1 << 20, wanted))
        self.clock.advance(0)
        self.assertEqual(self.successResultOf(loading), LoadSummary(10 * RECORDS_A_TURN, 0, complete=True))
        self.assertGreaterEqual(len(turns), 10)
        self.assertLessEqual(max(b - a for a, b in pairwise([*turns, len(read)])), RECORDS_A_TURN)

    def test_loads_take_turns(self) -> None:
        """Of several loads only one has a turn in each iteration of the reactor."""
        self.write((b"k", b"v"))
        read: list[Any] = []
        loads = [
            Deferred.fromCoroutine(self.state.load(lambda *one: read.append(one), 1 << 20, lambda: True))
            for _ in range(3)
        ]
        for done in range(4):
            self.assertEqual((len(read), sum(one.called for one in loads)), (done, done))
            iterate(self.clock)

    def test_invalid_record(self) -> None:
        """A damaged record is skipped and logged; the rest is loaded."""
        self.write((b"a", b"1"), (b"senseless", b"2"), (b"b", b"3"))
        read, loaded = self.load()
        self.assertEqual(read, [(b"a", b"1"), (b"b", b"3")])
        self.assertEqual((loaded.records, loaded.skipped, loaded.complete), (2, 1, True))

    def flip(self, position: int) -> None:
        """Damage a byte of the first segment."""
        file = self.replica.log.segments[0].log.get()
        old = file.pread(1, position)
        file.write(position, (bytes([old[0] ^ 0xFF]),))

    def starts(self) -> list[int]:
        data = self.replica.log.read(0, 1 << 20).data
        assert data is not None
        return [position for position, _ in iter_batches(data.read())]

    def test_a_damaged_batch(self) -> None:
        """A batch whose CRC does not match is passed over; the rest loads."""
        for value in (b"1", b"2", b"3"):
            self.write((b"k", value))
        # The last byte says how many headers there are; the one before is the value.
        self.flip(self.starts()[2] - 2)
        read, loaded = self.load()
        self.assertEqual(read, [(b"k", b"1"), (b"k", b"3")])
        self.assertEqual(loaded.skipped, 1)

    def test_damage_that_others_may_repair(self) -> None:
        """Until another replica is back that has the batch, the load waits; but not for ever."""
        for is_back in (True, False):
            with self.subTest(is_back=is_back):
                self.setUp()
                self.replica.take_role(LeaderAndIsr(0, 1, (0,)), replicas=(0, 1))
                self._wait_for_others(is_back)

    def _wait_for_others(self, is_back: bool) -> None:
        for value in (b"1", b"2", b"3"):
            self.write((b"k", value))
        # The last byte says how many headers there are; the one before is the value.
        at = self.starts()[2] - 2
        self.flip(at)

        async def repair(replica: Replica, offset: int) -> None:
            if is_back and self.clock.seconds() > 20:
                self.flip(at)

        self.replica.repair = repair
        found: list[Any] = []
        loading = Deferred.fromCoroutine(self.state.load(lambda _, value: found.append(value), 1 << 20, lambda: True))
        self.clock.pump([0.25] * 60)
        self.assertNoResult(loading)
        self.clock.pump([0.25] * 200)
        loaded = self.successResultOf(loading)
        values = [b"1", b"2", b"3"] if is_back else [b"1", b"3"]
        self.assertEqual((found, loaded.skipped, loaded.complete), (values, 3 - len(values), True))

    def test_a_damaged_base_offset(self) -> None:
        """Which the CRC does not cover: reading goes on forwards, and ends."""
        for value in (b"1", b"2", b"3"):
            self.write((b"k", value))
        for byte in range(8):
            self.flip(self.starts()[1] + byte)
            read, loaded = self.load()
            self.assertIn((b"k", b"1"), read)
            self.assertTrue(loaded.complete)
            self.assertGreater(loaded.skipped, 0)
            self.flip(self.starts()[1] + byte)

    def test_a_batch_that_claims_to_be_longer_than_the_log(self) -> None:
        """It is damage, and no end of the log: what can be repaired is, and what cannot is told."""
        for is_repaired in (True, False):
            self.setUp()
            for value in (b"1", b"2", b"3"):
                self.write((b"k", value))
            at = self.starts()[1] + 10
            self.flip(at)

            async def repair(replica: Replica, offset: int, is_repaired: bool = is_repaired, at: int = at) -> None:
                if is_repaired:
                    self.flip(at)

            self.replica.repair = repair
            read, loaded = self.load()
            values = [b"1", b"2", b"3"] if is_repaired else [b"1"]
            self.assertEqual(([value for _, value in read], loaded.skipped), (values, int(not is_repaired)))

    def test_where_no_batch_can_be_found(self) -> None:
        """With a length or magic that cannot be, the next segment is where reading goes on."""
        for value in (b"1", b"2"):
            self.write((b"k", value))
        position = self.starts()[1]
        self.replica.log.roll()
        self.write((b"k", b"3"))
        for at in (8, 16):
            self.flip(position + at)
            read, loaded = self.load()
            self.assertEqual((read[0], read[-1]), ((b"k", b"1"), (b"k", b"3")))
            self.assertGreater(loaded.skipped, 0)
            self.flip(position + at)

    def test_load_waits_for_a_rebuilt_index(self) -> None:
        """While an index is rebuilt, reads are refused: the load waits, and skips nothing."""
        for value in (b"1", b"2"):
            self.write((b"k", value))
        refusals = [ApiError(ErrorCode.KAFKA_STORAGE_ERROR)] * 2
        read_log = Log.read

        def read(log: Log, *args: Any) -> Any:
            if refusals:
                raise refusals.pop()
            return read_log(log, *args)

        self.patch(Log, "read", read)
        found: list[Any] = []
        loading = Deferred.fromCoroutine(self.state.load(lambda *one: found.append(one), 1 << 20, lambda: True))
        self.assertNoResult(loading)
        self.clock.pump([0, RETRY_SECONDS, RETRY_SECONDS])
        self.assertEqual(self.successResultOf(loading), LoadSummary(2, 0, complete=True))
        self.assertEqual(found, [(b"k", b"1"), (b"k", b"2")])

    def in_transaction(self, *records: tuple[bytes, bytes | None], epoch: int = 0) -> None:
        self.successResultOf(self.state.append(records, TOO_LARGE, ProducerIdAndEpoch(7, epoch)))

    def mark(self, type: ControlType, epoch: int = 0) -> None:
        self.replica.append_marker(7, epoch, Marker(type, 0), NOW_MS, 0)

    def test_transactional_records(self) -> None:
        """Transactional records and markers are passed on in log order."""
        self.in_transaction((b"a", b"1"), (b"b", b"2"))
        self.write((b"k", b"3"))
        self.mark(ControlType.COMMIT)
        self.in_transaction((b"a", b"5"))
        self.mark(ControlType.ABORT)
        self.in_transaction((b"c", b"7"))
        told: list[Any] = []
        taker = SimpleNamespace(
            record=lambda *one: told.append(("record", *one)), ended=lambda *one: told.append(("ended", *one))
        )
        loading = Deferred.fromCoroutine(self.state.load(lambda *one: told.append(one), 1 << 20, lambda: True, taker))
        self.clock.advance(0)
        self.assertEqual(self.successResultOf(loading), LoadSummary(5, 0, complete=True))
        self.assertEqual(
            told,
            [
                ("record", 7, 0, b"a", b"1"),
                ("record", 7, 1, b"b", b"2"),
                (b"k", b"3"),
                ("ended", 7, 3, True),
                ("record", 7, 4, b"a", b"5"),
                ("ended", 7, 5, False),
                ("record", 7, 6, b"c", b"7"),
            ],
        )
        everything = [(b"a", b"1"), (b"b", b"2"), (b"k", b"3"), (b"a", b"5"), (b"c", b"7")]
        self.assertEqual(self.load(), (everything, LoadSummary(5, 0, complete=True)))

    def test_a_fenced_producer(self) -> None:
        """A fenced producer gets that error."""
        self.in_transaction((b"a", b"1"), epoch=2)
        error = self.assertRaises(ApiError, self.state.append, [(b"k", b"v")], TOO_LARGE, ProducerIdAndEpoch(7, 1))
        self.assertEqual(error.code, ErrorCode.INVALID_PRODUCER_EPOCH)

    def test_no_space(self) -> None:
        """A full disk refuses the change, and nothing of it is in the log."""
        self.write((b"k", b"1"))
        self.disk.faults = lambda op, path: no_space() if op == "write" else None
        error = self.assertRaises(ApiError, self.state.append, [(b"k", b"2")], TOO_LARGE)
        self.assertEqual(error.code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.assertEqual(self.load()[0], [(b"k", b"1")])

    def test_too_large(self) -> None:
        """One batch takes no more than the topic allows; what need not stand together takes several."""
        self.use(a_log(config=TopicConfig(flush_before_ack=False, max_message_bytes=1000)))
        records = [(b"k%d" % i, b"v" * 100) for i in range(20)]
        error = self.assertRaises(ApiError, self.state.append, records, TOO_LARGE)
        self.assertEqual(error.code, TOO_LARGE)
        pieces = list(self.state.append_all(records))
        self.assertGreater(len(pieces), 2)
        self.assertEqual([one for piece, _ in pieces for one in piece], records)
        self.assertEqual(self.load()[0], records)

    def test_too_large_to_be_read_back(self) -> None:
        """What is small on the disk may be too large for a load, which would skip it: the state would be lost."""
        self.codec = Codec.GZIP
        self.write((b"k", b"before"))
        huge = [(b"k", bytes(MAX_DECOMPRESSED))]
        for attempt in (lambda: self.state.append(huge, TOO_LARGE), lambda: next(self.state.append_all(huge))):
            error = self.assertRaises(ApiError, attempt)
            self.assertIn(error.code, (TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR))
        self.assertEqual(self.load()[0], [(b"k", b"before")])

    def test_no_longer_the_leader(self) -> None:
        """Another broker coordinates now."""
        self.replica.take_role(LeaderAndIsr(1, 1, (1,)))
        error = self.assertRaises(ApiError, self.state.append, [(b"k", b"v")], TOO_LARGE)
        self.assertEqual(error.code, ErrorCode.NOT_COORDINATOR)

    def test_durability_takes_too_long(self) -> None:
        """Records that are not durable in time get an error."""
        self.replica.log.config = evolve(self.replica.log.config, flush_before_ack=True)
        self.patch(Log, "flush", lambda log: Deferred())
        waiting = self.state.append([(b"k", b"v")], TOO_LARGE)
        self.assertNoResult(waiting)
        self.clock.advance(5)
        error = self.failureResultOf(waiting, ApiError).value
        self.assertEqual(error.code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
