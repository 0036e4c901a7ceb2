"""Consumers with and without groups."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.client import (
    EARLIEST,
    LATEST,
    ClientClosed,
    Cluster,
    Consumer,
    ConsumerRecord,
    Fetched,
    NotAssigned,
    RecordError,
)
from logbus.client.interceptors import ConsumerInterceptor
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition
from tests.client.memory_cluster import MemoryCluster

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
T = TypeVar("T")


class ConsumerCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.brokers = MemoryCluster()
        self.cluster = Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint)
        self.logs = self.brokers.add("t", 1, 1)
        for log in self.logs.values():
            log.put(b"a", b"b")
            log.put(b"c")

    def consumer(self, positions: Any = None, **options: Any) -> Consumer:
        consumer = Consumer(self.cluster, **options)
        self.addCleanup(consumer.close)
        consumer.assign({P0: EARLIEST} if positions is None else positions)
        return consumer

    def start(self, waiting: Awaitable[T]) -> Deferred[T]:
        async def wait() -> T:
            return await waiting

        return Deferred.fromCoroutine(wait())

    def now(self, waiting: Awaitable[T], seconds: float = 10.0) -> T:
        """The result of something, letting time pass for it."""
        started = self.start(waiting)
        for _ in range(int(seconds * 10)):
            if started.called:
                break
            self.brokers.settle(0.1)
        return self.successResultOf(started)

    def take(self, consumer: Consumer, count: int) -> list[Any]:
        """The values of the next records."""
        return [self.now(consumer.__anext__()).value for _ in range(count)]


class OrderOfCallsTests(ConsumerCase):
    """Methods that are called too early, too late, or for the wrong partition say so."""

    def test_nothing_to_read(self) -> None:
        """A poll would wait for ever."""
        idle = Consumer(self.cluster)
        self.addCleanup(idle.close)
        for waiting in (idle.poll(1.0), idle.poll(), self.start(idle.__anext__())):
            self.brokers.settle()
            self.assertIn("the consumer reads nothing", str(self.failureResultOf(waiting, LogbusError).value))

    def test_partition_that_is_not_assigned(self) -> None:
        """The error names it, and those that are; it is a KeyError, too."""
        consumer = self.consumer()
        calls = (consumer.position, consumer.pause, consumer.resume, lambda each: consumer.seek(each, 0))
        for call in calls:
            error = self.assertRaises(NotAssigned, call, P1)
            self.assertIsInstance(error, KeyError)
            self.assertEqual(str(error), "t-1 is not assigned to this consumer, which has t-0")
        error = self.failureResultOf(consumer.seek_to_committed(P1), NotAssigned).value
        consumer.assign({})
        self.assertIn("has no partitions", str(self.assertRaises(NotAssigned, consumer.seek, P0, 0)))

    def test_closed(self) -> None:
        """
        A poll that waits has no records; a later one fails, since a loop over polls would never end otherwise. A loop
        over records ends. Nothing is committed any more.
        """
        consumer = self.consumer({P0: LATEST}, group_id="g", enable_auto_commit=False)
        waiting = consumer.poll()
        self.brokers.settle(1)
        self.now(consumer.close())
        self.assertEqual(self.successResultOf(waiting), {})
        for late in (consumer.poll(1.0), consumer.commit(), consumer.commit({P0: 1})):
            self.assertIn("the consumer is closed", str(self.failureResultOf(late, LogbusError).value))
        self.failureResultOf(self.start(consumer.__anext__()), StopAsyncIteration)

    def test_cluster_that_is_closed(self) -> None:
        """Who waits for records is told, and who asks for them later; closing the consumer ends soon."""
        consumer = self.consumer({P0: LATEST})
        waiting = consumer.poll()
        self.brokers.settle(1)
        self.assertNoResult(waiting)
        self.cluster.close()
        self.brokers.settle(2)
        self.failureResultOf(waiting, ClientClosed)
        again = consumer.poll()
        self.brokers.settle(2)
        self.failureResultOf(again, ClientClosed)
        self.now(consumer.close())
        self.assertEqual(self.brokers.clock.getDelayedCalls(), [])

    def test_cluster_that_is_closed_while_it_connects(self) -> None:
        """No other attempt follows."""
        self.brokers.nodes.clear()
        consumer = self.consumer()
        waiting = consumer.poll()
        self.cluster.close()
        self.brokers.settle(2)
        self.failureResultOf(waiting, ClientClosed)


class ReadingTests(ConsumerCase):
    """Records, and where one is."""

    def test_a_loop(self) -> None:
        """
        Records come one after another, and the position follows them; a loop that is left is gone on with by the next.
        """
        consumer = self.consumer()

        async def read(count: int) -> list[ConsumerRecord]:
            found = []
            async for record in consumer:
                found.append(record)
                if len(found) == count:
                    break
            return found

        self.assertEqual(self.now(read(1)), [ConsumerRecord("t", 0, 0, 1000, None, b"a", ())])
        self.assertEqual(consumer.position(P0), 1)
        self.assertEqual([each.value for each in self.now(read(2))], [b"b", b"c"])
        self.assertEqual((consumer.position(P0), consumer.lag()), (3, {P0: 0}))

    def test_batches(self) -> None:
        """
        Batches come as they were read; a loop over records before leaves its rest to them.
        """
        consumer = self.consumer()
        self.take(consumer, 1)
        batch = self.now(consumer.batches().__anext__())
        self.assertIsInstance(batch, Fetched)
        self.assertEqual(batch.records[0].value, b"b")
        self.assertEqual(consumer.position(P0), batch.next_offset)

    def test_poll(self) -> None:
        """
        A poll has no more records than it should, and none when its time is up.
        """
        consumer = self.consumer({P0: EARLIEST, P1: EARLIEST})
        found = []
        for _ in range(6):
            found += [each for records in self.now(consumer.poll(max_records=1)).values() for each in records]
        self.assertEqual(len({(each.partition, each.offset) for each in found}), 6)
        polling = consumer.poll(2.0)
        self.brokers.settle(1.9)
        self.assertNoResult(polling)
        self.brokers.settle(0.2)
        self.assertEqual(self.successResultOf(polling), {})
        self.assertEqual(self.now(consumer.poll(0)), {})

    def test_cancelled_waits_lose_no_record(self) -> None:
        """
        Whatever wait is cancelled, and whenever, each record is handed out once, in order.
        """
        self.logs[0].batches.clear()
        self.logs[0].start = self.logs[0].end = 0
        consumer = self.consumer()
        found: list[bytes | None] = []
        for turn in range(200):
            if turn % 3 == 0:
                self.logs[0].put(b"%d" % (turn // 3))
            kind = turn % 2
            waiting = self.start(consumer.__anext__()) if kind else consumer.poll(max_records=2)
            waiting.addCallback(
                lambda got: found.extend(
                    [got.value] if isinstance(got, ConsumerRecord) else [r.value for rs in got.values() for r in rs]
                )
            )
            waiting.addErrback(lambda failure: failure.trap(CancelledError))
            for _ in range(turn % 5):
                self.brokers.clock.advance(0.07 * (turn % 4))
            waiting.cancel()
        while len(found) < 67:
            found += self.take(consumer, 1)
        self.assertEqual(found, [b"%d" % number for number in range(67)])

    def test_pausing(self) -> None:
        """
        A paused partition hands out nothing, not even the rest of a batch, and goes on where it was.
        """
        consumer = self.consumer()
        self.take(consumer, 1)
        consumer.pause(P0)
        self.assertEqual(consumer.paused(), {P0})
        self.assertEqual(self.now(consumer.poll(1.0)), {})
        self.assertEqual(consumer.position(P0), 1)
        consumer.resume(P0)
        self.assertEqual(self.take(consumer, 2), [b"b", b"c"])

    def test_seeking(self) -> None:
        """
        The rest of a batch is dropped; beginning and end are positions, too.
        """
        consumer = self.consumer()
        self.take(consumer, 1)
        consumer.seek(P0, 2)
        self.assertEqual(consumer.position(P0), 2)
        self.assertEqual(self.take(consumer, 1), [b"c"])
        consumer.seek_to_beginning()
        self.assertIsNone(consumer.position(P0))
        self.assertEqual(self.take(consumer, 1), [b"a"])
        consumer.seek_to_end(P0)
        self.assertEqual(self.now(consumer.poll(1.0)), {})
        self.assertEqual(consumer.position(P0), 3)

    def test_offsets(self) -> None:
        """
        Beginning, end, and by time.
        """
        consumer = self.consumer()
        self.assertEqual(self.now(consumer.beginning_offsets([P0])), {P0: 0})
        self.assertEqual(self.now(consumer.end_offsets([P0, P1])), {P0: 3, P1: 3})
        found = self.now(consumer.offsets_for_times({P0: 1001, P1: 99_999}))
        assert found[P0] is not None
        self.assertEqual((found[P0].offset, found[P1]), (1, None))

    def test_deserializers(self) -> None:
        """
        Values are what the deserializer made of them. One that fails ends the loop with an error that says where; the
        record stays the next until one seeks past it.
        """
        self.logs[0].put(b"7", b"bad", b"8")
        consumer = self.consumer({P0: 3}, value_deserializer=lambda topic, data: int(data))
        self.assertEqual(self.take(consumer, 1), [7])
        for _ in range(2):
            waiting = self.start(consumer.__anext__())
            self.brokers.settle(0.1)
            error = self.failureResultOf(waiting, RecordError).value
            self.assertIn("t-0@4: ValueError", str(error))
            self.assertEqual(consumer.position(P0), 4)
        self.failureResultOf(consumer.poll(), RecordError)
        consumer.seek(error.partition, error.offset + 1)
        self.assertEqual(self.take(consumer, 1), [8])

    def test_poll_returns_records_before_a_bad_one(self) -> None:
        """
        The records before it are not lost with the error.
        """
        self.logs[0].put(b"7", b"bad")
        consumer = self.consumer({P0: 3}, key_deserializer=None, value_deserializer=lambda topic, data: int(data))
        self.assertEqual([each.value for each in self.now(consumer.poll())[P0]], [7])
        self.failureResultOf(consumer.poll(), RecordError)

    def test_interceptors(self) -> None:
        """
        They see records before the application does, and cannot break anything.
        """
        seen: list[int] = []

        class Sees(ConsumerInterceptor):
            def on_consume(self, records: Any) -> None:
                seen.extend(each.offset for each in records)
                raise ValueError("broken")

        consumer = self.consumer(interceptors=[Sees()])
        self.assertEqual(self.take(consumer, 3), [b"a", b"b", b"c"])
        self.assertEqual(seen, [0, 1, 2])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), len(set(seen)) - 1)

    def test_errors_are_raised_until_a_seek(self) -> None:
        """An error is raised again until a seek; other partitions can be read meanwhile."""
        consumer = self.consumer({P0: 77}, auto_offset_reset="none")
        for _ in range(2):
            waiting = consumer.poll()
            for _ in range(20):
                self.brokers.settle(0.1)
            self.assertIs(self.failureResultOf(waiting, ApiError).value.code, ErrorCode.OFFSET_OUT_OF_RANGE)
        consumer.seek(P0, 0)
        self.assertEqual(self.take(consumer, 1), [b"a"])

    def test_closing(self) -> None:
        """
        A loop that waits ends, and so does one that begins; no timer is left, and no connection.
        """
        consumer = self.consumer({P0: LATEST})
        waiting = self.start(consumer.__anext__())
        self.brokers.settle(1)
        self.assertNoResult(waiting)
        self.now(consumer.close())
        self.failureResultOf(waiting, StopAsyncIteration)
        self.failureResultOf(self.start(consumer.__anext__()), StopAsyncIteration)
        self.assertIn("the consumer is closed", str(self.failureResultOf(consumer.poll(), LogbusError).value))
        with self.assertRaises(LogbusError):
            consumer.assign([P0])
        closing = self.cluster.close()
        self.brokers.settle(60)
        self.successResultOf(closing)
        self.assertEqual(self.brokers.clock.getDelayedCalls(), [])
        self.assertEqual(self.brokers.connections, [])

    def test_methods_that_need_a_group(self) -> None:
        """
        Without one, subscribing and committing are errors that say so, and options for members are refused.
        """
        consumer = self.consumer()
        with self.assertRaisesRegex(LogbusError, "group_id"):
            consumer.subscribe(["t"])
        for waiting in (consumer.commit(), consumer.committed([P0])):
            self.assertIn("group_id", str(self.failureResultOf(waiting, LogbusError).value))
        with self.assertRaisesRegex(LogbusError, "group_id"):
            consumer.group_metadata()
        with self.assertRaisesRegex(TypeError, "session_timeout"):
            Consumer(self.cluster, session_timeout=3)
