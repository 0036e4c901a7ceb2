"""The work on one partition with remote storage, and its end at every step."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode
from logbus.records.batch import ControlType, Marker, iter_records
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.appends.append_marker import append_marker
from logbus.storage.filesystem.bounded_work import MOST_WRITE_BACKS
from logbus.storage.istorage import NotCached
from logbus.storage.offset_lookup import max_timestamp_offset, offset_for_timestamp
from logbus.storage.producers.producer_snapshot import decode_snapshot, snapshot_path
from logbus.storage.remote import object_names
from logbus.storage.remote.iremote_storage import RemoteStorageError
from logbus.storage.remote.load_queue import LoadQueue
from logbus.storage.remote.remote_log import RemoteLog
from logbus.storage.remote.remote_log_index import RemoteLogIndex
from logbus.storage.remote.remote_log_segment import COPY_FINISHED, COPY_STARTED
from logbus.storage.retention import TimeAndSize
from logbus.storage.truncation import delete_expired
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.cluster.remote_log.fakes import TOPIC_ID, Killed, MemoryStorage, MemoryTopic, TieredBroker
from tests.storage.builders import NOW_MS, batch, finish

SIZE = len(batch(b"00000000"))
CONFIG = TopicConfig(remote_storage_enable=True, segment_bytes=2 * SIZE, local_retention_bytes=0, retention_ms=-1)


class RemoteLogTaskTests(SynchronousTestCase):
    """A leader with a store."""

    def begin(self, config: TopicConfig = CONFIG, disk: Any = None, **kept: Any) -> TieredBroker:
        """A broker that has started."""
        broker = TieredBroker(
            disk or MemoryDisk(), kept.get("storage") or MemoryStorage(), kept.get("topic") or MemoryTopic(), config
        )
        broker.open(self.successResultOf)
        return broker

    def again(self, broker: TieredBroker) -> TieredBroker:
        """The same broker after it was killed: its disk, the store and the topic are what they were."""
        broker.storage.before = lambda what: None
        disk = broker.disk.after_kill()
        return self.begin(broker.config, disk, storage=broker.storage, topic=broker.topic.restarted())

    def append(self, broker: TieredBroker, count: int, timestamp: int = NOW_MS) -> None:
        """Append batches of one record, whose value is its offset."""
        for _ in range(count):
            value = b"%08d" % broker.log.log_end_offset
            append_as_leader(broker.log, batch(value, timestamp=timestamp), 0)

    def expire(self, broker: TieredBroker) -> None:
        """Local retention."""
        broker.log.high_watermark = broker.log.log_end_offset
        self.successResultOf(broker.logs.directories[0].checkpoint_start_offsets())
        delete_expired(broker.log, TimeAndSize(), broker.now_ms)

    def segments(self, broker: TieredBroker) -> list[tuple[int, int]]:
        """The offsets of the remote segments."""
        return [(each.start_offset, each.end_offset) for each in broker.topic.index(TOPIC_ID, 0).finished]

    def test_closed_segments_are_copied(self) -> None:
        """Closed segments are copied, and deleted locally only then; readers find everything as before."""
        broker = self.begin()
        self.append(broker, 7)
        self.expire(broker)
        self.assertEqual(len(broker.log.segments), 4)
        self.successResultOf(broker.work())
        self.assertEqual(self.segments(broker), [(0, 2), (2, 4), (4, 6)])
        self.expire(broker)
        self.assertEqual([segment.base_offset for segment in broker.log.segments], [6])
        self.assertEqual((broker.log.log_start_offset, broker.log.local_start_offset), (0, 6))
        self.assertEqual(broker.offsets(), list(range(7)))

    def test_a_restart(self) -> None:
        """After a kill the log begins where it began, though its first segments are gone."""
        broker = self.begin()
        self.append(broker, 7)
        self.successResultOf(broker.work())
        self.expire(broker)
        after = self.again(broker)
        self.assertEqual((after.log.log_start_offset, after.log.local_start_offset), (0, 6))
        self.assertEqual(after.offsets(), list(range(7)))
        self.append(after, 4)
        self.successResultOf(after.work())
        # The checkpoint has its start already.
        delete_expired(after.log, TimeAndSize(), after.now_ms)
        self.assertEqual(after.log.local_start_offset, 10)

    def test_a_kill_at_every_step(self) -> None:
        """Wherever the process ends, no record is lost, and no object is left that nobody deletes."""
        for step in range(200):
            broker, left = self.begin(), step
            self.append(broker, 5)

            def count(what: str) -> None:
                nonlocal left
                left -= 1
                if left < 0:
                    raise Killed(what)

            broker.storage.before = broker.topic.before = count
            try:
                self.failureOrResult(broker.work())
            except Killed:
                pass
            else:
                self.assertGreater(step, 20)
                return
            after = self.again(broker)
            self.expire(after)
            self.assertEqual(after.offsets(), list(range(5)))
            self.successResultOf(after.work())
            self.expire(after)
            self.assertEqual(after.offsets(), list(range(5)))
            self.assertEqual(self.segments(after), [(0, 2), (2, 4)])
            self.assert_no_orphans(after)
        self.fail("it has no end")

    def failureOrResult(self, done: Deferred[None]) -> None:
        """The result, or the error raised."""
        results: list[Any] = []
        done.addBoth(results.append)
        if results and results[0] is not None:
            results[0].raiseException()

    def assert_no_orphans(self, broker: TieredBroker) -> None:
        """Every object belongs to a complete segment."""
        known = {str(each.segment_id) for each in broker.topic.index(TOPIC_ID, 0).finished}
        for name in broker.storage.objects:
            self.assertIn(name.rpartition("/")[2].split("-", 1)[1].split(".")[0], known)

    def test_retention(self) -> None:
        """Old records go from the store, too: first the log start offset moves, then the objects are deleted."""
        broker = self.begin(evolve(CONFIG, retention_ms=10_000))
        self.append(broker, 4, NOW_MS - 5_000)
        self.append(broker, 3)
        self.successResultOf(broker.work())
        self.assertEqual(self.segments(broker), [(0, 2), (2, 4), (4, 6)])
        broker.now_ms = NOW_MS + 6_000
        broker.clock.advance(6)
        self.successResultOf(broker.work())
        self.assertEqual((broker.log.log_start_offset, self.segments(broker)), (4, [(4, 6)]))
        self.assert_no_orphans(broker)
        self.assertRaises(ApiError, broker.read, 3)

    def test_retention_by_size(self) -> None:
        """retention.bytes counts what is in the store and what is only local."""
        broker = self.begin(evolve(CONFIG, retention_bytes=3 * SIZE))
        self.append(broker, 7)
        self.successResultOf(broker.work())
        self.expire(broker)
        self.assertEqual((broker.log.log_start_offset, self.segments(broker)), (4, [(4, 6)]))

    def test_deleted_records(self) -> None:
        """DeleteRecords deletes the objects before the new start, and a reader begins within a segment."""
        broker = self.begin()
        self.append(broker, 7)
        self.successResultOf(broker.work())
        self.expire(broker)
        self.successResultOf(broker.logs.delete_records(broker.log.partition, 3))
        self.successResultOf(broker.work())
        self.assertEqual(self.segments(broker), [(2, 4), (4, 6)])
        self.assertEqual(broker.offsets(), [3, 4, 5, 6])
        self.assertEqual(self.again(broker).offsets(), [3, 4, 5, 6])

    def test_snapshots_of_producers(self) -> None:
        """Each copy has the producers behind it, whether their snapshot on the disk is intact, damaged or missing."""
        broker = self.begin()
        held = [Deferred[None]() for _ in range(MOST_WRITE_BACKS)]
        for number in range(9):
            if number == 5:
                # From now on write-backs wait for others, and there is no snapshot as of when a segment ends.
                for each in held:
                    broker.log.queues.write_backs.run(lambda each=each: each)  # type: ignore[misc]
            value = b"%08d" % number
            append_as_leader(broker.log, batch(value, producer_id=7, producer_epoch=0, base_sequence=number), 0)
        directory = broker.log.directory
        broker.disk.replace(snapshot_path(directory, 4), b"torn", False)
        self.assertFalse(broker.disk.exists(snapshot_path(directory, 6)))
        self.successResultOf(broker.work())
        self.assertEqual(self.segments(broker), [(0, 2), (2, 4), (4, 6), (6, 8)])
        for segment in broker.topic.index(TOPIC_ID, 0).finished:
            data = broker.storage.objects[object_names.name_of(segment, object_names.SNAPSHOT)]
            entry = decode_snapshot(data, segment.end_offset).get(7)
            assert entry is not None
            self.assertEqual(entry.batches[-1].last_sequence, segment.end_offset - 1)
        self.assertEqual(broker.log.producers.end_offset, 9)

    def test_the_store_is_away(self) -> None:
        """What is not copied stays on disk; the next run goes on."""
        broker = self.begin()
        self.append(broker, 5)

        def away(what: str) -> None:
            raise RemoteStorageError("no route to host")

        broker.storage.before = away
        for _ in range(100):
            self.failureResultOf(broker.work(), RemoteStorageError)
        # A copy that is begun has to be deleted.
        self.assertLess(len(broker.topic.index(TOPIC_ID, 0)), 5)
        self.expire(broker)
        self.assertEqual(broker.offsets(), list(range(5)))
        broker.storage.before = lambda what: None
        self.successResultOf(broker.work())
        self.assertEqual(self.segments(broker), [(0, 2), (2, 4)])

    def test_a_store_that_deletes_nothing(self) -> None:
        """Where a store refuses deletions, segments are copied all the same: the disk would become full."""
        broker = self.begin(evolve(CONFIG, retention_bytes=6 * SIZE))
        self.append(broker, 9)

        def refuse(what: str) -> None:
            if what == "delete":
                raise RemoteStorageError("the bucket has a retention policy")

        broker.storage.before = refuse
        self.failureResultOf(broker.work(), RemoteStorageError)
        self.append(broker, 4)
        self.failureResultOf(broker.work(), RemoteStorageError)
        self.assertEqual(self.segments(broker)[-1], (10, 12))
        broker = self.again(broker)
        broker.storage.before = refuse
        broker.storage.objects[self.a_stray(broker)] = b"left over"
        self.append(broker, 2)
        self.failureResultOf(broker.work(), RemoteStorageError)
        self.assertEqual(self.segments(broker)[-1], (12, 14))
        broker.storage.before = lambda what: None
        self.successResultOf(broker.work())
        self.assert_no_orphans(broker)

    def a_stray(self, broker: TieredBroker) -> str:
        """The name of an object without metadata."""
        where = next(iter(broker.storage.objects)).rpartition("/")[0]
        return where + "/00000000000000000000-00000000-0000-4000-8000-000000000001.log"

    def test_a_corrupt_object(self) -> None:
        """Damage in the store is named, and no damaged record is sent."""
        broker = self.begin()
        self.append(broker, 5)
        self.successResultOf(broker.work())
        self.expire(broker)
        name = next(name for name in sorted(broker.storage.objects) if name.endswith(".log"))
        data = broker.storage.objects[name]
        broker.storage.objects[name] = data[:70] + b"\xff" + data[71:]
        error = self.assertRaises(ApiError, broker.read, 0)
        self.assertIs(error.code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertIn(f"memory://store/{name} is damaged: the CRC of its bytes 0 to {2 * SIZE}", error.message)
        broker.storage.objects[name] = data
        self.assertEqual(broker.offsets(), list(range(5)))

    def test_a_damaged_local_segment(self) -> None:
        """It is not copied, nor deleted; it is checked, and goes to the store once it is repaired."""
        broker = self.begin()
        self.append(broker, 7)
        path = "orders-0/00000000000000000002.log"
        intact = broker.disk.read(path)
        file = broker.disk.open(path)
        file.write(2 * SIZE - 1, [b"?"])
        error = self.failureResultOf(broker.work(), ApiError).value
        self.assertEqual(
            error.message,
            f"{path} is damaged, and not copied to remote storage: at {SIZE}: the CRC of the batch at 3 does not match",
        )
        self.assertEqual(self.segments(broker), [(0, 2)])
        self.assertEqual([name for name in broker.storage.objects if "/" + "2".zfill(20) in name], [])
        self.expire(broker)
        self.assertEqual(broker.log.local_start_offset, 2)
        broker.clock.advance(1)
        (damage,) = broker.logs.damage.of(broker.log)
        self.assertEqual(damage.base_offset, 2)
        before = len(broker.topic.records)
        self.failureResultOf(broker.work(), ApiError)
        # What was begun is given up; nothing new is.
        self.assertLessEqual(len(broker.topic.records), before + 2)
        again = len(broker.topic.records)
        self.failureResultOf(broker.work(), ApiError)
        self.assertEqual(len(broker.topic.records), again)
        file.write(0, [intact])
        broker.logs.damage.resolve(broker.log, damage, 1)
        self.successResultOf(broker.work())
        self.assertEqual(self.segments(broker), [(0, 2), (2, 4), (4, 6)])
        self.assertEqual(broker.offsets(), list(range(7)))

    def test_a_copy_that_another_leader_gave_up(self) -> None:
        """A leader whose copy was deleted by the next one deletes its objects again."""
        broker = self.begin()
        self.append(broker, 3)

        def meanwhile(step: str) -> None:
            if step == "copy-finished":
                other = self.begin(CONFIG, MemoryDisk(), storage=broker.storage, topic=broker.topic)
                self.successResultOf(other.work())

        broker.task.tools = evolve(broker.tools, at=meanwhile)
        self.failureResultOf(broker.work(), ApiError)
        self.assertEqual(broker.storage.objects, {})

    def test_remote_storage_is_turned_off(self) -> None:
        """The log begins with what is local then, and what is in the store is deleted, if that was asked for."""
        broker = self.begin()
        self.append(broker, 7)
        self.successResultOf(broker.work())
        self.expire(broker)
        broker.log.configure(evolve(CONFIG, remote_storage_enable=False))
        self.assertEqual((broker.log.log_start_offset, broker.log.remote), (6, None))
        self.successResultOf(broker.work())
        self.assertEqual(len(self.segments(broker)), 3)
        broker.log.configure(evolve(CONFIG, remote_storage_enable=False, remote_log_delete_on_disable=True))
        self.successResultOf(broker.work())
        self.assertEqual((self.segments(broker), broker.storage.objects), ([], {}))

    def test_copying_is_turned_off(self) -> None:
        """Nothing more is copied; what is in the store is read."""
        broker = self.begin()
        self.append(broker, 5)
        self.successResultOf(broker.work())
        broker.config = evolve(CONFIG, remote_log_copy_disable=True)
        broker.log.configure(broker.config)
        self.append(broker, 4)
        self.successResultOf(broker.work())
        self.expire(broker)
        self.assertEqual(self.segments(broker), [(0, 2), (2, 4)])
        self.assertEqual(broker.offsets(), list(range(9)))

    def test_a_gap(self) -> None:
        """Where a segment is lost, those behind it are copied all the same, and once; then they leave the disk."""
        broker = self.begin()
        self.append(broker, 7)
        self.successResultOf(broker.work())
        self.expire(broker)
        index = broker.topic.index(TOPIC_ID, 0)
        index.forget(next(each.segment_id for each in index if each.start_offset == 2))
        self.append(broker, 4)
        copies = 0

        def count(what: str) -> None:
            nonlocal copies
            copies += what == "write log"
            if copies > 9:
                raise RemoteStorageError("it has no end")

        broker.storage.before = count
        self.successResultOf(broker.work())
        self.assertEqual(self.segments(broker), [(0, 2), (4, 6), (6, 8), (8, 10)])
        self.expire(broker)
        self.assertEqual((broker.log.log_start_offset, broker.log.local_start_offset), (0, 10))
        self.successResultOf(broker.work())
        self.assertEqual(copies, 2)
        self.assertRaises(ApiError, broker.read, 2)
        # Once what is before the gap is given up, the log begins behind it.
        self.successResultOf(broker.logs.delete_records(broker.log.partition, 2))
        self.successResultOf(broker.work())
        self.assertEqual(broker.offsets(), [4, 5, 6, 7, 8, 9, 10])

    def test_retention_while_copying_is_turned_off(self) -> None:
        """What is only local expires as in a topic without remote storage: nothing will copy it (KIP-950)."""
        broker = self.begin(evolve(CONFIG, retention_ms=10_000, local_retention_bytes=-2))
        self.append(broker, 5)
        self.successResultOf(broker.work())
        broker.config = evolve(broker.config, remote_log_copy_disable=True)
        broker.log.configure(broker.config)
        self.append(broker, 4)
        for _ in range(2):
            broker.now_ms += 6_000
            broker.clock.advance(6)
            self.append(broker, 1, broker.now_ms)
        self.expire(broker)
        self.successResultOf(broker.work())
        self.assertEqual((broker.log.log_start_offset, broker.log.local_start_offset), (8, 8))
        self.assertEqual((self.segments(broker), broker.storage.objects), ([], {}))
        self.assertEqual(broker.offsets(), [8, 9, 10])

    def test_a_leader_in_doubt(self) -> None:
        """A leader that is cut off changes nothing in the store: another one may lead."""
        broker = self.begin(evolve(CONFIG, retention_bytes=0))
        self.append(broker, 5)
        broker.replica.partition.in_doubt = True
        self.successResultOf(broker.work())
        self.assertEqual((self.segments(broker), broker.storage.objects), ([], {}))
        broker.replica.partition.in_doubt = False
        broker.config = CONFIG
        broker.log.configure(CONFIG)
        self.successResultOf(broker.work())
        self.assertEqual(self.segments(broker), [(0, 2), (2, 4)])

    def test_a_leader_that_was_replaced(self) -> None:
        """A leader that has not heard of its successor does not delete what that copied."""
        broker = self.begin()
        self.append(broker, 5)
        self.successResultOf(broker.work())
        first = next(iter(broker.topic.index(TOPIC_ID, 0).finished))
        for state in (COPY_STARTED, COPY_FINISHED):
            later = evolve(first, segment_id=UUID(int=99), start_offset=4, end_offset=9, epochs=((1, 4),), state=state)
            self.successResultOf(Deferred.fromCoroutine(broker.topic.publish(later, None)))
        self.successResultOf(broker.work())
        self.assertEqual(self.segments(broker), [(0, 2), (2, 4), (4, 9)])

    def test_a_truncation_below_the_local_start(self) -> None:
        """After an unclean election the log still begins where it did: what is before is in the store."""
        broker = self.begin()
        self.append(broker, 7)
        self.successResultOf(broker.work())
        self.expire(broker)
        self.successResultOf(broker.logs.truncator.restart(broker.log.partition, 3))
        log = broker.log
        self.assertEqual((log.log_start_offset, log.local_start_offset, log.log_end_offset), (0, 3, 3))
        self.append(broker, 2)
        self.assertEqual(broker.offsets(), list(range(5)))

    def test_other_records_after_a_truncation(self) -> None:
        """Records that replace copied ones after an unclean election are not taken for copied."""
        broker = self.begin()
        self.append(broker, 7)
        self.successResultOf(broker.work())
        self.successResultOf(broker.logs.truncator.truncate({broker.log.partition: 3}))
        self.assertEqual(broker.log.remote and broker.log.remote.copied_end, 3)
        self.successResultOf(broker.work())
        self.assertEqual(broker.log.remote and broker.log.remote.copied_end, 3)
        broker.replica.partition.leader_epoch = 1
        for _ in range(6):
            append_as_leader(broker.log, batch(b"%08d" % broker.log.log_end_offset), 1)
        self.expire(broker)
        self.assertLess(broker.log.local_start_offset, 4)
        self.successResultOf(broker.work())
        self.expire(broker)
        self.assertEqual(broker.offsets(), list(range(9)))
        self.assertEqual(broker.log.local_start_offset, 8)
        # The copies of the lineage that was given up are deleted.
        self.assertNotIn(
            (4, 6), [(s.start_offset, s.end_offset) for s in broker.topic.index(TOPIC_ID, 0) if s.epochs[0][0] == 0]
        )

    def test_stray_objects(self) -> None:
        """Objects without metadata are deleted by the next leader."""
        broker = self.begin()
        self.append(broker, 3)
        self.successResultOf(broker.work())
        before = dict(broker.storage.objects)
        broker.storage.objects[self.a_stray(broker)] = b"left over"
        self.successResultOf(self.again(broker).work())
        self.assertEqual(broker.storage.objects, before)

    @settings(max_examples=40, deadline=None)
    @given(
        st.lists(
            st.one_of(
                st.tuples(st.just("append"), st.integers(1, 9)),
                st.tuples(st.just("work"), st.integers(0, 40)),
                st.tuples(st.just("expire"), st.just(0)),
                st.tuples(st.just("restart"), st.just(0)),
                st.tuples(st.just("delete"), st.integers(0, 30)),
                st.tuples(st.just("read"), st.integers(0, 60)),
            ),
            max_size=25,
        )
    )
    def test_histories(self, history: list[tuple[str, int]]) -> None:
        """Whatever happens, and wherever a process ends, a log with a store has the records of one without."""
        broker, start, end = self.begin(), 0, 0
        for what, n in history:
            if what == "append":
                self.append(broker, n)
                end += n
            elif what == "work":
                left = n

                def count(_: str) -> None:
                    nonlocal left
                    left -= 1
                    if left < 0:
                        raise Killed

                broker.storage.before = broker.topic.before = count
                try:
                    self.failureOrResult(broker.work())
                except Killed:
                    broker = self.again(broker)
                else:
                    broker.storage.before = broker.topic.before = lambda what: None
            elif what == "expire":
                self.expire(broker)
            elif what == "restart":
                broker = self.again(broker)
            elif what == "delete" and start < n <= end:
                start = n
                self.successResultOf(broker.logs.delete_records(broker.log.partition, n))
            elif what == "read" and start <= n < end:
                data = broker.read(n, 1).data.read()
                self.assertIn(n, [record.offset for record in iter_records(data)])
        self.assertEqual(broker.offsets(), list(range(start, end)))
        self.successResultOf(broker.work())
        self.assert_no_orphans(broker)
        self.assertEqual(broker.offsets(), list(range(start, end)))


class RemoteReadTests(SynchronousTestCase):
    """What else than records is read from the store."""

    begin, expire = RemoteLogTaskTests.begin, RemoteLogTaskTests.expire

    def test_aborted_transactions(self) -> None:
        """Readers of committed records learn of aborted transactions whose markers are in the store, or local still."""
        broker = self.begin(evolve(CONFIG, segment_bytes=1000))
        log, ended = broker.log, []
        for producer_id in (1, 2, 3):
            first = log.log_end_offset
            for sequence in range(6):
                data = batch(
                    b"x" * 50, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True
                )
                append_as_leader(log, data, 0)
            marker = append_marker(log, producer_id, 0, Marker(ControlType.ABORT, 0), 0, NOW_MS, 1)
            ended.append((producer_id, first, marker.base_offset))
            log.high_watermark = log.log_end_offset
        end = log.log_end_offset
        wanted = {offset: log.aborted_transactions(offset, end) for offset in range(end)}
        self.assertEqual([tuple(each[:3]) for each in wanted[0]], ended)
        self.successResultOf(broker.work())
        self.expire(broker)
        self.assertGreater(log.local_start_offset, 10)
        for offset in range(end):
            self.assertEqual(list(self.aborted(broker, offset, end)), list(wanted[offset]))
            self.assertEqual(
                list(self.aborted(broker, offset, offset + 1)),
                [each for each in wanted[offset] if each.first_offset <= offset],
            )

    def aborted(self, broker: TieredBroker, first: int, end: int) -> Any:
        """The aborted transactions, once their indexes are loaded."""
        while True:
            try:
                return broker.log.aborted_transactions(first, end)
            except NotCached as missing:
                missing.load()

    def test_a_slow_store(self) -> None:
        """A fetch gets nothing after remote.fetch.max.wait.ms; what was begun is read on, and is there for the next."""
        broker = self.begin()
        for i in range(5):
            append_as_leader(broker.log, batch(b"%08d" % i), 0)
        self.successResultOf(broker.work())
        self.expire(broker)
        slow: list[tuple[Deferred[Any], Any]] = []

        def thread(fn: Any, *args: Any) -> Deferred[Any]:
            slow.append((Deferred(), lambda: fn(*args)))
            return slow[-1][0]

        def finish_one() -> None:
            done, work = slow.pop(0)
            done.callback(work())

        broker.reader._queue = LoadQueue(thread, 2)
        missing = self.assertRaises(NotCached, broker.log.read, 0, 100)
        first, second = missing.load(), missing.load()
        self.assertEqual(len(slow), 1)
        broker.clock.advance(0.9)
        self.assertNoResult(first)
        finish_one()
        self.successResultOf(first), self.successResultOf(second)
        missing = self.assertRaises(NotCached, broker.log.read, 0, 100)
        waiting = missing.load()
        broker.clock.advance(1)
        self.successResultOf(waiting)
        self.assertIsNone(broker.log.read(0, 100).data)
        finish_one()
        found = broker.log.read(0, 100).data
        assert found is not None
        self.assertEqual([record.value for record in iter_records(found.read())], [b"%08d" % 0])

    def test_reading_on(self) -> None:
        """Who reads on waits for the first windows only: those of the next segments are loaded meanwhile."""
        broker = self.begin()
        for i in range(20):
            append_as_leader(broker.log, batch(b"%08d" % i), 0)
        self.successResultOf(broker.work())
        self.expire(broker)
        waited: list[int] = []
        for offset in range(broker.log.local_start_offset):
            while True:
                try:
                    self.assertIsNotNone(broker.log.read(offset, 1).data)
                    break
                except NotCached as missing:
                    waited.append(offset)
                    missing.load()
        self.assertGreater(broker.log.local_start_offset, 10)
        self.assertLessEqual(set(waited), {0, 1})

    def test_offsets_by_timestamp(self) -> None:
        """A search by time begins in the store."""
        broker = self.begin()
        for i in range(7):
            append_as_leader(broker.log, batch(b"%08d" % i, timestamp=NOW_MS + 10 * i), 0)
        wanted = [finish(offset_for_timestamp(broker.log, NOW_MS + at)) for at in range(-5, 70)]
        self.successResultOf(broker.work())
        self.expire(broker)
        self.assertEqual(broker.log.local_start_offset, 6)
        found = [finish(offset_for_timestamp(broker.log, NOW_MS + at)) for at in range(-5, 70)]
        self.assertEqual(found, wanted)
        latest = finish(max_timestamp_offset(broker.log))
        self.assertEqual(latest and latest.offset, 6)

    def test_metadata_that_are_not_loaded_yet(self) -> None:
        """Nothing is taken for all that there is: neither the first record of a time, nor the aborted transactions."""
        broker = self.begin()
        for i in range(7):
            append_as_leader(broker.log, batch(b"%08d" % i, timestamp=NOW_MS + 10 * i), 0)
        self.successResultOf(broker.work())
        self.expire(broker)
        log = broker.log
        loaded, log.remote = log.remote, RemoteLog(log.partition, RemoteLogIndex(), broker.reader)
        for look_up in (
            lambda: finish(offset_for_timestamp(log, NOW_MS)),
            lambda: finish(max_timestamp_offset(log)),
            lambda: log.aborted_transactions(0, 7),
        ):
            error = self.assertRaises(ApiError, look_up)
            self.assertEqual(error.code, ErrorCode.KAFKA_STORAGE_ERROR)
        log.remote = loaded
        found = finish(offset_for_timestamp(log, NOW_MS))
        self.assertEqual(found and found.offset, 0)

    def test_local_retention_during_a_search(self) -> None:
        """Segments that leave the disk during a search by time are searched in the store."""
        broker = self.begin(evolve(CONFIG, local_retention_bytes=4 * SIZE))
        for i in range(9):
            append_as_leader(broker.log, batch(b"%08d" % i, timestamp=NOW_MS + 10 * i), 0)
        self.successResultOf(broker.work())
        self.expire(broker)
        self.assertEqual(broker.log.local_start_offset, 4)
        search = offset_for_timestamp(broker.log, NOW_MS + 50)
        next(search)
        broker.log.configure(CONFIG)
        self.expire(broker)
        self.assertEqual(broker.log.local_start_offset, 8)
        found = finish(search)
        self.assertEqual(found and found.offset, 5)

    def test_records_before_the_local_start_are_small_parts(self) -> None:
        """A fetch gets whole batches up to its limit, at least one, and reads on where it ended."""
        broker = self.begin(evolve(CONFIG, segment_bytes=1 << 20))
        for i in range(50):
            append_as_leader(broker.log, batch(b"%08d" % i, b"y" * 500), 0)
        broker.log.roll()
        self.successResultOf(broker.work())
        self.expire(broker)
        whole = broker.read(0, 1 << 20).data.read()
        size = len(batch(b"%08d" % 0, b"y" * 500))
        self.assertEqual(len(whole), 50 * size)
        for limit, batches in ((1, 1), (size, 1), (2 * size - 1, 1), (2 * size, 2), (49 * size, 49)):
            found = broker.read(3, limit)
            self.assertEqual((len(found.data), found.end_offset), (batches * size, 2 + 2 * batches))
            self.assertEqual(found.data.read(), whole[size : (batches + 1) * size])
        self.assertIsNone(broker.log.read(3, size - 1, min_one_batch=False).data)
