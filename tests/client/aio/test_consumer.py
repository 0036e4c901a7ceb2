"""The consumer for asyncio."""

from __future__ import annotations

import asyncio

import pytest
from attrs import fields

from logbus.client import EARLIEST, ConsumerRecord, GroupListener, GroupOptions, InvalidOption, ProcessingFailed
from logbus.client.aio import Consumer, Producer
from logbus.client.aio.consumer import ConsumerArguments
from logbus.client.cluster import cluster as core_cluster
from logbus.client.consumer import consumer as core
from logbus.client.serializers import StringDeserializer
from logbus.errors import LogbusError
from logbus.model import TopicPartition
from tests.client.aio.kit import fill, make, run
from tests.client.aio.signatures import options_of

NUMBERS = [b"%d" % number for number in range(200)]


def test_loop_in_a_group(bootstrap: str, topic: str) -> None:
    """A record is processed when the loop asks for the next one; the next member goes on behind it."""

    async def work() -> None:
        await fill(bootstrap, topic, *NUMBERS)
        for first in (0, 10):
            consumer = Consumer(bootstrap, topic, group_id=topic, auto_offset_reset="earliest")
            async with consumer:
                async for record in consumer:
                    assert record.offset >= first
                    if record.offset == first + 9:
                        break
            assert consumer.assignment == frozenset()

    run(work())


def test_error_in_the_loop(bootstrap: str, topic: str) -> None:
    """A record whose processing fails is read again."""

    async def work() -> None:
        await fill(bootstrap, topic, *NUMBERS)
        seen = []
        for _ in range(2):
            with pytest.raises(KeyError):
                async with Consumer(bootstrap, topic, group_id=topic, auto_offset_reset="earliest") as consumer:
                    async for record in consumer:
                        seen.append(record.offset)
                        if record.offset == 3:
                            raise KeyError
        assert seen == [0, 1, 2, 3, 3]

    run(work())


def test_without_a_group(bootstrap: str, topic: str) -> None:
    """All partitions of the topics are read; keys and values have the types of their deserializers."""

    async def work() -> None:
        await make(bootstrap, topic, 3)
        async with Producer(bootstrap) as producer:
            for partition in range(3):
                await producer.send(topic, b"value", b"key", partition=partition)
        consumer = Consumer(
            bootstrap,
            topic,
            auto_offset_reset="earliest",
            key_deserializer=StringDeserializer(),
            value_deserializer=StringDeserializer(),
        )
        async with consumer:
            found = [await consumer.getone() for _ in range(3)]
            assert {(each.partition, each.key, each.value) for each in found} == {(n, "key", "value") for n in range(3)}
            assert consumer.lag() == dict.fromkeys(consumer.assignment, 0)
            with pytest.raises(LogbusError, match="without a group"):
                await consumer.commit()

    run(work())


def test_cancelled_waits_lose_nothing(bootstrap: str, topic: str) -> None:
    """Whenever a wait for records is cancelled or runs out of time, the next one goes on where the last one was."""

    async def work() -> None:
        await make(bootstrap, topic)
        place = TopicPartition(topic, 0)
        async with Producer(bootstrap, linger=0.0) as producer, Consumer(bootstrap) as consumer:
            consumer.assign({place: EARLIEST})
            found: list[bytes | None] = []

            async def send() -> None:
                for value in NUMBERS:
                    await producer.send_and_wait(topic, value)

            sending = asyncio.ensure_future(send())
            turn = 0
            while len(found) < len(NUMBERS):
                turn += 1
                reading = asyncio.ensure_future(consumer.getmany() if turn % 2 else consumer.getone())
                # Cancelled in all stages: at once, while it waits, and when its result is there.
                for _ in range(turn % 7):
                    await asyncio.sleep(0)
                if turn % 3:
                    reading.cancel()
                try:
                    result = await reading
                except asyncio.CancelledError:
                    continue
                found += [each.value for each in (result[place] if isinstance(result, dict) else [result])]
            await sending
            assert found == NUMBERS
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await consumer.getone()
            assert await consumer.getmany(0.01) == {}

    run(work())


