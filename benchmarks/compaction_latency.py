"""
Measures what compaction does to producers: the time of small requests to another topic, with and without it::

    python -m benchmarks.compaction_latency [--megabytes 200] [--value 1000] [--threads 1] [--rounds 4] [--rate 1000]

A process of its own sends 1 KB requests with acks=1 to a topic, each when the one before it is answered and not more
than so many a second. Meanwhile the broker cleans a log whose keys are mostly written once, which is rewritten as a
whole, and pauses for as long as that took; requests are counted to the state in which they were sent. ``--no-cleaner``
has it pause only: the difference that the machine makes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cold_reads import receive
from benchmarks.compare import wire
from logbus.interpreter import InterpreterBuild
from logbus.records.batch import encode_batch
from logbus.records.record import Record
from logbus.testing.broker import Broker

COMPACTED, SMALL = "compacted", "small"


def send_small(port: int, rate: float) -> None:
    """The producer's process: sends until its input ends, then prints when each was sent and how long it took."""
    import threading

    over = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    request, buffer = wire.produce_request(SMALL, {0: wire.record_batch(1, 1000)}, 1), bytearray(4096)
    found = []
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not over.is_set():
            begun = time.monotonic()
            sock.sendall(request)
            receive(sock, buffer)
            took = time.monotonic() - begun
            found.append((begun, took))
            time.sleep(max(0.0, 1 / rate - took))
    print(json.dumps(found))


def fill(port: int, megabytes: float, options: argparse.Namespace, rng: random.Random) -> None:
    """Write so much to the topic that is compacted."""
    value = os.urandom(options.value)
    with socket.create_connection(("127.0.0.1", port)) as sock:
        for _ in range(int(megabytes * 1_000_000 / options.value / options.batch)):
            now_ms = int(time.time() * 1000)
            records = [
                Record(0, now_ms, b"key-%010d" % rng.randrange(options.keys), value) for _ in range(options.batch)
            ]
            batch = wire.Batch(encode_batch(records), options.batch)
            sock.sendall(wire.produce_request(COMPACTED, {0: batch}, 1))
            receive(sock, bytearray(4096))


def quantiles(found: list[float]) -> str:
    """Of seconds, in ms."""
    found = sorted(found)
    return "  ".join(
        f"{name} {found[min(len(found) - 1, int(share * len(found)))] * 1000:.2f}"
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("most", 1.0))
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=200)
    parser.add_argument("--value", type=int, default=1000, help="bytes of a value")
    parser.add_argument("--keys", type=int, default=10_000_000, help="different ones")
    parser.add_argument("--batch", type=int, default=100, help="records a batch")
    parser.add_argument("--threads", type=int, default=1, help="log.cleaner.threads")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--rate", type=float, default=1000, help="small requests a second, at most")
    parser.add_argument("--no-cleaner", action="store_true", help="pause instead of cleaning")
    parser.add_argument("--send-small-to", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.send_small_to:
        send_small(options.send_small_to, options.rate)
        return
    print(InterpreterBuild.running().name, flush=True)
    config = {
        "log.cleaner.enable": str(not options.no_cleaner).lower(),
        "log.cleaner.threads": str(options.threads),
        "log.cleaner.backoff.ms": "50",
        "log.flush.before.ack": "false",
        "log.flush.offset.checkpoint.interval.ms": "200",
    }
    with tempfile.TemporaryDirectory() as name, Broker(config, data_dir=name, in_process=False) as broker:
        directory = Path(name)
        admin: Any = broker.admin
        admin.create_topic(SMALL, 1, 1)
        admin.create_topic(
            COMPACTED, 1, 1, **{"cleanup.policy": "compact", "segment.bytes": str(64 << 20), "segment.ms": "600000"}
            | {"min.cleanable.dirty.ratio": "1.0"}
        )  # fmt: skip
        rng = random.Random(1)
        fill(broker.kafka_port, options.megabytes, options, rng)
        command = [sys.executable, "-m", "benchmarks.compaction_latency", "--send-small-to", str(broker.kafka_port)]
        command += ["--rate", str(options.rate)]
        producer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        spans: list[tuple[float, float]] = []
        try:
            time.sleep(2)
            for _ in range(options.rounds):
                # A few records more, and a segment that is closed: there is something to clean.
                admin.set_topic(COMPACTED, **{"min.cleanable.dirty.ratio": "1.0", "segment.ms": "600000"})
                fill(broker.kafka_port, 2, options, rng)
                admin.set_topic(COMPACTED, **{"segment.ms": "1"})
                time.sleep(1)
                fill(broker.kafka_port, 0.2, options, rng)
                time.sleep(2)
                before, begun = cleaned(directory), time.monotonic()
                admin.set_topic(COMPACTED, **{"min.cleanable.dirty.ratio": "0.0"})
                if options.no_cleaner:
                    time.sleep(2)
                else:
                    # Seldom: each look takes a processor for a moment.
                    deadline = time.monotonic() + 120
                    while not is_after(directory, before):
                        if time.monotonic() > deadline:
                            raise SystemExit("there was no cleaning in 120 s")
                        time.sleep(0.2)
                spans.append((begun, time.monotonic()))
                admin.set_topic(COMPACTED, **{"min.cleanable.dirty.ratio": "1.0"})
                time.sleep(max(2, spans[-1][1] - spans[-1][0]))
        finally:
            out, _ = producer.communicate()
        found = json.loads(out)
        first = spans[0][0]
        during = [took for at, took in found if any(low <= at < high for low, high in spans)]
        # The time around them without what prepares a round.
        beside = [took for at, took in found if at >= first - 2 and any(-2 <= at - low < 0 for low, _ in spans)]
        print(f"cleanings of {sum(high - low for low, high in spans) / len(spans):.1f} s")
        print(f"without: {len(beside)} requests, ms: {quantiles(beside)}")
        print(f"during:  {len(during)} requests, ms: {quantiles(during)}")
        # Other work on the machine comes and goes: each cleaning is compared with the time just before and after it.
        rounds = [
            (at_share([took for at, took in found if low <= at < high], 0.99), at_share(around(found, low, high), 0.99))
            for low, high in spans
        ]
        ratios = sorted(with_it / without for with_it, without in rounds)
        print(
            f"p99 of a round: {', '.join(f'{a * 1000:.2f}/{b * 1000:.2f}' for a, b in rounds)} ms; ratios "
            f"{ratios[0]:.2f} to {ratios[-1]:.2f}, median {median(ratios):.2f}",
            flush=True,
        )


def around(found: list[tuple[float, float]], low: float, high: float) -> list[float]:
    """What was sent up to two seconds before and after a span."""
    return [took for at, took in found if low - 2 <= at < low or high + 0.1 <= at < high + 2]


def at_share(found: list[float], share: float) -> float:
    """A quantile."""
    return sorted(found)[min(len(found) - 1, int(share * len(found)))]


def is_after(directory: Path, before: bytes) -> bool:
    """Whether there was a cleaning since."""
    return cleaned(directory) != before


def cleaned(directory: Path) -> bytes:
    """What the broker notes of cleanings: to ask it for metrics would take its time."""
    try:
        return (directory / "cleaner-offset-checkpoint").read_bytes()
    except FileNotFoundError:
        return b""


if __name__ == "__main__":
    main()
