"""Transactions of the producer for asyncio."""

from __future__ import annotations

import asyncio

import pytest

from logbus.client import Fenced, InvalidOption, TransactionError
from logbus.client.aio import Consumer, Producer
from logbus.model import TopicPartition
from tests.client.aio.kit import fill, make, run, values_of


def test_commit_and_abort(bootstrap: str, topic: str) -> None:
    """What is sent in a block is there when it ends well, and not when it ends with an error or is cancelled."""

    async def work() -> None:
        await make(bootstrap, topic)
        async with Producer(bootstrap, transactional_id=topic) as producer:
            with pytest.raises(TransactionError):
                await producer.send_and_wait(topic, b"outside")
            async with producer.transaction():
                await producer.send(topic, b"first")
            with pytest.raises(KeyError):
                async with producer.transaction():
                    await producer.send(topic, b"never")
                    raise KeyError
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05), producer.transaction():
                    await producer.send(topic, b"never")
                    await asyncio.Event().wait()
            async with producer.transaction():
                await producer.send(topic, b"second")
        assert await values_of(bootstrap, topic, 2, isolation_level="read_committed") == [b"first", b"second"]

    run(work())


def test_cancelled_at_the_beginning(bootstrap: str, topic: str) -> None:
    """In whatever stage the beginning of a transaction is cancelled, the next one can begin."""

    async def work() -> None:
        await make(bootstrap, topic)

        async def begin(producer: Producer) -> None:
            async with producer.transaction():
                await producer.send(topic, b"")

        async with Producer(bootstrap, transactional_id=topic) as producer:
            for turns in range(1, 12):
                task = asyncio.ensure_future(begin(producer))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
            await begin(producer)

    run(work())


def test_consume_and_produce(bootstrap: str, topic: str) -> None:
    """Offsets are committed with what was made of the records."""

    async def work() -> None:
        await fill(bootstrap, topic, b"1", b"2", b"3")
        await make(bootstrap, f"{topic}-out")
        options = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with (
            Consumer(bootstrap, topic, group_id=topic, **options) as consumer,  # type: ignore[arg-type]
            Producer(bootstrap, transactional_id=topic) as producer,
        ):
            left = 3
            while left:
                async with producer.transaction() as transaction:
                    for place, records in (await consumer.getmany()).items():
                        for each in records:
                            await producer.send(f"{topic}-out", each.value)
                        await transaction.send_offsets({place: records[-1].offset + 1}, consumer.group_metadata())
                        left -= len(records)
            place = TopicPartition(topic, 0)
            committed = (await consumer.committed([place]))[place]
            assert committed is not None and committed.offset == 3
        assert await values_of(bootstrap, f"{topic}-out", 3) == [b"1", b"2", b"3"]

    run(work())


def test_consumer_goes_back(bootstrap: str, topic: str) -> None:
    """
    A consumer given to a transaction has its offsets committed with it, and after an abort delivers the records again.
    """

    async def work() -> None:
        await fill(bootstrap, topic, b"1", b"2", b"3")
        await make(bootstrap, f"{topic}-out")
        async with (
            Consumer(
                bootstrap, topic, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False
            ) as consumer,
            Producer(bootstrap, transactional_id=topic) as producer,
        ):
            for attempt in range(3):
                try:
                    async with producer.transaction(consumer) as transaction:
                        record = await consumer.getone()
                        await producer.send(f"{topic}-out", record.value)
                        if attempt == 0:
                            raise KeyError
                        await transaction.send_offsets(consumer)
                        with pytest.raises(InvalidOption, match="knows its group"):
                            await transaction.send_offsets(consumer, topic)
                except KeyError:
                    assert attempt == 0
        assert await values_of(bootstrap, f"{topic}-out", 2, isolation_level="read_committed") == [b"1", b"2"]

    run(work())


def test_fenced(bootstrap: str, topic: str) -> None:
    """Only one producer at a time has a transactional id; one without any is told what to do."""

    async def work() -> None:
        await make(bootstrap, topic)
        options = {"transactional_id": topic}
        async with Producer(bootstrap, **options) as one, Producer(bootstrap, **options) as two:  # type: ignore[arg-type]
            async with one.transaction():
                await one.send(topic, b"")
            async with two.transaction():
                await two.send(topic, b"")
            with pytest.raises(Fenced):
                async with one.transaction():
                    await one.send(topic, b"")

    run(work())
    with pytest.raises(InvalidOption, match="needs a transactional_id"):
        Producer(bootstrap).transaction()
