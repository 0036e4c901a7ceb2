"""
How long the partitions of a worker are away when it dies, and whether the other worker's are.

    python -m benchmarks.worker_deaths --deaths 10

A producer writes to a partition of each of two workers, a record at a time.  One worker after the other is killed with
SIGKILL, and the longest time between two acknowledgements of each partition is told.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import threading
import time

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from logbus.testing import Broker

TOPIC = "deaths"
SECONDS = 60.0
BETWEEN = 3.0
"""Seconds that a worker serves before the next one dies."""


class Writer(threading.Thread):
    """
    Writes a partition, a record at a time.

    :ivar worst: the longest time between two acknowledgements since it was last set.
    """

    def __init__(self, bootstrap: str, partition: int) -> None:
        super().__init__(daemon=True)
        self.worst = 0.0
        self.count = 0
        self._partition = partition
        self._last = time.monotonic()
        self._ends = threading.Event()
        quick = {"retry.backoff.ms": 20, "retry.backoff.max.ms": 50, "reconnect.backoff.ms": 20}
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0, "reconnect.backoff.max.ms": 50, **quick}
        )

    def run(self) -> None:
        """Write until told to end."""
        while not self._ends.is_set():
            self._producer.produce(TOPIC, b"x", partition=self._partition, on_delivery=self._told)
            self._producer.flush(SECONDS)

    def end(self) -> None:
        """End, with everything acknowledged."""
        self._ends.set()
        self.join(SECONDS)

    def _told(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            now = time.monotonic()
            self.worst, self._last = max(self.worst, now - self._last), now
            self.count += 1


def process_of(broker: Broker, worker: int) -> int:
    """The process of a worker, as its directory has it."""
    directory = broker.data_dir / "workers" / str(worker) if worker else broker.data_dir
    return int((directory / ".lock").read_text())


def restarted(broker: Broker, worker: int, before: int) -> bool:
    """Whether a worker has another process than before."""
    try:
        return process_of(broker, worker) != before
    except (ValueError, FileNotFoundError):
        return False


def measure(deaths: int) -> None:
    """Tell the times of some deaths."""
    away: list[float] = []
    beside: list[float] = []
    with Broker({"workers": 2, "log.flush.before.ack": True}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(SECONDS)
        found = admin.list_topics(TOPIC, timeout=SECONDS).topics[TOPIC].partitions
        writers = {found[number].leader: Writer(broker.bootstrap, number) for number in (0, 1)}
        for writer in writers.values():
            writer.start()
        time.sleep(BETWEEN)
        for number in range(deaths):
            hit = number % 2
            for writer in writers.values():
                writer.worst = 0.0
            process = process_of(broker, hit)
            os.kill(process, signal.SIGKILL)
            deadline = time.monotonic() + SECONDS
            while not restarted(broker, hit, process) and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(BETWEEN)
            away.append(writers[hit].worst)
            beside.append(writers[1 - hit].worst)
        for writer in writers.values():
            writer.end()
    for what, times in (("partition of the worker that died", away), ("partition of the other", beside)):
        print(f"{what}: away for {statistics.median(times):.2f} s (median), {max(times):.2f} s (most)")


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worker_deaths", description=__doc__)
    parser.add_argument("--deaths", type=int, default=10)
    measure(parser.parse_args(arguments).deaths)
    return 0


if __name__ == "__main__":
    sys.exit(main())
