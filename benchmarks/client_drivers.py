"""
Runs one job with one client library in a process of its own; :mod:`benchmarks.clients` starts it::

    python -m benchmarks.client_drivers LIBRARY JOB HOST:PORT TOPIC COUNT SIZE [RATE LINGER]

Each library is used as its documentation has it: records one by one, with a key or without, outcomes looked at. All are
set alike: acks=1, batches of 64 KiB, 5 ms of linger, no compression, no idempotence.

Jobs: ``produce`` sends ``COUNT`` records of ``SIZE`` bytes and waits for all; ``consume`` reads ``COUNT`` records, one
by one, from the beginning; ``latency`` sends ``COUNT`` records at ``RATE`` a second with ``LINGER`` seconds of linger,
each with the time it was sent, and consumes them in the same process. The answer is a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

BATCH = 64 * 1024
LINGER = 0.005
WARMING = 2000
"""Records before the clock starts: connections, metadata, and code that is used for the first time."""

_stamp = struct.Struct(">d")


def usage() -> float:
    """User and system seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Stopwatch:
    """Measures from its making to :meth:`say`."""

    def __init__(self) -> None:
        self._began, self._used = time.perf_counter(), usage()

    def say(self, count: int, **more: float) -> None:
        """Print the result."""
        seconds, cpu = time.perf_counter() - self._began, usage() - self._used
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"rate": count / seconds, "cpu_us": cpu / count * 1e6, "peak_mb": peak, **more}), flush=True)


