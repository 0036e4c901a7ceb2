"""
Measures a small producer beside one of 1 MB batches to another topic, while the kernel has whoever writes wait for the
device::

    python -m benchmarks.slow_device [--dirty-mb 32] [--seconds 5] [--rounds 3]

Needs root: for the length of a round, ``vm.dirty_bytes`` of this machine is that low.  Another checkout is measured
with ``PYTHONPATH``.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from logbus.testing import Broker

CONFIG = {
    "log.retention.bytes": "300000000",
    "log.segment.bytes": "100000000",
    "log.retention.check.interval.ms": "1000",
}
LIMITS = Path("/proc/sys/vm")


@contextmanager
def dirty_limit(limit: int) -> Iterator[None]:
    """Have the kernel hold so few unsynced bytes; afterwards as before."""
    names = ("dirty_bytes", "dirty_background_bytes", "dirty_ratio", "dirty_background_ratio")
    before = {name: (LIMITS / name).read_text() for name in names}
    try:
        (LIMITS / "dirty_background_bytes").write_text(str(limit // 2))
        (LIMITS / "dirty_bytes").write_text(str(limit))
        yield
    finally:
        for name, value in before.items():
            # Setting one of bytes and ratio sets the other to zero, which itself cannot be set.
            if int(value):
                (LIMITS / name).write_text(value)


class Bulk(threading.Thread):
    """Sends full batches until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self.stopped = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.size": 1_000_000, "log_level": 0}
            | {"acks": "1", "queue.buffering.max.kbytes": 20_000}
        )

    def run(self) -> None:
        """Send."""
        data = bytes(100_000)
        while not self.stopped.is_set():
            try:
                self._producer.produce("bulk", data, on_delivery=self._told)
            except BufferError:
                self._producer.poll(0.01)
            self._producer.poll(0)

    def _told(self, error: object, message: object) -> None:
        self.acknowledged += 100_000 if error is None else 0


def measure(seconds: float) -> None:
    """One round, on a new broker."""
    with Broker(in_process=False, controlled=False, config=CONFIG) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for made in admin.create_topics([NewTopic("bulk", 1, 1), NewTopic("small", 1, 1)]).values():
            made.result(60)
        bulk = Bulk(broker.bootstrap)
        bulk.start()
        small = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "acks": "1"})
        time.sleep(1)
        took: list[float] = []
        before, end = bulk.acknowledged, time.monotonic() + seconds
        while (begin := time.monotonic()) < end:
            small.produce("small", b"x" * 100)
            small.flush()
            took.append((time.monotonic() - begin) * 1000)
        rate = (bulk.acknowledged - before) / 1e6 / seconds
        bulk.stopped.set()
        bulk.join()
    took.sort()
    p50, p99 = took[len(took) // 2], took[int(len(took) * 0.99)]
    print(f"small {len(took) / seconds:,.0f}/s, p50 {p50:.2f} ms, p99 {p99:.1f} ms; bulk {rate:.0f} MB/s", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dirty-mb", type=int, default=32, help="the kernel's limit of unsynced bytes")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    for _ in range(arguments.rounds):
        with dirty_limit(arguments.dirty_mb << 20):
            measure(arguments.seconds)


if __name__ == "__main__":
    main()
