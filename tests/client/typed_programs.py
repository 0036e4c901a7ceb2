"""
What mypy knows about the clients: ``tests/docs/test_typing.py`` checks this file, and nothing runs it.

A mistake that mypy would not find any more is an unused ``type: ignore``, which is an error.
"""

from __future__ import annotations

from typing import Any, assert_type

from logbus.client import Cluster, Consumer, ConsumerRecord, Producer, aio
from logbus.client.serializers import JsonDeserializer, StringDeserializer


async def with_twisted(reactor: Any) -> None:
    """Neither client needs a clock or a random source, and records have the types of their deserializers."""
    cluster = Cluster(reactor, "b:9092")
    Producer(cluster, codec="zstd", acks="all")
    consumer = Consumer(cluster, "g", value_deserializer=StringDeserializer())
    async for record in consumer:
        assert_type(record, ConsumerRecord[bytes | None, str | None])
        assert_type(record.value, str | None)

    def process(record: ConsumerRecord[bytes | None, str | None]) -> None:
        """Of the right type."""

    def mistaken(record: ConsumerRecord[str, str]) -> None:
        """Of another one."""

    await consumer.each(process, concurrency=3, order="partition")
    await consumer.each(mistaken)  # type: ignore[arg-type]
    await consumer.each(process, order="time")  # type: ignore[arg-type]
    await consumer.each(process, concurency=3)  # type: ignore[call-arg]
    Producer(cluster, liner=0.1)  # type: ignore[call-arg]
    Producer(cluster, codec="zip")  # type: ignore[arg-type]
    Producer(cluster, acks=2)  # type: ignore[arg-type]
    Consumer(cluster, "g", session_timeout="6s")  # type: ignore[arg-type]


async def with_asyncio() -> None:
    """The same."""
    aio.Producer("b:9092", codec="zstd", linger=0.1, client_id="x")
    consumer = aio.Consumer("b:9092", "t", key_deserializer=StringDeserializer(), value_deserializer=JsonDeserializer())
    async for record in consumer:
        assert_type(record.key, str | None)

    async def process(record: ConsumerRecord[str | None, Any]) -> None:
        """A coroutine."""

    await consumer.each(process, concurrency=3)
    aio.Producer("b:9092", liner=0.1)  # type: ignore[call-arg]
    aio.Producer("b:9092", codec="zip")  # type: ignore[arg-type]
    aio.Producer("b:9092", acks="most")  # type: ignore[arg-type]
    aio.Consumer("b:9092", "t", auto_offset_reset="first")  # type: ignore[arg-type]
    aio.AdminClient("b:9092", clientid="x")  # type: ignore[call-arg]
