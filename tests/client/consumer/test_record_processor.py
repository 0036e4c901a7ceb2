"""Records processed side by side, against whole brokers: ``Consumer.each``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.client import Consumer, ConsumerRecord, InvalidOption, ProcessingFailed, Producer, RecordError
from logbus.client.serializers import JsonDeserializer
from logbus.errors import LogbusError
from logbus.model import TopicPartition
from logbus.testing.memory import MemoryCluster

Record = ConsumerRecord[Any, Any]
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Held:
    """Processing that ends when the test says so."""

    def __init__(self) -> None:
        self.under_way: dict[tuple[int, int], Deferred[None]] = {}
        self.begun: list[tuple[int, int]] = []
        self.cancelled: list[tuple[int, int]] = []

    def __call__(self, record: Record) -> Deferred[None]:
        place = record.partition, record.offset
        self.begun.append(place)
        self.under_way[place] = waiting = Deferred(lambda _: self.cancelled.append(place))
        return waiting.addBoth(lambda result: (self.under_way.pop(place), result)[1])

    @property
    def offsets(self) -> list[int]:
        return sorted(offset for _, offset in self.under_way)

    def end(self, offset: int, partition: int = 0, error: Exception | None = None) -> None:
        waiting = self.under_way[partition, offset]
        if error is None:
            waiting.callback(None)
        else:
            waiting.errback(error)


class EachCase(SynchronousTestCase):
    partitions = 1

    def setUp(self) -> None:
        self.brokers = MemoryCluster.started()
        self.addCleanup(self.brokers.close)
        self.brokers[0].create("t", self.partitions)
        self.cluster = self.brokers.client()
        self.held = Held()

    def fill(self, *keys: bytes | None, partition: int = 0) -> None:
        producer = Producer(self.cluster)
        for key in keys:
            producer.send("t", b"v", key=key, partition=partition)
        self.brokers.result(producer.close())

    def consumer(self, **options: Any) -> Consumer:
        consumer: Consumer = Consumer(
            self.cluster,
            "g",
            auto_offset_reset="earliest",
            session_timeout=6.0,
            heartbeat_interval=0.5,
            **options,
        )
        consumer.subscribe(["t"])
        return consumer

    def each(self, consumer: Consumer | None = None, process: Any = None, **options: Any) -> tuple[Consumer, Any]:
        consumer = consumer or self.consumer()
        running = consumer.each(process or self.held, **options)
        self.until(lambda: bool(self.held.begun) or running.called)
        return consumer, running

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(600):
            if condition():
                return
            self.brokers.settle(0.05)
        raise AssertionError("it did not happen")

    def committed(self, partition: TopicPartition = T0) -> int | None:
        reading: Consumer = Consumer(self.cluster, "g")
        found = self.brokers.result(reading.committed([partition]))[partition]
        return None if found is None else found.offset


class OrderTests(EachCase):
    def test_keys(self) -> None:
        """Records of one key are processed one after another, different keys and records without one side by side."""
        self.fill(b"a", b"a", b"b", None, None, b"b", b"a")
        consumer, running = self.each()
        self.assertEqual(self.held.offsets, [0, 2, 3, 4])
        self.held.end(2)
        self.assertEqual(self.held.offsets, [0, 3, 4, 5])
        self.held.end(0)
        self.assertEqual(self.held.offsets, [1, 3, 4, 5])
        self.held.end(1)
        self.assertEqual(self.held.offsets, [3, 4, 5, 6])
        for offset in (3, 4, 5, 6):
            self.held.end(offset)
        self.brokers.result(consumer.close())
        self.assertIsNone(self.successResultOf(running))
        self.assertEqual(self.committed(), 7)

    def test_keys_of_any_type(self) -> None:
        """The order is that of the keys' bytes, whatever a deserializer makes of them."""
        self.fill(b'{"a": 1}', b'{"a": 1}', b'{"a": 2}')
        consumer, running = self.each(self.consumer(key_deserializer=JsonDeserializer()))
        self.assertEqual(self.held.offsets, [0, 2])
        self.held.end(0)
        self.assertEqual(self.held.offsets, [1, 2])
        running.cancel()
        self.failureResultOf(running, CancelledError)
        self.brokers.result(consumer.close())

    def test_other_orders(self) -> None:
        """All records of a partition are processed one after another, or none, on demand."""
        self.fill(b"a", b"a", None)
        for order, expected in (("partition", [0]), ("none", [0, 1, 2])):
            self.held.begun.clear()
            consumer, running = self.each(order=order)
            self.assertEqual(self.held.offsets, expected)
            running.cancel()
            self.failureResultOf(running, CancelledError)
            self.brokers.result(consumer.close())

    def test_bounds(self) -> None:
        """No more are under way, and no more are taken, than allowed."""
        self.fill(*[b"%d" % i for i in range(10)])
        consumer, running = self.each(concurrency=2, max_records=4)
        self.brokers.settle(5)
        self.assertEqual((self.held.offsets, consumer.position(T0)), ([0, 1], 4))
        self.held.end(1)
        self.assertEqual((self.held.offsets, consumer.position(T0)), ([0, 2], 5))
        while self.held.under_way:
            self.held.end(self.held.offsets[-1])
        self.assertEqual(len(self.held.begun), 10)
        self.brokers.result(consumer.close())
        self.successResultOf(running)

    def test_without_waiting(self) -> None:
        """Processing that does not wait, of many records, is no recursion."""
        self.fill(*[None] * 3000)
        seen: list[int] = []

        def process(record: Record) -> None:
            seen.append(record.offset)

        consumer = self.consumer()
        running = consumer.each(process)
        self.until(lambda: len(seen) == 3000)
        self.assertEqual(seen, list(range(3000)))
        self.brokers.result(consumer.close())
        self.successResultOf(running)
        self.assertEqual(self.committed(), 3000)


