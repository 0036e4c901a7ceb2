"""Consumers of assigned partitions, and their fetcher."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.consumer.fetch_options import FetchOptions
from logbus.client.consumer.fetcher import Fetcher
from logbus.client.consumer.partition_position import AtTime
from logbus.client.list_offsets import EARLIEST, LATEST
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.records.batch import ControlType, Marker, encode_marker_batch
from tests.client.memory_cluster import MemoryCluster

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class ConsumerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.brokers = MemoryCluster()
        self.ahead: list[ConsumerRecord] = []
        self.cluster = Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint)

    def consumer(self, position: Any, **options: Any) -> Fetcher:
        consumer = Fetcher(self.cluster, FetchOptions(**options))
        self.ahead = []
        consumer.assign({P0: position})
        return consumer

    def take(self, consumer: Fetcher, count: int) -> list[ConsumerRecord]:
        """The next records, letting time pass for them."""

        async def read() -> list[ConsumerRecord]:
            found: list[ConsumerRecord] = []
            while len(found) < count:
                if not self.ahead:
                    self.ahead.extend((await consumer.poll()).records)
                found.extend(self.ahead[:1])
                del self.ahead[:1]
            return found

        reading = Deferred.fromCoroutine(read())
        for _ in range(100):
            if reading.called:
                break
            self.brokers.settle(0.1)
        return self.successResultOf(reading)

    def test_reading_from_the_beginning(self) -> None:
        """
        Records come in order with where they were read, and the position follows what was taken out.
        """
        log = self.brokers.add("t")[0]
        log.put(b"a", b"b")
        log.put(b"c")
        consumer = self.consumer(EARLIEST)
        self.assertIsNone(consumer.assigned.position(P0))
        self.assertEqual(self.take(consumer, 2)[1], ConsumerRecord("t", 0, 1, 1001, None, b"b", ()))
        self.assertEqual(consumer.assigned.position(P0), 2)
        self.assertEqual([each.value for each in self.take(consumer, 1)], [b"c"])
        self.assertEqual(consumer.assigned.position(P0), 3)

    def test_time_goes_on_while_it_plans(self) -> None:
        """
        A partition whose pause ends while the next fetches are planned is looked at again: a reactor takes no negative
        delay.
        """
        self.brokers.add("t")[0].put(b"a")
        consumer, clock = self.consumer(EARLIEST), self.brokers.clock
        [position] = consumer.assigned
        position.retry_at = clock.seconds() + 0.0015
        delays: list[float] = []
        original = clock.callLater

        def seconds() -> float:
            clock.rightNow += 0.001
            return clock.rightNow

        def call_later(delay: float, *args: Any, **kwargs: Any) -> Any:
            delays.append(delay)
            return original(delay, *args, **kwargs)

        self.patch(clock, "callLater", call_later)
        self.patch(clock, "seconds", seconds)
        consumer._schedule()
        self.assertEqual(len(delays), 1)
        self.assertGreater(delays[0], 0)

    def test_an_offset_inside_a_batch(self) -> None:
        """
        The records of the batch before it are left out.
        """
        self.brokers.add("t")[0].put(b"a", b"b", b"c")
        self.assertEqual([each.value for each in self.take(self.consumer(1), 2)], [b"b", b"c"])

    def test_times(self) -> None:
        """
        A time stands for the first record at or after it; a time behind all of them for the end.
        """
        log = self.brokers.add("t")[0]
        log.put(b"a", b"b", b"c")
        self.assertEqual(self.take(self.consumer(AtTime(1002)), 1)[0].value, b"c")
        late = self.consumer(AtTime(999_999))
        waiting = late.poll()
        self.brokers.settle(1)
        self.assertNoResult(waiting)
        log.put(b"d")
        self.brokers.settle(1)
        self.assertEqual([each.value for each in self.successResultOf(waiting).records], [b"d"])

    def test_new_records_reach_a_long_poll(self) -> None:
        """
        From the latest offset on, only what comes later is read.
        """
        log = self.brokers.add("t")[0]
        log.put(b"old")
        consumer = self.consumer(LATEST)
        waiting = consumer.poll()
        self.brokers.settle(0.1)
        self.assertNoResult(waiting)
        log.put(b"new")
        self.brokers.settle(1)
        self.assertEqual([each.value for each in self.successResultOf(waiting).records], [b"new"])

    def test_seek_drops_prefetched_records(self) -> None:
        """
        After a seek the next record is the one sought, whatever was on its way.
        """
        log = self.brokers.add("t")[0]
        for value in (b"a", b"b", b"c"):
            log.put(value)
        consumer = self.consumer(EARLIEST)
        self.take(consumer, 1)
        self.brokers.settle(0.1)
        consumer.seek(P0, 2)
        self.assertEqual(self.take(consumer, 1)[0].value, b"c")
        consumer.seek(P0, EARLIEST)
        self.assertEqual(self.take(consumer, 1)[0].value, b"a")

    def test_offset_out_of_range(self) -> None:
        """With ``none`` it is an error; otherwise the earliest or latest offset is used."""
        log = self.brokers.add("t")[0]
        for value in (b"a", b"b"):
            log.put(value)
        log.start, log.batches = 1, log.batches[1:]
        waiting = self.consumer(0, reset="none").poll()
        self.brokers.settle(1)
        error = self.failureResultOf(waiting, ApiError).value
        self.assertIs(error.code, ErrorCode.OFFSET_OUT_OF_RANGE)
        self.assertIn("t-0 has no offset 0", str(error))
        self.assertEqual(self.take(self.consumer(0, reset="earliest"), 1)[0].value, b"b")
        latest = self.consumer(99, reset="latest")
        waiting = latest.poll()
        for _ in range(10):
            self.brokers.settle(0.1)
        log.put(b"c")
        self.brokers.settle(1)
        self.assertEqual(self.successResultOf(waiting).records[0].value, b"c")

    def test_leader_change(self) -> None:
        """Reading continues at the new leader, whether the old one reports the change or disappears."""
        self.brokers.nodes = {1, 2}
        log = self.brokers.add("t")[0]
        log.put(b"a")
        consumer = self.consumer(EARLIEST)
        self.take(consumer, 1)
        log.leader = 2
        log.put(b"b")
        self.assertEqual(self.take(consumer, 1)[0].value, b"b")
        log.leader = 1
        self.brokers.drop(2)
        log.put(b"c")
        self.assertEqual(self.take(consumer, 1)[0].value, b"c")

    def test_markers_move_the_position_without_records(self) -> None:
        """
        A batch of control records is not shown; the position passes it.
        """
        log = self.brokers.add("t")[0]
        log.append(encode_marker_batch(Marker(ControlType.COMMIT, 0), producer_id=1, producer_epoch=0, timestamp=1))
        consumer = self.consumer(EARLIEST)
        waiting = consumer.poll()
        self.brokers.settle(0.1)
        fetched = self.successResultOf(waiting)
        self.assertEqual((fetched.records, fetched.next_offset), ([], 1))
        log.put(b"x")
        self.assertEqual(self.take(consumer, 1)[0].offset, 1)

    def test_isolation_levels(self) -> None:
        """
        With ``read_committed``, neither aborted records nor those behind the last stable offset are read; by default
        all are.
        """
        log = self.brokers.add("t")[0]

        def ended(producer_id: int, type: ControlType) -> None:
            log.append(encode_marker_batch(Marker(type, 0), producer_id=producer_id, producer_epoch=0, timestamp=1))

        transaction = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
        log.put(b"kept", producer_id=1, **transaction)
        log.put(b"gone", producer_id=2, **transaction)
        ended(2, ControlType.ABORT)
        ended(1, ControlType.COMMIT)
        log.aborted.append((2, 1))
        log.open_since = log.put(b"open", producer_id=3, **transaction)
        self.assertEqual([each.value for each in self.take(self.consumer(EARLIEST), 3)], [b"kept", b"gone", b"open"])

        committed = self.consumer(EARLIEST, isolation="read_committed")
        self.assertEqual(self.take(committed, 1)[0].value, b"kept")
        at_end = self.consumer(LATEST, isolation="read_committed")
        waiting = [self.take_later(committed), self.take_later(at_end)]
        self.brokers.settle(1)
        self.assertEqual([each.called for each in waiting], [False, False])
        ended(3, ControlType.COMMIT)
        log.open_since = None
        self.brokers.settle(1)
        self.assertEqual([self.successResultOf(each).value for each in waiting], [b"open", b"open"])

    def take_later(self, consumer: Fetcher) -> Deferred[ConsumerRecord]:
        async def read() -> ConsumerRecord:
            while not (records := (await consumer.poll()).records):
                pass
            return records[0]

        return Deferred.fromCoroutine(read())

    def test_damaged_batch(self) -> None:
        """
        A batch with a wrong CRC is an error that names partition and offset.
        """
        log = self.brokers.add("t")[0]
        log.put(b"a")
        log.batches[0] = log.batches[0][:-1] + b"?"
        waiting = self.consumer(EARLIEST).poll()
        self.brokers.settle(1)
        self.assertIn(
            "t-0: the batch at offset 0 cannot be read: the CRC does not match",
            str(self.failureResultOf(waiting, ApiError).value),
        )

    def test_several_partitions_of_several_leaders(self) -> None:
        """
        Each leader is asked for its own, and all of them come.
        """
        self.brokers.nodes = {1, 2}
        logs = self.brokers.add("t", 1, 2)
        logs[0].put(b"a")
        logs[1].put(b"b")
        consumer = Fetcher(self.cluster)
        consumer.assign({P0: EARLIEST, P1: EARLIEST})
        self.assertEqual({each.value for each in self.take(consumer, 2)}, {b"a", b"b"})

    def test_an_idle_partition_beside_a_busy_one(self) -> None:
        """
        While enough of one partition is buffered, another one is waited for briefly: what an application takes quickly
        is soon fetched again.
        """
        logs = self.brokers.add("t", 1, 1)
        for _ in range(20):
            logs[0].put(b"a")
        consumer = Fetcher(self.cluster, FetchOptions(partition_max_bytes=1, max_wait=10.0))
        consumer.assign({P0: EARLIEST, P1: EARLIEST})
        taken = 0
        for _ in range(100):
            self.brokers.settle(0.05)
            while consumer.take() is not None:
                taken += 1
        self.assertEqual(taken, 20)

    def test_an_application_that_takes_its_time(self) -> None:
        """
        It is not asked for the idle partition again and again.
        """
        logs = self.brokers.add("t", 1, 1)
        for _ in range(3):
            logs[0].put(b"a")
        consumer = Fetcher(self.cluster, FetchOptions(partition_max_bytes=1, max_wait=1.0))
        consumer.assign({P0: EARLIEST, P1: EARLIEST})
        self.take(consumer, 1)
        for _ in range(600):
            self.brokers.settle(0.1)
        fetches = self.brokers.requests("Fetch")
        self.assertLess(len(fetches), 80)
        self.assertEqual(fetches[-1].max_wait_ms, 1000)
        self.take(consumer, 1)
        self.brokers.settle(2)
        logs[1].put(b"b")
        self.assertEqual({each.value for each in self.take(consumer, 2)}, {b"a", b"b"})

    def test_brokers_of_all_ages(self) -> None:
        """
        Topics are named by id to brokers that want that, and by name to those that have no ids.
        """
        for fetch, metadata in ((18, 13), (18, 9), (12, 4), (8, 4), (4, 4)):
            brokers = MemoryCluster()
            brokers.served.update({1: (4, fetch), 3: (0, metadata)})
            cluster = Cluster(brokers.clock, "b1:9092", endpoint=brokers.endpoint)
            brokers.add("t")[0].put(b"x")
            consumer = Fetcher(cluster)
            consumer.assign({P0: EARLIEST})
            waiting = consumer.poll()
            brokers.settle()
            self.assertEqual(self.successResultOf(waiting).records[0].value, b"x")

    def test_missing_topics_and_partitions(self) -> None:
        """
        An unknown topic, and a partition the topic does not have, are errors at the next poll.
        """
        waiting = self.consumer(EARLIEST).poll()
        for _ in range(10):
            self.brokers.settle(0.1)
        self.assertEqual(str(self.failureResultOf(waiting, ApiError).value), "there is no topic 't'")
        self.brokers.add("t")
        consumer = Fetcher(self.cluster)
        consumer.assign({P1: EARLIEST})
        waiting = consumer.poll()
        for _ in range(10):
            self.brokers.settle(0.1)
        self.assertIn("has no partition 1", str(self.failureResultOf(waiting, ApiError).value))

    def test_waiting_can_be_cancelled(self) -> None:
        """
        A poll that is cancelled takes no records with it.
        """
        log = self.brokers.add("t")[0]
        consumer = self.consumer(EARLIEST)
        waiting = consumer.poll()
        self.brokers.settle(0.1)
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        log.put(b"a")
        self.assertEqual(self.take(consumer, 1)[0].value, b"a")

    def test_closing(self) -> None:
        """Waiting callers get an error; no request and no timer is left."""
        self.brokers.add("t")
        consumer = self.consumer(EARLIEST)
        waiting = consumer.poll()
        self.brokers.settle(0.1)
        consumer.close()
        self.failureResultOf(waiting, LogbusError)
        self.successResultOf(self.settled(self.cluster.close()))
        self.brokers.settle(60)
        self.assertEqual(self.brokers.clock.getDelayedCalls(), [])
        self.failureResultOf(consumer.poll(), LogbusError)

    def test_unreferenced_client_is_collected(self) -> None:
        """
        A client that is not referenced any more, while it connects or later, is collected, and nothing of it runs
        again.
        """
        self.brokers.add("t")
        for turns in (0, 1, 4):
            consumer = self.consumer(EARLIEST)
            consumer.poll()
            for _ in range(turns):
                self.brokers.clock.advance(0)
            kept = weakref.ref(consumer)
            self.brokers, self.cluster = MemoryCluster(topics=self.brokers.topics), None  # type: ignore[assignment]
            del consumer
            gc.collect()
            self.assertIsNone(kept())
            self.cluster = Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint)

    def settled(self, waiting: Deferred[None]) -> Deferred[None]:
        self.brokers.settle()
        return waiting
