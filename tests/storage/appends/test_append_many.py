"""Several batches by one write."""

from __future__ import annotations

import errno
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.records.batch import ControlType, Marker, iter_batches
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.appends.append_many import MAX_BATCHES, append_many
from logbus.storage.appends.append_marker import append_marker
from logbus.storage.log import Log
from logbus.testing.simulation.environment.memory_disk import MemoryDisk, broken
from tests.storage.builders import NOW_MS, a_log, batch


def of_a_producer(sequence: int, epoch: int = 0, producer_id: int = 1, **given: Any) -> bytes:
    return batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **given)


class AppendManyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.disk = MemoryDisk()
        self.writes = 0
        self.fault: OSError | None = None
        self.disk.faults = self.step

    def step(self, op: str, path: str) -> OSError | None:
        self.writes += op == "write"
        return self.fault if op == "write" else None

    def a_log(self, **config: object) -> Log:
        """A log with one batch: the first of a segment is appended by itself."""
        log = a_log(self.disk, config=TopicConfig(**config))  # type: ignore[arg-type]
        append_as_leader(log, batch(b"first"), 3)
        self.writes = 0
        return log

    def append(self, log: Log, *batches: bytes) -> list[int] | None:
        appended = append_many(log, batches, 3, NOW_MS, True)
        return None if appended is None else appended.base_offsets

    def test_one_write(self) -> None:
        """
        All are written at once, each with its own offsets and the leader's epoch.
        """
        log = self.a_log()
        appended = append_many(log, [batch(b"a"), batch(b"b", b"c"), batch(b"d")], 3, NOW_MS, True)
        assert appended is not None
        self.assertEqual((appended.base_offsets, appended.end_offset, self.writes), ([1, 2, 4], 5, 1))
        self.assertEqual(appended.size, sum(map(len, (batch(b"a"), batch(b"b", b"c"), batch(b"d")))))
        data = log.read(0, 10_000).data
        assert data is not None
        headers = [header for _, header in iter_batches(data.read())]
        self.assertEqual([header.base_offset for header in headers], [0, 1, 2, 4])
        self.assertEqual({header.leader_epoch for header in headers}, {3})

    def test_none_or_all(self) -> None:
        """
        If one is not to be written, none is.
        """
        log = self.a_log()
        good = batch(b"a")
        for other in (b"nonsense", of_a_producer(0, transactional=True), batch(timestamp=-1)):
            self.assertIsNone(self.append(log, good, other))
        self.assertIsNone(self.append(log, *[good] * (MAX_BATCHES + 1)))
        self.assertEqual((log.log_end_offset, self.writes), (1, 0))
        self.assertEqual(self.append(log, *[good] * MAX_BATCHES), list(range(1, MAX_BATCHES + 1)))

    def test_a_sequence(self) -> None:
        """
        Batches that continue their producer's sequence are written at once; and what is remembered is as if they had
        come one by one.
        """
        for first in (0, 5, 2**31 - 4):
            sequence = [of_a_producer((first + n) % 2**31) for n in range(8)]
            together, alone = self.a_log(), a_log(MemoryDisk())
            append_as_leader(alone, batch(b"first"), 3)
            for data in (sequence[:2], sequence[2:]):
                self.writes = 0
                self.assertIsNotNone(self.append(together, *data))
                self.assertEqual(self.writes, 1)
            for one in sequence:
                append_as_leader(alone, one, 3, NOW_MS)
            self.assertEqual(list(together.producers), list(alone.producers))
            self.assertEqual(together.producers.end_offset, alone.producers.end_offset)
            self.assertIsNotNone(self.append(together, of_a_producer(0, 1), of_a_producer(1, 1)))
            (entry,) = together.producers
            self.assertEqual((entry.epoch, len(entry.batches)), (1, 2))

    def test_several_producers(self) -> None:
        """
        Batches of several producers, each in a row, are written at once; what is remembered is as if they had come one
        by one.
        """
        together, alone = self.a_log(), a_log(MemoryDisk())
        append_as_leader(alone, batch(b"first"), 3)
        for start in (0, 2):
            data = [of_a_producer(start + n, producer_id=id) for id in (2, 1) for n in range(2)]
            data[2:2] = [batch(b"plain")]
            self.writes = 0
            self.assertIsNotNone(self.append(together, *data, batch(b"plain")))
            self.assertEqual(self.writes, 1)
            for one in (*data, batch(b"plain")):
                append_as_leader(alone, one, 3, NOW_MS)
            self.assertEqual(list(together.producers), list(alone.producers))
            self.assertEqual(together.producers.end_offset, alone.producers.end_offset)

    def test_one_of_a_producer(self) -> None:
        """
        A single batch is remembered as by the general path; so is a producer with others' between its own.
        """
        together, alone = self.a_log(), a_log(MemoryDisk())
        append_as_leader(alone, batch(b"first"), 3)
        some = [of_a_producer(0), batch(b"plain"), of_a_producer(1)]
        self.assertEqual(self.append(together, *some), [1, 2, 3])
        self.assertEqual(self.append(together, of_a_producer(2)), [4])
        for one in (*some, of_a_producer(2)):
            append_as_leader(alone, one, 3, NOW_MS)
        self.assertEqual(list(together.producers), list(alone.producers))
        self.assertEqual(together.producers.end_offset, alone.producers.end_offset)
        self.assertIsNone(self.append(together, of_a_producer(2)))

    def test_far_offsets(self) -> None:
        """
        At the end of all offsets the general path says what is wrong.
        """
        log = a_log(self.disk, create=False)
        self.disk.make_directory("orders-0")
        log.create(2**63 - 3)
        append_as_leader(log, batch(b"first"), 3)
        self.assertIsNone(self.append(log, batch(b"a"), batch(b"b")))

    def test_no_sequence(self) -> None:
        """
        Whatever does not just continue it is looked at one by one: nothing is written.
        """
        log = self.a_log()
        append_as_leader(log, of_a_producer(0), 3, NOW_MS)
        end = log.log_end_offset
        for wrong in (
            (of_a_producer(0), of_a_producer(1)),
            (of_a_producer(1), of_a_producer(1)),
            (of_a_producer(2), of_a_producer(3)),
            (of_a_producer(1), of_a_producer(3)),
            (of_a_producer(1), of_a_producer(2, 1)),
            (of_a_producer(1), of_a_producer(0, producer_id=2), of_a_producer(2)),
            (of_a_producer(0, producer_id=2), of_a_producer(0)),
            (of_a_producer(1), of_a_producer(0, producer_id=2, transactional=True)),
            (of_a_producer(1), of_a_producer(2, transactional=True)),
            (of_a_producer(1, transactional=True), of_a_producer(2, transactional=True)),
        ):
            self.assertIsNone(self.append(log, *wrong))
        self.assertEqual((log.log_end_offset, len(log.producers)), (end, 1))
        self.assertIsNotNone(self.append(log, of_a_producer(1), of_a_producer(2)))

    def test_in_a_transaction(self) -> None:
        """
        While the producer has a transaction open, nothing of it is written outside.
        """
        log = self.a_log()
        append_as_leader(log, of_a_producer(0, transactional=True), 3, NOW_MS)
        self.assertIsNone(self.append(log, of_a_producer(1), of_a_producer(2)))

    def test_of_a_transaction(self) -> None:
        """
        Batches that go on with a transaction are written at once, if it is open and they are all of it; what is
        remembered is as if they had come one by one.
        """

        def its(sequence: int, epoch: int = 0, **given: Any) -> bytes:
            return of_a_producer(sequence, epoch, transactional=True, **given)

        log, alone = self.a_log(), a_log(MemoryDisk())
        append_as_leader(alone, batch(b"first"), 3)
        for each in (log, alone):
            append_as_leader(each, its(0), 3, NOW_MS)
        end, self.writes = log.log_end_offset, 0
        for wrong in (
            (its(1), of_a_producer(2)),
            (of_a_producer(1), of_a_producer(2)),
            (its(0), its(1)),
            (its(1), its(3)),
            (its(0, 1), its(1, 1)),
            (its(1), its(2, 1)),
            (its(0, producer_id=2),),
            (batch(b"plain"), batch(b"plain")),
        ):
            self.assertIsNone(append_many(log, wrong, 3, NOW_MS, True, in_transaction=True), wrong)
        self.assertEqual((log.log_end_offset, self.writes), (end, 0))
        sequence = [its(n) for n in range(1, 9)]
        self.assertIsNotNone(append_many(log, sequence, 3, NOW_MS, True, in_transaction=True))
        for one in sequence:
            append_as_leader(alone, one, 3, NOW_MS)
        self.assertEqual((self.writes, list(log.producers)), (1, list(alone.producers)))
        self.assertEqual(log.last_stable_offset(log.log_end_offset), 1)
        append_marker(log, 1, 0, Marker(ControlType.COMMIT, 0), 3, NOW_MS)
        self.assertIsNone(append_many(log, (its(9), its(10)), 3, NOW_MS, True, in_transaction=True))

    def test_full_disk(self) -> None:
        """Batches that do not fit on the disk are not in the log, and the log goes on."""
        log = self.a_log()
        self.fault = OSError(errno.ENOSPC, "full")
        self.assertIsNone(self.append(log, batch(b"a"), batch(b"b")))
        self.assertEqual(log.log_end_offset, 1)
        self.fault = None
        self.assertEqual(self.append(log, batch(b"a"), batch(b"b")), [1, 2])

    def test_failing_disk(self) -> None:
        """
        A disk that cannot write goes offline; appends of single batches report it.
        """
        log = self.a_log()
        self.fault = broken()
        self.assertIsNone(self.append(log, batch(b"a"), batch(b"b")))
        self.assertIsNotNone(self.disk.failure)
        self.assertEqual(log.log_end_offset, 1)

    def test_rolling(self) -> None:
        """
        Where a segment may end among them, they are not written together.
        """
        size = len(batch(b"a"))
        log = self.a_log(segment_bytes=len(batch(b"first")) + 3 * size)
        self.assertIsNone(self.append(log, *[batch(b"a")] * 4))
        self.assertEqual(self.append(log, *[batch(b"a")] * 3), [1, 2, 3])
        log = self.a_log_of_hours()
        self.assertIsNone(self.append(log, batch(b"a"), batch(b"b", timestamp=NOW_MS + 3_600_001), batch(b"c")))

    def a_log_of_hours(self) -> Log:
        self.disk = MemoryDisk()
        return self.a_log(segment_ms=3_600_000, message_timestamp_after_max_ms=2**63 - 1)
