"""
Idempotent producers, one of each library, that send through broker failures until they are stopped.

Each sends the values 0, 1, 2 ... so that it can be seen afterwards what is missing, doubled or out of order.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable
from typing import Any

from attrs import define, field

from tests.interop.java_client import Java, spelled

#: Seconds between two records, and how long one may take, elections included.
PAUSE = 0.02
PATIENCE = 60


@define(eq=False)
class Producing:
    """
    A producer at work.

    :ivar sent: how many values it was given, as soon as it has stopped.
    :ivar errors: why any was not acknowledged.
    """

    bootstrap: str
    topic: str
    partitions: int
    stopping: threading.Event = field(factory=threading.Event)
    sent: int = 0
    errors: list[object] = field(factory=list)
    _thread: threading.Thread | None = None

    def start(self, work: Callable[[Producing], None]) -> Producing:
        """Have it work in a thread of its own."""

        def run() -> None:
            try:
                work(self)
            except Exception as failure:
                self.errors.append(failure)

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        return self

    def stop(self) -> int:
        """
        Have it stop, and wait until all that it sent is acknowledged or has failed.

        :return: how many values it sent.
        """
        self.stopping.set()
        assert self._thread is not None
        self._thread.join(PATIENCE + 10)
        assert not self._thread.is_alive(), f"the producer of {self.topic} does not end"
        assert not self.errors, self.errors
        return self.sent

    def next(self) -> tuple[int, bytes]:
        """Partition and value of the next record."""
        number = self.sent
        self.sent += 1
        return number % self.partitions, b"%d" % number


def confluent(work: Producing) -> None:
    """confluent-kafka."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": work.bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": PATIENCE * 1000,
            "linger.ms": 5,
            "log_level": 0,
        }
    )
    while not work.stopping.wait(PAUSE):
        partition, value = work.next()
        producer.produce(
            work.topic, value, partition=partition, on_delivery=lambda error, _: error and work.errors.append(error)
        )
        producer.poll(0)
    if producer.flush(PATIENCE):
        work.errors.append("not all is acknowledged")


def kafka_python(work: Producing) -> None:
    """kafka-python."""
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=work.bootstrap,
        enable_idempotence=True,
        delivery_timeout_ms=PATIENCE * 1000,
        reconnect_backoff_max_ms=200,
        linger_ms=5,
    )
    sent = []
    while not work.stopping.wait(PAUSE):
        partition, value = work.next()
        sent.append(producer.send(work.topic, value, partition=partition))
    for future in sent:
        future.get(PATIENCE)
    producer.close()


def aiokafka(work: Producing) -> None:
    """aiokafka."""
    from aiokafka import AIOKafkaProducer

    async def produce() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=work.bootstrap,
            enable_idempotence=True,
            request_timeout_ms=PATIENCE * 1000,
            metadata_max_age_ms=1_000,
            linger_ms=5,
        )
        await producer.start()
        sent = []
        while not work.stopping.is_set():
            partition, value = work.next()
            sent.append(await producer.send(work.topic, value, partition=partition))
            await asyncio.sleep(PAUSE)
        await asyncio.wait_for(asyncio.gather(*sent), PATIENCE)
        await producer.stop()

    asyncio.run(produce())


def kcat(work: Producing) -> None:
    """kcat; it shares out partitions by itself."""
    settings = ["enable.idempotence=true", f"message.timeout.ms={PATIENCE * 1000}", "sticky.partitioning.linger.ms=0"]
    command = ["kcat", "-P", "-b", work.bootstrap, "-t", work.topic, *(word for s in settings for word in ("-X", s))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        while not work.stopping.wait(PAUSE):
            _, value = work.next()
            process.stdin.write(value + b"\n")
            process.stdin.flush()
        _, said = process.communicate(timeout=PATIENCE)
        if process.returncode:
            work.errors.append(said.decode())


def java(process: Java) -> Callable[[Producing], None]:
    """Kafka's own client."""

    def work(work: Producing) -> None:
        settings: dict[str, object] = {
            "bootstrap.servers": work.bootstrap,
            "enable.idempotence": "true",
            "delivery.timeout.ms": PATIENCE * 1000,
            "linger.ms": 5,
        }
        call = process.start("work", spelled(settings), work.topic, work.partitions, int(PAUSE * 1000))
        work.stopping.wait()
        call.stop()
        for words in call.rest(PATIENCE):
            if words[0] == "lost":
                work.errors.append(words)
            else:
                work.sent = int(words[1])

    return work


def all_kinds(process: Java) -> dict[str, Callable[[Producing], Any]]:
    """Each library's producer by its name."""
    return {
        "confluent": confluent,
        "kafka-python": kafka_python,
        "aiokafka": aiokafka,
        "kcat": kcat,
        "java": java(process),
    }