def test_positions(bootstrap: str, topic: str) -> None:
    """Seeking, pausing, offsets by time, and what is committed."""

    async def work() -> None:
        await fill(bootstrap, topic, *NUMBERS)
        place = TopicPartition(topic, 0)
        async with Consumer(bootstrap, group_id=topic, enable_auto_commit=False) as consumer:
            consumer.assign({place: EARLIEST})
            assert (await consumer.getone()).offset == 0
            consumer.seek(place, 150)
            found = await consumer.getmany(max_records=10)
            assert [each.offset for each in found[place]] == list(range(150, 160))
            assert consumer.position(place) == 160
            await consumer.commit()
            committed = (await consumer.committed([place]))[place]
            assert committed is not None and committed.offset == 160
            consumer.seek_to_beginning()
            assert (await consumer.getone()).offset == 0
            await consumer.seek_to_committed()
            assert (await consumer.getone()).offset == 160
            consumer.pause(place)
            assert await consumer.getmany(0.01) == {}
            consumer.resume(place)
            assert (await consumer.getone()).offset == 161
            assert await consumer.beginning_offsets([place]) == {place: 0}
            assert await consumer.end_offsets([place]) == {place: 200}
            assert (await consumer.offsets_for_times({place: 0}))[place] is not None

    run(work())


def test_batches(bootstrap: str, topic: str) -> None:
    """Records come as they were fetched, if that is asked for."""

    async def work() -> None:
        await fill(bootstrap, topic, *NUMBERS)
        found: list[bytes | None] = []
        async with Consumer(bootstrap, topic, auto_offset_reset="earliest") as consumer:
            async for batch in consumer.batches():
                found += [each.value for each in batch.records]
                if len(found) == 200:
                    break
        assert found == NUMBERS

    run(work())


def test_listener(bootstrap: str, topic: str) -> None:
    """The methods of a listener may be asyncio's coroutines; the rebalance waits for them."""

    class Listener(GroupListener):
        def __init__(self) -> None:
            self.calls: list[str] = []
            self.assigned = asyncio.Event()

        async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            self.calls.append(f"+{len(partitions)}")
            self.assigned.set()

        async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            self.calls.append(f"-{len(partitions)}")

    async def work() -> None:
        await make(bootstrap, topic, 2)
        listener = Listener()
        async with Consumer(bootstrap, topic, group_id=topic, listener=listener) as consumer:
            await listener.assigned.wait()
            await consumer.unsubscribe()
            assert consumer.assignment == frozenset()
        assert listener.calls == ["+2", "-2"]

    run(work())


def test_closed_while_it_is_read(bootstrap: str, topic: str) -> None:
    """A loop ends when its consumer is closed; a single read says so."""

    async def work() -> None:
        await make(bootstrap, topic)
        async with Consumer(bootstrap, topic) as consumer:

            async def read() -> int:
                return len([each async for each in consumer])

            reading = asyncio.ensure_future(read())
            await asyncio.sleep(0)
            await consumer.close()
            assert await reading == 0
            with pytest.raises(LogbusError, match="the consumer is closed"):
                await consumer.getone()

    run(work())


def test_options() -> None:
    """mypy knows all options of consumers, members and the cluster; wrong ones are refused when it is made."""
    options = options_of(core.Consumer) - {"key_deserializer", "value_deserializer"}
    member = {each.name for each in fields(GroupOptions)} - {"group_id"}
    assert options_of(ConsumerArguments) == options | member | options_of(core_cluster.Cluster) - {"endpoint"}
    with pytest.raises(InvalidOption, match="auto_offset_reset is 'first'"):
        Consumer("127.0.0.1:9092", auto_offset_reset="first")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="without a group_id there is no use for session_timeout"):
        Consumer("127.0.0.1:9092", session_timeout=10.0)
    with pytest.raises(InvalidOption, match="listener"):
        Consumer("127.0.0.1:9092", "a", listener=GroupListener())
    with pytest.raises(InvalidOption, match="a topic is"):
        Consumer("127.0.0.1:9092", ["a"])  # type: ignore[arg-type]


