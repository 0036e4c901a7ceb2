"""
Measures what quotas cost, how exactly they hold, and whether they protect the others::

    python -m benchmarks.quotas [--rounds 5] [--seconds 2] [--throttled-seconds 30]

First the processor time of requests, by turns on three brokers: without quotas; with 10,000 quotas of bytes, which
nobody reaches, one of them the client's; and with as many of bytes and processor time. Then the rate of a producer
and of a consumer (librdkafka's) against their quotas, from their first byte on. Last the latency of single records of
another client: undisturbed, beside a producer over its quota, and beside the same one without a quota.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, Producer

from logbus.interpreter import InterpreterBuild
from logbus.records.file_slice import joined
from logbus.testing import Broker
from logbus.wire.connection import ClientConnection
from logbus.wire.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntity,
    AlteredEntry,
    OpData,
)

ENTITIES, AT_ONCE = 10_000, 2_000
UNREACHED = 1e12
"""Bytes a second, and per cent."""
QUOTA = 2_000_000
LOGBUS = [sys.executable, "-c", "from logbus.cli import main; main()"]
CELLS = {
    "produce 100 B": ("produce", "--record-size", "100", "--batch-records", "1", "--acks", "1"),
    "produce 100 KB": ("produce", "--acks", "1"),
    "fetch": ("fetch", "--record-size", "100"),
}


def alter(bootstrap: str, quotas: Mapping[str, Mapping[str, float | None]]) -> None:
    """
    Set quotas of client ids; None removes one.

    :raises RuntimeError: the broker refused.
    """
    host, port = bootstrap.rsplit(":", 1)
    wire, left = ClientConnection("bench"), list(quotas.items())
    with socket.create_connection((host, int(port)), 60) as sock, sock.makefile("rb") as stream:
        while left:
            some, left = left[:AT_ONCE], left[AT_ONCE:]
            entries = [
                AlteredEntry(
                    entity=[AlteredEntity(entity_type="client-id", entity_name=name or None)],
                    ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
                )
                for name, values in some
            ]
            sock.sendall(joined(wire.request(AlterClientQuotasRequest(entries=entries, validate_only=False), 1)[1]))
            (size,) = struct.unpack(">i", stream.read(4))
            response: AlterClientQuotasResponse = wire.receive(stream.read(size))[1]
            for entry in response.entries:
                if entry.error_code:
                    raise RuntimeError(entry.error_message)


def many(*keys: str) -> dict[str, dict[str, float | None]]:
    """Quotas that nobody reaches, of many client ids and of all others."""
    values: dict[str, float | None] = dict.fromkeys(keys, UNREACHED)
    return {"": values, **{f"client-{number}": values for number in range(ENTITIES)}}


def bench(broker: Broker, *arguments: str) -> dict[str, Any]:
    """What ``logbus bench`` measures."""
    command = [*LOGBUS, "bench", *arguments, "--json", "--bootstrap", broker.bootstrap]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def cost(rounds: int, seconds: float) -> None:
    """Processor time of requests without quotas, and with many."""
    with (
        Broker(in_process=False, controlled=False) as none,
        Broker(in_process=False, controlled=False) as of_bytes,
        Broker(in_process=False, controlled=False) as of_all,
    ):
        alter(of_bytes.bootstrap, many("producer_byte_rate", "consumer_byte_rate"))
        alter(of_all.bootstrap, many("producer_byte_rate", "consumer_byte_rate", "request_percentage"))
        brokers = {"none": none, "bytes": of_bytes, "bytes and time": of_all}
        for cell, arguments in CELLS.items():
            times: dict[str, list[float]] = {name: [] for name in brokers}
            for _ in range(rounds):
                for name, broker in brokers.items():
                    found = bench(broker, *arguments, "--seconds", str(seconds))
                    times[name].append(found["broker"]["cpu_us_per_request"])
            middle = {name: statistics.median(each) for name, each in times.items()}
            shown = "  ".join(
                f"{name} {value:6.1f} µs ({value / middle['none']:.2f})" for name, value in middle.items()
            )
            print(f"{cell:15} {shown}", flush=True)


def write(bootstrap: str, client_id: str, topic: str, stop: threading.Event) -> tuple[int, float]:
    """Produce as fast as one may until ``stop``; bytes and seconds, since the first acknowledgement began."""
    written = 0

    def delivered(error: object, message: Any) -> None:
        nonlocal written
        if error is None:
            written += len(message.value())

    settings = {"bootstrap.servers": bootstrap, "client.id": client_id, "queue.buffering.max.kbytes": 4096}
    producer = Producer({**settings, "batch.size": 100_000, "linger.ms": 5, "acks": 1})
    producer.list_topics(topic, 30)
    begun, value = time.monotonic(), bytes(10_000)
    while not stop.is_set():
        try:
            producer.produce(topic, value, on_delivery=delivered)
        except BufferError:
            producer.poll(0.01)
    seconds, count = time.monotonic() - begun, written
    producer.purge()
    producer.flush(30)
    return count, seconds


def read(bootstrap: str, topic: str, seconds: float) -> float:
    """Bytes a second of values that a consumer got."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "reader",
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": 1000,
        }
    )
    consumer.subscribe([topic])
    got, begun = 0, 0.0
    while not begun or time.monotonic() < begun + seconds:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            begun = begun or time.monotonic()
            got += len(message.value())
    consumer.close()
    return got / seconds


def exactness(seconds: float) -> None:
    """The rates of clients that take all they get."""
    with Broker(in_process=False, controlled=False) as broker:
        alter(broker.bootstrap, {"writer": {"producer_byte_rate": QUOTA}, "reader": {"consumer_byte_rate": QUOTA}})
        stop = threading.Event()
        threading.Timer(seconds, stop.set).start()
        written, took = write(broker.bootstrap, "writer", "exact", stop)
        print(f"producer: {written / took / QUOTA:.3f} of its quota over {took:.0f} s")
        stop = threading.Event()
        threading.Timer(2, stop.set).start()
        write(broker.bootstrap, "filler", "exact", stop)
        print(f"consumer: {read(broker.bootstrap, 'exact', seconds) / QUOTA:.3f} of its quota over {seconds:.0f} s")


def beside(rounds: int) -> None:
    """The latency of another client, by turns."""
    found: dict[str, list[float]] = {"undisturbed": [], "beside one over its quota": [], "beside one without": []}
    with Broker(in_process=False, controlled=False) as broker:
        for _ in range(rounds):
            for name, latencies in found.items():
                stop = threading.Event()
                writer: threading.Thread | None = None
                if name != "undisturbed":
                    quota = QUOTA if "over" in name else None
                    alter(broker.bootstrap, {"writer": {"producer_byte_rate": quota}})
                    arguments = (broker.bootstrap, "writer", "beside", stop)
                    writer = threading.Thread(target=write, args=arguments)
                    writer.start()
                    time.sleep(2)  # it has had its first burst
                measured = bench(broker, "latency", "--acks", "1", "--count", "2000")
                latencies.append(measured["latency_ms"]["answer"]["p99"])
                stop.set()
                if writer is not None:
                    writer.join()
    for name, latencies in found.items():
        print(f"p99 {name:26} {statistics.median(latencies):7.2f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--throttled-seconds", type=float, default=30.0)
    arguments = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    cost(arguments.rounds, arguments.seconds)
    exactness(arguments.throttled_seconds)
    beside(arguments.rounds)


if __name__ == "__main__":
    main()
