"""Moves of partitions with remote storage between the log directories of a broker (KAFKA-16399)."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.istorage import IOPool
from logbus.storage.retention import TimeAndSize
from logbus.storage.truncation import delete_expired
from logbus.testing.simulation.environment.memory_disk import Crashed, MemoryDisk
from tests.cluster.remote_log.fakes import MemoryStorage, MemoryTopic, TieredBroker
from tests.storage.builders import NOW_MS, PARTITION, batch
from tests.storage.test_log_crashes import result

SIZE = len(batch(b"00000000", producer_id=7, producer_epoch=0, base_sequence=0))
CONFIG = TopicConfig(remote_storage_enable=True, segment_bytes=2 * SIZE, local_retention_bytes=0, retention_ms=-1)


class TieredMoveTests(SynchronousTestCase):
    """A leader with two log directories and a store."""

    def begin(self, *disks: MemoryDisk, storage: MemoryStorage | None = None, topic: MemoryTopic | None = None) -> Any:
        """A broker that has started, and does its periodic work."""
        first, second = disks or (MemoryDisk("/a"), MemoryDisk("/b"))
        broker = TieredBroker(
            first, storage or MemoryStorage(), topic or MemoryTopic(), CONFIG, more_disks=(second,)
        )  # fmt: skip
        broker.open(self.successResultOf)
        broker.logs.start_housekeeping()
        return broker

    def append(self, broker: TieredBroker, count: int, epoch: int = 0) -> None:
        """Append batches of one record, whose value is its offset."""
        for _ in range(count):
            end = broker.log.log_end_offset
            append_as_leader(
                broker.log,
                batch(b"%08d" % end, timestamp=NOW_MS, producer_id=7, producer_epoch=0, base_sequence=end),
                epoch,
            )
        broker.log.high_watermark = broker.log.log_end_offset

    def tier(self, broker: TieredBroker) -> None:
        """Copy closed segments to the store, and delete them locally."""
        result(broker.work())
        result(broker.logs.directories[0].checkpoint_start_offsets())
        delete_expired(broker.log, TimeAndSize(), broker.now_ms)

    def move(self, broker: TieredBroker, to: int = 1) -> None:
        """Move the partition, and let time pass until nothing moves any more."""
        broker.logs.mover.move(PARTITION, broker.logs.directories[to])
        self.moved(broker)

    def moved(self, broker: TieredBroker) -> None:
        """Let time pass until nothing moves any more; the replica has its log then."""
        for _ in range(1000):
            if not broker.logs.mover.moves:
                break
            broker.clock.advance(0.1)
        log = broker.logs.get(PARTITION)
        assert log is not None
        broker.lead(log)

    def test_moved(self) -> None:
        """Only the local segments are copied; the log begins where it did, and readers find all of it."""
        broker = self.begin()
        self.append(broker, 3)
        self.append(broker, 4, 1)
        self.tier(broker)
        before = broker.log
        self.assertEqual((before.log_start_offset, before.local_start_offset), (0, 6))
        epochs = list(before.epochs)
        self.move(broker)
        log = broker.log
        self.assertEqual((log.disk.root, log.directory), ("/b", "orders-0"))
        self.assertEqual((log.log_start_offset, log.local_start_offset, log.log_end_offset), (0, 6, 7))
        self.assertEqual((list(log.epochs), epochs), (epochs, [(0, 0), (1, 3)]))
        self.assertEqual(broker.offsets(), list(range(7)))
        # It goes on as before: the store gets what is closed now, and a retry of a batch is no new one.
        self.append(broker, 4, 2)
        self.tier(broker)
        self.assertEqual((log.log_start_offset, log.local_start_offset), (0, 10))
        self.assertEqual(broker.offsets(), list(range(11)))
        broker.clock.advance(61)
        self.assertEqual([name for name in broker.disk.names("") if name.startswith("orders")], [])

    def test_producers_before_the_first_local_record(self) -> None:
        """The sequence number of a producer all of whose batches are in the store is still known."""
        broker = self.begin()
        self.append(broker, 6)
        append_as_leader(broker.log, batch(b"%08d" % 6, producer_id=8, producer_epoch=0, base_sequence=0), 0)
        self.successResultOf(broker.log.flusher.write_back_and_wait())
        self.tier(broker)
        self.assertEqual(broker.log.local_start_offset, 6)
        self.move(broker)
        entry = broker.log.producers.get(7)
        assert entry is not None
        self.assertEqual(entry.batches[-1].last_sequence, 5)
        again = self.again(broker)
        entry = again.log.producers.get(7)
        assert entry is not None
        self.assertEqual(entry.batches[-1].last_sequence, 5)
        self.assertEqual(again.offsets(), list(range(7)))

    def again(self, broker: TieredBroker) -> TieredBroker:
        """The same broker after it was killed."""
        broker.storage.before = lambda what: None
        disks = [disk.after_kill() for disk in (broker.disk, *broker.more_disks)]
        after: TieredBroker = self.begin(*disks, storage=broker.storage, topic=broker.topic.restarted())
        self.moved(after)
        return after

    def test_local_retention_during_a_move(self) -> None:
        """Segments that leave the disk during the copy are not copied."""
        broker = self.begin()
        self.append(broker, 7)
        self.successResultOf(broker.work())
        self.successResultOf(broker.logs.directories[0].checkpoint_start_offsets())
        broker.disk.held.add(IOPool.READ)
        broker.logs.mover.move(PARTITION, broker.logs.directories[1])
        delete_expired(broker.log, TimeAndSize(), broker.now_ms)
        self.assertEqual(broker.log.local_start_offset, 6)
        broker.disk.held.clear()
        broker.disk.release(IOPool.READ)
        self.moved(broker)
        self.assertEqual((broker.log.disk.root, broker.log.log_start_offset), ("/b", 0))
        self.assertEqual(broker.offsets(), list(range(7)))

    def test_records_deleted_while_the_log_is_replaced(self) -> None:
        """A deletion that would be undone is refused, to be asked for again."""
        broker = self.begin()
        self.append(broker, 7)
        self.tier(broker)
        broker.more_disks[0].held.add(IOPool.BACKGROUND)
        old = broker.log
        broker.logs.mover.move(PARTITION, broker.logs.directories[1])
        for _ in range(100):
            if old.is_closed:
                break
            broker.more_disks[0].release(IOPool.BACKGROUND, 1)
            broker.clock.advance(0.1)
        self.assertTrue(old.is_closed)
        error = self.failureResultOf(broker.logs.delete_records(PARTITION, 2), ApiError).value
        self.assertEqual(error.code, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        broker.more_disks[0].held.clear()
        broker.more_disks[0].release(IOPool.BACKGROUND)
        self.moved(broker)
        self.assertEqual(self.successResultOf(broker.logs.delete_records(PARTITION, 2)), 2)
        self.assertEqual(broker.offsets(), list(range(2, 7)))

    def test_a_kill_at_every_step(self) -> None:
        """Wherever the process ends, there is one log, which begins where it did, and no record is lost."""
        for which in (0, 1):
            for step in range(1000):
                broker = self.begin()
                ours, other = (broker.disk, broker.more_disks[0])[:: 1 - 2 * which]
                self.append(broker, 3)
                self.append(broker, 4, 1)
                self.tier(broker)
                self.successResultOf(broker.log.flush())
                ours.on_crash = lambda other=other: setattr(other, "crashed", True)
                ours.crash_at = ours.steps + step
                try:
                    self.move(broker)
                    if ours.crashed:
                        raise Crashed("while moving")
                    self.append(broker, 2, 2)
                    self.tier(broker)
                    broker.clock.advance(61)
                except Crashed:
                    pass
                self.flushLoggedErrors(Crashed)
                after = self.again(broker)
                self.assertEqual(after.log.log_start_offset, 0, f"step {step}")
                found = after.offsets()
                self.assertEqual(found[:7], list(range(7)), f"step {step}")
                self.assertEqual(list(after.log.epochs)[:2], [(0, 0), (1, 3)], f"step {step}")
                self.append(after, 3, 3)
                self.tier(after)
                self.assertEqual(after.offsets()[:7], list(range(7)), f"step {step}")
                after.clock.advance(61)
                logs = [
                    name
                    for disk in (after.disk, *after.more_disks)
                    for name in disk.names("")
                    if name.startswith("orders")
                ]
                self.assertEqual(logs, ["orders-0"], f"step {step}")
                if not ours.crashed:
                    self.assertGreater(step, 5)
                    break

    def test_another_partition(self) -> None:
        """A partition that is not here is refused, as without remote storage."""
        broker = self.begin()
        mover = broker.logs.mover
        error = self.assertRaises(ApiError, mover.move, TopicPartition("none", 0), broker.logs.directories[1])
        self.assertEqual(error.code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