def test_side_by_side(bootstrap: str, topic: str) -> None:
    """Records are processed side by side, in order per key; a close lets them end, and commits them."""

    async def work() -> None:
        await make(bootstrap, topic)
        async with Producer(bootstrap) as producer:
            for number in range(60):
                await producer.send(topic, b"%d" % number, key=b"%d" % (number % 3))
        seen: list[int] = []
        running: list[bytes | None] = []
        most = 0
        everything = asyncio.Event()

        async def process(record: ConsumerRecord) -> None:
            nonlocal most
            assert record.key not in running
            running.append(record.key)
            most = max(most, len(running))
            for _ in range(record.offset % 7):
                await asyncio.sleep(0)
            running.remove(record.key)
            seen.append(record.offset)
            if len(seen) == 60:
                everything.set()

        async with Consumer(bootstrap, topic, group_id=topic, auto_offset_reset="earliest") as consumer:
            each = asyncio.ensure_future(consumer.each(process))
            await everything.wait()
            await consumer.close()
            await each
        assert most == 3
        for key in range(3):
            assert [each for each in seen if each % 3 == key] == list(range(key, 60, 3))
        async with Consumer(bootstrap, group_id=topic) as consumer:
            (committed,) = (await consumer.committed([TopicPartition(topic, 0)])).values()
            assert committed is not None and committed.offset == 60

    run(work())


def test_cancelled_side_by_side(bootstrap: str, topic: str) -> None:
    """A cancellation cancels the tasks, and returns when they have ended; their records are the next ones."""

    async def work() -> None:
        await fill(bootstrap, topic, b"a", b"b", b"c")
        ended: list[int] = []
        begun = asyncio.Event()

        async def process(record: ConsumerRecord) -> None:
            try:
                if record.offset:
                    begun.set()
                    await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.append(record.offset)

        async with Consumer(bootstrap, topic, group_id=topic, auto_offset_reset="earliest") as consumer:
            each = asyncio.ensure_future(consumer.each(process))
            await begun.wait()
            await asyncio.sleep(0)
            each.cancel()
            with pytest.raises(asyncio.CancelledError):
                await each
            assert sorted(ended) == [0, 1, 2]
            assert (await consumer.getone()).offset in (0, 1)

    run(work())


def test_error_side_by_side(bootstrap: str, topic: str) -> None:
    """The first error ends it, unless a coroutine takes care of it."""

    async def work() -> None:
        await fill(bootstrap, topic, b"a", b"b", b"c")
        skipped: list[int] = []

        async def process(record: ConsumerRecord) -> None:
            if record.offset:
                raise KeyError(record.offset)

        async def on_error(record: ConsumerRecord, error: Exception) -> None:
            await asyncio.sleep(0)
            if record.offset == 2:
                raise error
            skipped.append(record.offset)

        async with Consumer(bootstrap, topic, group_id=topic, auto_offset_reset="earliest") as consumer:
            with pytest.raises(ProcessingFailed, match="@2: KeyError: 2"):
                await consumer.each(process, on_error=on_error)
            assert skipped == [1]
            assert (await consumer.getone()).offset == 2
        with pytest.raises(InvalidOption, match="concurrency is 0"):
            await consumer.each(process, concurrency=0)

    run(work())


def test_order_of_calls(bootstrap: str, topic: str) -> None:
    """Reading before the start, after the end, and from another loop is refused, where it would wait for ever."""

    async def work() -> None:
        await fill(bootstrap, topic, b"a")
        consumer = Consumer(bootstrap, topic, group_id=topic, auto_offset_reset="earliest")
        for early in (consumer.getone(), consumer.getmany(0)):
            with pytest.raises(LogbusError, match="was not started"):
                await early
        async with consumer:
            assert (await consumer.getone()).value == b"a"
            for call in (consumer.getone(), consumer.commit(), consumer.close()):
                with pytest.raises(RuntimeError, match="another event loop"):
                    await asyncio.to_thread(asyncio.run, call)
        for late in (consumer.getone(), consumer.getmany(0)):
            with pytest.raises(LogbusError, match="is closed"):
                await late

    run(work())