def latencies(found: list[float]) -> dict[str, float]:
    """The median and the 99th percentile, in milliseconds, but for the first tenth: some connect only then."""
    found = sorted(found[len(found) // 10 :])
    return {"p50_ms": found[len(found) // 2] * 1e3, "p99_ms": found[len(found) * 99 // 100] * 1e3}


def due(count: int, rate: float) -> Iterator[float]:
    """When each record is to be sent, from now on."""
    start = time.perf_counter() + 0.2
    return (start + i / rate for i in range(count))


# logbus


def logbus(job: Callable[[Any, str], Any], bootstrap: str) -> None:
    """Run a coroutine function on logbus's own reactor."""
    from twisted.internet.main import installReactor

    from logbus.net.reactor import BrokerReactor

    installReactor(BrokerReactor())
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred

    from logbus.client import Cluster

    cluster = Cluster(reactor, bootstrap)
    failed = []

    async def main() -> None:
        try:
            await job(cluster, bootstrap)
        except BaseException as e:
            failed.append(e)
        await cluster.close()
        reactor.stop()  # type: ignore[attr-defined]

    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(main()))  # type: ignore[attr-defined]
    reactor.run()  # type: ignore[attr-defined]
    if failed:
        raise failed[0]


def logbus_producer(cluster: Any, linger: float = LINGER) -> Any:
    from logbus.client import Producer

    return Producer(
        cluster, wall_clock=time.time, random=random.Random(), acks=1, batch_bytes=BATCH, linger=linger,
    )  # fmt: skip


def logbus_produce(bootstrap: str, topic: str, count: int, size: int) -> None:
    async def job(cluster: Any, _: str) -> None:
        producer = logbus_producer(cluster)
        value = b"x" * size
        lost = []

        async def send(number: int) -> None:
            for _ in range(number):
                producer.send(topic, value).addErrback(lost.append)
                room = producer.room()
                if room is not None:
                    await room
            await producer.flush()

        await send(WARMING)
        watch = Stopwatch()
        await send(count)
        watch.say(count)
        await producer.close()
        assert not lost, lost[0]

    logbus(job, bootstrap)


def logbus_consumer(cluster: Any, topic: str, at_end: bool) -> Any:
    from logbus.client import EARLIEST, LATEST, Consumer
    from logbus.model import TopicPartition

    consumer = Consumer(cluster)
    consumer.assign({TopicPartition(topic, 0): LATEST if at_end else EARLIEST})
    return consumer


def logbus_consume(bootstrap: str, topic: str, count: int, size: int) -> None:
    async def job(cluster: Any, _: str) -> None:
        consumer = logbus_consumer(cluster, topic, False)
        seen = 0
        async for record in consumer:
            if seen == WARMING:
                watch = Stopwatch()
            seen += len(record.value) == size
            if seen == WARMING + count:
                break
        watch.say(count)
        await consumer.close()

    logbus(job, bootstrap)


def logbus_latency(bootstrap: str, topic: str, count: int, size: int, rate: float, linger: float) -> None:
    async def job(cluster: Any, _: str) -> None:
        from twisted.internet.defer import Deferred
        from twisted.internet.task import deferLater

        producer, consumer = logbus_producer(cluster, linger), logbus_consumer(cluster, topic, True)
        found: list[float] = []

        async def read() -> None:
            async for record in consumer:
                found.append(time.perf_counter() - _stamp.unpack_from(record.value)[0])
                if len(found) == count:
                    break

        reading = Deferred.fromCoroutine(read())
        await deferLater(cluster.reactor, 1.0)
        watch, padding = Stopwatch(), b"x" * (size - 8)
        for when in due(count, rate):
            wait = when - time.perf_counter()
            if wait > 0:
                await deferLater(cluster.reactor, wait)
            producer.send(topic, _stamp.pack(time.perf_counter()) + padding)
        await reading
        watch.say(count, **latencies(found))
        await consumer.close()
        await producer.close()

    logbus(job, bootstrap)


# logbus.client.aio


def aio_producer(bootstrap: str, linger: float = LINGER) -> Any:
    from logbus.client.aio import Producer

    return Producer(bootstrap, acks=1, batch_bytes=BATCH, linger=linger)


def aio_consumer(bootstrap: str, topic: str, at_end: bool) -> Any:
    from logbus.client.aio import Consumer

    return Consumer(bootstrap, topic, auto_offset_reset="latest" if at_end else "earliest")


def aio_produce(bootstrap: str, topic: str, count: int, size: int) -> None:
    async def job() -> None:
        async with aio_producer(bootstrap) as producer:
            value = b"x" * size
            sent = []

            async def send(number: int) -> None:
                for _ in range(number):
                    sent.append(await producer.send(topic, value))  # noqa: PERF401 - as one sends
                await producer.flush()

            await send(WARMING)
            watch = Stopwatch()
            await send(count)
            watch.say(count)
            assert all(each.result().offset >= 0 for each in sent)

    asyncio.run(job())


def aio_consume(bootstrap: str, topic: str, count: int, size: int) -> None:
    async def job() -> None:
        seen = 0
        async with aio_consumer(bootstrap, topic, False) as consumer:
            async for record in consumer:
                if seen == WARMING:
                    watch = Stopwatch()
                seen += len(record.value) == size
                if seen == WARMING + count:
                    break
            watch.say(count)

    asyncio.run(job())


def aio_latency(bootstrap: str, topic: str, count: int, size: int, rate: float, linger: float) -> None:
    async def job() -> None:
        found: list[float] = []
        async with aio_producer(bootstrap, linger) as producer, aio_consumer(bootstrap, topic, True) as consumer:

            async def read() -> None:
                async for record in consumer:
                    found.append(time.perf_counter() - _stamp.unpack_from(record.value)[0])
                    if len(found) == count:
                        break

            reading = asyncio.ensure_future(read())
            await asyncio.sleep(1)
            watch, padding = Stopwatch(), b"x" * (size - 8)
            for when in due(count, rate):
                wait = when - time.perf_counter()
                if wait > 0:
                    await asyncio.sleep(wait)
                await producer.send(topic, _stamp.pack(time.perf_counter()) + padding)
            await reading
            watch.say(count, **latencies(found))

    asyncio.run(job())


# aiokafka


def aiokafka_producer(bootstrap: str, linger: float = LINGER) -> Any:
    from aiokafka import AIOKafkaProducer

    return AIOKafkaProducer(bootstrap_servers=bootstrap, acks=1, max_batch_size=BATCH, linger_ms=int(linger * 1000))


def aiokafka_consumer(bootstrap: str, topic: str, at_end: bool) -> Any:
    from aiokafka import AIOKafkaConsumer

    return AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        auto_offset_reset="latest" if at_end else "earliest",
        max_partition_fetch_bytes=4 * 1024 * 1024,
    )


def aiokafka_produce(bootstrap: str, topic: str, count: int, size: int) -> None:
    async def job() -> None:
        producer = aiokafka_producer(bootstrap)
        await producer.start()
        value = b"x" * size
        sent = []

        async def send(number: int) -> None:
            for _ in range(number):
                sent.append(await producer.send(topic, value))  # noqa: PERF401 - as one sends
            await producer.flush()

        await send(WARMING)
        watch = Stopwatch()
        await send(count)
        watch.say(count)
        assert all(each.result().offset >= 0 for each in sent)
        await producer.stop()

    asyncio.run(job())


def aiokafka_consume(bootstrap: str, topic: str, count: int, size: int) -> None:
    async def job() -> None:
        consumer = aiokafka_consumer(bootstrap, topic, False)
        await consumer.start()
        seen = 0
        async for record in consumer:
            if seen == WARMING:
                watch = Stopwatch()
            seen += len(record.value) == size
            if seen == WARMING + count:
                break
        watch.say(count)
        await consumer.stop()

    asyncio.run(job())


def aiokafka_latency(bootstrap: str, topic: str, count: int, size: int, rate: float, linger: float) -> None:
    async def job() -> None:
        producer, consumer = aiokafka_producer(bootstrap, linger), aiokafka_consumer(bootstrap, topic, True)
        await producer.start()
        await consumer.start()
        found: list[float] = []

        async def read() -> None:
            async for record in consumer:
                found.append(time.perf_counter() - _stamp.unpack_from(record.value)[0])
                if len(found) == count:
                    break

        reading = asyncio.ensure_future(read())
        await asyncio.sleep(1)
        watch, padding = Stopwatch(), b"x" * (size - 8)
        for when in due(count, rate):
            wait = when - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            await producer.send(topic, _stamp.pack(time.perf_counter()) + padding)
        await reading
        watch.say(count, **latencies(found))
        await consumer.stop()
        await producer.stop()

    asyncio.run(job())


# kafka-python


def kafka_python_producer(bootstrap: str, linger: float = LINGER) -> Any:
    from kafka import KafkaProducer

    return KafkaProducer(
        bootstrap_servers=bootstrap,
        acks=1,
        batch_size=BATCH,
        linger_ms=int(linger * 1000),
        enable_idempotence=False,
    )


def kafka_python_consumer(bootstrap: str, topic: str, at_end: bool) -> Any:
    from kafka import KafkaConsumer

    return KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        auto_offset_reset="latest" if at_end else "earliest",
        max_partition_fetch_bytes=4 * 1024 * 1024,
    )


def kafka_python_produce(bootstrap: str, topic: str, count: int, size: int) -> None:
    producer = kafka_python_producer(bootstrap)
    value = b"x" * size
    sent = [producer.send(topic, value) for _ in range(WARMING)]
    producer.flush()
    watch = Stopwatch()
    sent += [producer.send(topic, value) for _ in range(count)]
    producer.flush()
    watch.say(count)
    assert all(each.get().offset >= 0 for each in sent)
    producer.close()


def kafka_python_consume(bootstrap: str, topic: str, count: int, size: int) -> None:
    consumer = kafka_python_consumer(bootstrap, topic, False)
    seen = 0
    for record in consumer:
        if seen == WARMING:
            watch = Stopwatch()
        seen += len(record.value) == size
        if seen == WARMING + count:
            break
    watch.say(count)
    consumer.close()


def kafka_python_latency(bootstrap: str, topic: str, count: int, size: int, rate: float, linger: float) -> None:
    producer, consumer = kafka_python_producer(bootstrap, linger), kafka_python_consumer(bootstrap, topic, True)
    found: list[float] = []
    consumer.poll(timeout_ms=1000)

    def read() -> None:
        for record in consumer:
            found.append(time.perf_counter() - _stamp.unpack_from(record.value)[0])
            if len(found) == count:
                break

    reading = threading.Thread(target=read)
    reading.start()
    time.sleep(1)
    watch, padding = Stopwatch(), b"x" * (size - 8)
    for when in due(count, rate):
        wait = when - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        producer.send(topic, _stamp.pack(time.perf_counter()) + padding)
    reading.join()
    watch.say(count, **latencies(found))
    consumer.close()
    producer.close()


DRIVERS: dict[str, dict[str, Callable[..., None]]] = {
    "logbus": {"produce": logbus_produce, "consume": logbus_consume, "latency": logbus_latency},
    "logbus.client.aio": {"produce": aio_produce, "consume": aio_consume, "latency": aio_latency},
    "aiokafka": {"produce": aiokafka_produce, "consume": aiokafka_consume, "latency": aiokafka_latency},
    "kafka-python": {
        "produce": kafka_python_produce,
        "consume": kafka_python_consume,
        "latency": kafka_python_latency,
    },
}


if __name__ == "__main__":
    library, job, bootstrap, topic, count, size, *rate = sys.argv[1:]
    DRIVERS[library][job](bootstrap, topic, int(count), int(size), *map(float, rate))
