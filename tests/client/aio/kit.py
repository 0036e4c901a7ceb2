"""What tests of the client for asyncio share."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

from logbus.client import NewTopic
from logbus.client.aio import AdminClient, Consumer, Producer

T = TypeVar("T")

PATIENCE = 60
"""Seconds after which a test has failed; a busy machine is slow."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own; nothing may go wrong beside it, or be left behind."""
    wrong: list[dict[str, Any]] = []

    async def whole() -> T:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: wrong.append(context))
        try:
            async with asyncio.timeout(PATIENCE):
                return await coroutine
        finally:
            # What nobody looked at is told when it is collected.
            gc.collect()

    result = asyncio.run(whole())
    assert not wrong, wrong
    return result


async def make(bootstrap: str, topic: str, partitions: int = 1) -> None:
    """A topic."""
    async with AdminClient(bootstrap) as admin:
        assert await admin.create_topics([NewTopic(topic, partitions)]) == {topic: None}


async def fill(bootstrap: str, topic: str, *values: bytes) -> None:
    """A topic with one partition, and records in it."""
    await make(bootstrap, topic)
    async with Producer(bootstrap) as producer:
        for value in values:
            await producer.send(topic, value)


async def values_of(bootstrap: str, topic: str, count: int, **options: Any) -> list[bytes | None]:
    """The first records of a topic."""
    async with Consumer(bootstrap, topic, auto_offset_reset="earliest", **options) as consumer:
        found: list[bytes | None] = []
        async for record in consumer:
            found.append(record.value)
            if len(found) == count:
                return found
    raise AssertionError("the loop ended")
