"""
The client of logbus behind the other clients' interface; each call runs its own reactor in this thread.

A call fails if it leaves anything behind there: a timer, or a connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater

from logbus.client import Cluster, Consumer, Producer, aio
from logbus.client.aio.awaiting import outcome
from logbus.model import TopicPartition
from logbus.records.compression import Codec
from logbus.testing.private_reactor import close_reactor, private_reactor
from tests.interop.clients import CLIENT_MAX, SECONDS, Message

T = TypeVar("T")

Work = Callable[[Cluster], Coroutine[Deferred[Any], Any, T]]


def run(bootstrap: str, work: Work[T], seconds: float = SECONDS) -> T:
    """
    Have something done with a cluster, and hang up.

    :param work: called with the cluster; it closes what it makes of it.
    :return: what it returns.
    :raise twisted.internet.error.TimeoutError: it was not done in time.
    """
    reactor = private_reactor()
    results: list[T] = []
    failures: list[BaseException] = []
    left: list[object] = []

    async def whole() -> None:
        cluster = Cluster(reactor, bootstrap)
        try:
            results.append(await Deferred.fromCoroutine(work(cluster)).addTimeout(seconds, reactor))
        except BaseException as e:
            failures.append(e)
        await cluster.close()
        # What has been closed is gone by the next turns.
        for _ in range(3):
            await deferLater(reactor, 0)
        # The one is the waker, which ends threads that look names up.
        left.extend([*reactor.getDelayedCalls(), *[each for each in reactor.getReaders() if hasattr(each, "protocol")]])
        reactor.stop()

    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(whole()))
    reactor.run(installSignalHandlers=False)
    close_reactor(reactor)
    if failures:
        raise failures[0]
    assert not left, f"left behind: {left}"
    return results[0]


def run_on_asyncio(bootstrap: str, work: Work[T], seconds: float = SECONDS) -> T:
    """As :func:`run`, on asyncio's event loop, by the client for it."""

    async def whole() -> T:
        async with asyncio.timeout(seconds), aio.Cluster(bootstrap) as cluster:
            result = await outcome(Deferred.fromCoroutine(work(cluster.core)))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return asyncio.run(whole())


def a_producer(cluster: Cluster, **options: Any) -> Producer:
    """With what no test cares for."""
    return Producer(cluster, **options)


async def take(consumer: Consumer, count: int, seconds: float = SECONDS) -> list[Any]:
    """
    The next records, of all partitions.

    :raise AssertionError: fewer came in the time.
    """
    found: list[Any] = []
    # A machine where much else runs is slow; no test waits that long for what is there.
    for _ in range(int(seconds)):
        for records in (await consumer.poll(1.0, count - len(found))).values():
            found += records
        if len(found) >= count:
            return found
    raise AssertionError(f"only {len(found)} of {count} records came")


class Native:
    """logbus.client."""

    name = "logbus"
    cannot: frozenset[str] = frozenset()

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        idempotent: bool = False,
    ) -> None:
        async def produce(cluster: Cluster) -> None:
            # A million bytes that cannot be compressed are to go into one request.
            producer = a_producer(cluster, codec=Codec[codec.upper()], create_topics=True, request_bytes=CLIENT_MAX)
            sent = [
                producer.send(topic, m.value, m.key, partition=partition, timestamp=m.timestamp, headers=m.headers)
                for m in messages
            ]
            try:
                await gatherResults(sent, consumeErrors=True)
            finally:
                await producer.close()

        run(bootstrap, produce)

    def fetch(self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        async def fetch(cluster: Cluster) -> list[Message]:
            consumer = Consumer(cluster, auto_offset_reset="none")
            consumer.assign({TopicPartition(topic, partition): offset})
            try:
                return [
                    Message(each.value, each.key, each.headers, each.timestamp, each.offset)
                    for each in await take(consumer, count)
                ]
            finally:
                await consumer.close()

        return run(bootstrap, fetch)


NATIVE = Native()