class EndTests(EachCase):
    def test_close_waits(self) -> None:
        """A close begins nothing more, waits for what is under way, and commits what is finished."""
        self.fill(b"a", b"a", b"b")
        consumer, running = self.each()
        closing = consumer.close()
        self.brokers.settle(5)
        self.assertNoResult(closing)
        self.held.end(0)
        self.held.end(2)
        self.assertEqual(self.held.under_way, {})
        self.brokers.result(closing)
        self.successResultOf(running)
        self.assertEqual(self.committed(), 1)

    def test_second_close(self) -> None:
        """It waits for the first, also if its caller gives up: the cluster may be closed afterwards."""
        self.fill(b"a")
        consumer, running = self.each()
        first, second, given_up = consumer.close(), consumer.close(), consumer.close()
        given_up.cancel()
        self.failureResultOf(given_up, CancelledError)
        self.brokers.settle(5)
        self.assertNoResult(second)
        self.held.end(0)
        self.brokers.result(second)
        self.successResultOf(first)
        self.successResultOf(running)
        self.successResultOf(consumer.close())
        self.assertEqual(self.committed(), 1)

    def test_close_is_bounded(self) -> None:
        """What does not end in time is cancelled, and read again."""
        self.fill(b"a", b"b")
        consumer, running = self.each(drain_timeout=3.0)
        self.held.end(1)
        closing = consumer.close()
        self.brokers.settle(2.5)
        self.assertNoResult(closing)
        self.brokers.result(closing)
        self.assertEqual(self.held.cancelled, [(0, 0)])
        self.successResultOf(running)
        self.assertIn(self.committed(), (0, None))

    def test_error(self) -> None:
        """The first error ends it; what else is under way may end, and what is unfinished is read again."""
        self.fill(b"a", b"b", b"c", b"a")
        consumer, running = self.each()
        self.held.end(1, error=KeyError("tea"))
        self.assertNoResult(running)
        self.held.end(0)
        self.held.end(2)
        error = self.failureResultOf(running, ProcessingFailed).value
        self.assertEqual(str(error), "t-0@1: KeyError: 'tea'")
        self.assertIsInstance(error.__cause__, KeyError)
        self.assertEqual(error.record.offset, 1)
        self.assertEqual(consumer.position(T0), 1)
        ((again, *_),) = self.brokers.result(consumer.poll()).values()
        self.assertEqual(again.offset, 1)
        self.brokers.result(consumer.close(done=False))
        self.assertEqual(self.committed(), 1)

    def test_error_in_a_call(self) -> None:
        """So it is if the error is raised at once."""
        self.fill(b"a", b"b")

        def process(record: Record) -> None:
            raise ValueError("no")

        consumer, running = self.each(process=process)
        self.failureResultOf(running, ProcessingFailed)
        self.assertEqual(consumer.position(T0), 0)
        self.brokers.result(consumer.close())

    def test_policy(self) -> None:
        """A record whose error a callback accepts is finished; an error of the callback ends it."""
        self.fill(b"a", b"b")
        seen: list[tuple[int, str]] = []

        async def on_error(record: Record, error: Exception) -> None:
            seen.append((record.offset, str(error)))
            if record.offset:
                raise RuntimeError("enough")

        consumer, running = self.each(on_error=on_error)
        self.held.end(0, error=ValueError("x"))
        self.assertNoResult(running)
        self.held.end(1, error=ValueError("y"))
        self.assertEqual(str(self.failureResultOf(running).value), "t-0@1: RuntimeError: enough")
        self.assertEqual(seen, [(0, "x"), (1, "y")])
        self.brokers.result(consumer.close())
        self.assertEqual(self.committed(), 1)

    def test_unreadable(self) -> None:
        """A record that cannot be deserialized ends it once the ones before have been processed."""
        self.fill(b"1", b"{", b"2")
        consumer, running = self.each(self.consumer(key_deserializer=JsonDeserializer()))
        self.assertEqual(self.held.offsets, [0])
        self.assertNoResult(running)
        self.held.end(0)
        self.failureResultOf(running, RecordError)
        self.assertEqual(consumer.position(T0), 1)
        self.brokers.result(consumer.close())

    def test_cancel(self) -> None:
        """A cancellation ends what is under way, and the consumer can be read otherwise."""
        self.fill(b"a", b"b")
        consumer, running = self.each()
        running.cancel()
        self.failureResultOf(running, CancelledError)
        self.assertEqual(sorted(self.held.cancelled), [(0, 0), (0, 1)])
        ((record, _),) = self.brokers.result(consumer.poll()).values()
        self.assertEqual(record.offset, 0)
        self.brokers.result(consumer.close())

    def test_seek(self) -> None:
        """After a seek the records there are processed; the outcome of those under way does not matter."""
        self.fill(b"a", b"b", b"c")
        consumer, running = self.each(concurrency=2)
        consumer.seek(T0, 2)
        self.held.end(0, error=ValueError())
        self.held.end(1)
        self.until(lambda: self.held.offsets == [2])
        self.held.end(2)
        self.brokers.result(consumer.close())
        self.successResultOf(running)
        self.assertEqual(self.committed(), 3)

    def test_mistakes(self) -> None:
        """Wrong arguments are refused, and so is a second call."""
        consumer = self.consumer()
        for name, value in (("concurrency", 0), ("order", "time"), ("drain_timeout", -1), ("max_records", 0)):
            options: Any = {name: value}
            error = self.failureResultOf(consumer.each(self.held, **options), InvalidOption).value
            self.assertIn(f"{name} is {value!r}", str(error))
        self.failureResultOf(consumer.each(None), InvalidOption)  # type: ignore[arg-type]
        running = consumer.each(self.held)
        self.assertIn("running already", str(self.failureResultOf(consumer.each(self.held), LogbusError).value))
        self.brokers.result(consumer.close())
        self.successResultOf(running)


