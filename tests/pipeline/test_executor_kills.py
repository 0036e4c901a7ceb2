"""Tests the source on a standalone Spark whose executors are killed."""

from __future__ import annotations

import json
import threading

import pytest
from confluent_kafka import Producer

from logbus.testing import Broker
from tests.pipeline.standalone import SECONDS, Standalone, driver, end, kill


def fill(broker: Broker, topic: str, count: int) -> list[list[object]]:
    """Two partitions; returns the rows that a reader must find."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.num.messages": 50})
    for number in range(count):
        producer.produce(topic, b"value %d " % number * 10, partition=number % 2)
    assert producer.flush(SECONDS) == 0
    rows = [[number % 2, number // 2, f"value {number} " * 10] for number in range(count)]
    return sorted(rows)  # type: ignore[type-var]


@pytest.mark.long
def test_killed_executor(standalone: Standalone) -> None:
    """All rows, once, by two of them; one that is killed meanwhile is made up for."""
    with Broker({"num.partitions": "2"}) as broker:
        written = fill(broker, "t", 2000)
        slow = json.dumps({"kafka.fetch.max.bytes": "1000", "minPartitions": "8"})
        process = driver("tests.pipeline.read_driver", standalone.url, broker.bootstrap, "t", slow)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "reading\n"
            for _ in range(SECONDS * 10):
                running = standalone.executors()
                if len(running) == 2:
                    break
                threading.Event().wait(0.1)
            kill(running[1])
            out, err = process.communicate(timeout=SECONDS)
            assert process.returncode == 0, err[-4000:]
            assert json.loads(out.splitlines()[-1]) == written
        finally:
            end(process)
