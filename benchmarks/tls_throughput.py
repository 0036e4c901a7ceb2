"""
Measures throughput and CPU over TLS, of logbus and of Apache Kafka by turns, beside the same without TLS, and beside
what a pair of processes reaches with OpenSSL alone::

    python -m benchmarks.tls_throughput [--rounds 3] [--megabytes 256] [--no-kafka]

librdkafka writes records of 1 KB, and reads them back. Figures are megabytes a second, and seconds of the broker's CPU
for a gigabyte. All run on this machine: clients take their share of it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import ssl
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from multiprocessing import Process
from pathlib import Path
from typing import Any

import attrs
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.compare.jars import KAFKA_VERSION, kafka_jars
from benchmarks.compare.process_cost import cost
from benchmarks.compare.systems import Kafka, Logbus, Running, System, free_port, start
from logbus.interpreter import InterpreterBuild
from tests.certificates import Authority

RECORD = os.urandom(512) + bytes(512)
RECORDS_PER_MB = 1_000_000 // len(RECORD)
SECONDS = 300


@attrs.frozen
class SecureLogbus(Logbus):
    """logbus with a second listener, for TLS."""

    tls_port: int = 0
    store: Path = Path()

    def prepare(self, directory: Path, port: int, synced: bool | None) -> Sequence[str]:
        command = [*super().prepare(directory, port, synced)]
        command += ["--listen", f"SSL=kafka:tcp:{self.tls_port}:interface=127.0.0.1"]
        return [*command, "--set", f"ssl.keystore.location={self.store}"]


@attrs.frozen
class SecureKafka(Kafka):
    """Kafka with a second listener, for TLS."""

    tls_port: int = 0
    store: Path = Path()

    def prepare(self, directory: Path, port: int, synced: bool | None) -> Sequence[str]:
        command = super().prepare(directory, port, synced)
        properties = directory / "server.properties"
        text = properties.read_text().replace(",CONTROLLER://", f",SSL://127.0.0.1:{self.tls_port},CONTROLLER://", 1)
        protocols = "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT"
        properties.write_text(
            f"{text}listener.security.protocol.map={protocols}\n"
            f"ssl.keystore.type=PEM\nssl.keystore.location={self.store}\n"
        )
        return command


@attrs.frozen
class Figure:
    """Megabytes a second, and the broker's CPU seconds for a gigabyte."""

    rate: float
    cpu: float


@contextlib.contextmanager
def measured(pid: int, megabytes: int, into: list[Figure]) -> Iterator[None]:
    """Measure a transfer."""
    began, before = time.monotonic(), cost(pid).cpu
    yield
    seconds = time.monotonic() - began
    into.append(Figure(megabytes / seconds, (cost(pid).cpu - before) / megabytes * 1000))


def transfer(
    running: Running, settings: dict[str, Any], topic: str, megabytes: int, figures: dict[str, list[Figure]]
) -> None:
    """Write to a topic, and read it back."""
    admin = AdminClient(settings)
    [made] = admin.create_topics([NewTopic(topic, 1, 1)]).values()
    made.result(SECONDS)
    count = megabytes * RECORDS_PER_MB
    producer = Producer({**settings, "acks": 1, "linger.ms": 5, "queue.buffering.max.kbytes": 65536})
    with measured(running.pid, megabytes, figures["produce"]):
        for _ in range(count):
            while True:
                try:
                    producer.produce(topic, RECORD, partition=0)
                    break
                except BufferError:
                    producer.poll(0.1)
        if producer.flush(SECONDS):
            raise TimeoutError(f"{running.name} does not take what is written")
    consumer = Consumer({**settings, "group.id": "none", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        with measured(running.pid, megabytes, figures["fetch"]):
            left = count
            while left:
                found = consumer.consume(min(left, 10_000), SECONDS)
                if not found:
                    raise TimeoutError(f"{running.name} does not give what was written")
                left -= len(found)
    finally:
        consumer.close()


def _send(port: int, store: Path, megabytes: int) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(store)
    data = RECORD * 16
    with socket.create_server(("127.0.0.1", port)) as listening:
        plain, _ = listening.accept()
        with context.wrap_socket(plain, server_side=True) as secure:
            for _ in range(megabytes * 1_000_000 // len(data)):
                secure.sendall(data)


def openssl(store: Path, ca: Path, megabytes: int) -> Figure:
    """Two processes that send and receive records of TLS, of the largest size: what the sender's CPU allows."""
    port = free_port()
    sender = Process(target=_send, args=(port, store, megabytes))
    sender.start()
    context = ssl.create_default_context(cafile=str(ca))
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            plain = socket.create_connection(("127.0.0.1", port), SECONDS)
            break
    with context.wrap_socket(plain, server_hostname="localhost") as secure:
        buffer, began, before = bytearray(1 << 20), time.monotonic(), cost(sender.pid or 0).cpu
        received, used = 0, before
        while count := secure.recv_into(buffer):
            received += count
            with contextlib.suppress(OSError, KeyError):  # it is over
                used = cost(sender.pid or 0).cpu
        seconds = time.monotonic() - began
    sender.join(SECONDS)
    return Figure(received / 1e6 / seconds, (used - before) / (received / 1e9))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=256, help="written and read in each round")
    parser.add_argument("--no-kafka", action="store_true", help="leave Apache Kafka out")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "logbus-benchmarks", help="of jars")
    given = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    figures: dict[tuple[str, str], dict[str, list[Figure]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        home, authority = Path(name), Authority.new()
        store, ca = authority.issue().write(home / "server.pem"), authority.write(home / "ca.pem")
        systems: list[System] = [SecureLogbus(tls_port=free_port(), store=store)]
        if not given.no_kafka:
            systems.append(SecureKafka(kafka_jars(KAFKA_VERSION, given.cache), KAFKA_VERSION, free_port(), store))
        brokers = []
        for system in systems:
            running = start(system, home / system.name)
            stack.callback(running.stop)
            secure = {
                "bootstrap.servers": f"127.0.0.1:{system.tls_port}",  # type: ignore[attr-defined]
                "security.protocol": "ssl",
                "ssl.ca.location": str(ca),
            }
            brokers.append((running, {"plain": {"bootstrap.servers": f"127.0.0.1:{running.port}"}, "TLS": secure}))
        for number in range(-1, given.rounds):
            limit = openssl(store, ca, given.megabytes)
            if number >= 0:
                figures["openssl", "TLS"]["fetch"].append(limit)
            for running, ways in brokers:
                for way, settings in ways.items():
                    # The first round is for the JVM, and for caches.
                    into = figures[running.name, way] if number >= 0 else defaultdict(list)
                    transfer(running, settings, f"{way}-{number + 1}", given.megabytes, into)
    print(f"{'':20}{'produce MB/s':>14}{'CPU s/GB':>10}{'fetch MB/s':>14}{'CPU s/GB':>10}")
    for (system_name, way), found in figures.items():
        row = f"{system_name + ' ' + way:20}"
        for what in ("produce", "fetch"):
            some = found.get(what)
            if some is None:
                row += f"{'':>24}"
                continue
            row += f"{statistics.median(one.rate for one in some):>14.0f}"
            row += f"{statistics.median(one.cpu for one in some):>10.2f}"
        print(row)


if __name__ == "__main__":
    main()