class RebalanceTests(EachCase):
    partitions = 2

    def two(self, drain_timeout: float) -> tuple[Consumer, Any, Consumer, Held, Any]:
        """A member with both partitions, and records under way of each; then a second one joins."""
        self.fill(b"a", b"a", b"b")
        self.fill(b"a", b"a", b"b", partition=1)
        consumer, running = self.each(drain_timeout=drain_timeout)
        self.until(lambda: len(self.held.under_way) == 4)
        other, held = self.consumer(), Held()
        another = other.each(held)
        self.brokers.settle(2)
        return consumer, running, other, held, another

    def finish(self, *consumers: Consumer) -> None:
        for each in consumers:
            self.brokers.result(each.close(), 60)

    def test_revoked(self) -> None:
        """A partition goes when what is under way has ended, and the other member begins with what is unfinished."""
        consumer, running, other, held, another = self.two(30.0)
        self.assertEqual(held.begun, [])
        for partition in (0, 1):
            self.held.end(0, partition)
            self.held.end(2, partition)
        self.until(lambda: len(held.begun) == 2)
        self.assertEqual(self.held.cancelled, [])
        (partition,) = {each for each, _ in held.begun}
        self.assertEqual(sorted(held.begun), [(partition, 1), (partition, 2)])
        self.until(lambda: sorted(self.held.begun[4:]) == [(1 - partition, 1), (1 - partition, 2)])
        for each in (self.held, held):
            for place in list(each.under_way):
                each.end(place[1], place[0])
        self.finish(consumer, other)
        self.assertEqual((self.committed(T0), self.committed(T1)), (3, 3))
        self.successResultOf(running)
        self.successResultOf(another)

    def test_bound(self) -> None:
        """The group does not wait forever: what takes longer is cancelled."""
        consumer, running, other, held, _ = self.two(4.0)
        self.until(lambda: bool(held.begun))
        self.assertEqual(len(self.held.cancelled), 4)
        for each in (self.held, held):
            for place in list(each.under_way):
                each.end(place[1], place[0])
        self.finish(consumer, other)
        self.successResultOf(running)

    def test_lost(self) -> None:
        """When a member has been cut off for too long, what it has under way is cancelled."""
        self.cluster = self.brokers.client(timeout=2.0)
        self.fill(b"a")
        consumer, running = self.each()
        self.brokers.cut(102, 0)
        self.brokers.settle(10)
        self.brokers.mend()
        self.until(lambda: len(self.held.begun) == 2)
        self.assertEqual(self.held.cancelled, [(0, 0)])
        self.held.end(0)
        self.finish(consumer)
        self.successResultOf(running)
        self.flushLoggedErrors()
