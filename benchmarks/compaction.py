"""
Measures compaction: processor time, its share of the reactor, and how much it delays other work.

    python benchmarks/compaction.py [--directory DIR] [--megabytes 100] [--value 100] [--keys 100000] [--codec none]
        [--each-key] [--batch 500] [--threads 1] [--logs 1]

A log of that size is written, synced and cleaned twice: the second time a tenth of it is new.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import cast

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.task import deferLater

from logbus.config.topic_config import TopicConfig
from logbus.interpreter import InterpreterBuild
from logbus.model import TopicPartition
from logbus.records.batch import encode_batch
from logbus.records.compression import codec_named
from logbus.records.record import Record
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.filesystem.disk import disks_at
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.storage.settings import CleanerSettings


class Lateness:
    """Measures how late a call comes that is scheduled every five milliseconds."""

    def __init__(self) -> None:
        self.seen: list[float] = []
        self.stopped = False
        self._next()

    def _next(self) -> None:
        due = time.perf_counter() + 0.005
        reactor.callLater(0.005, self._tick, due)

    def _tick(self, due: float) -> None:
        self.seen.append(time.perf_counter() - due)
        if not self.stopped:
            self._next()

    def at(self, share: float) -> float:
        return sorted(self.seen)[int(share * (len(self.seen) - 1))] * 1000


def keys(options: argparse.Namespace, rng: random.Random) -> Iterator[int]:
    """The numbers of the keys, without end: at random, or each once before any comes again."""
    if not options.each_key:
        while True:
            yield rng.randrange(options.keys)
    numbers = list(range(options.keys))
    while True:
        rng.shuffle(numbers)
        yield from numbers


def fill(log: Log, megabytes: float, options: argparse.Namespace, numbers: Iterator[int]) -> int:
    """Write so many megabytes; how many records it was."""
    target, written = log.size + megabytes * 1_000_000, 0
    value, codec = (
        os.urandom(options.value // 2) + bytes(options.value - options.value // 2),
        codec_named(options.codec),
    )
    while log.size < target:
        now_ms = int(time.time() * 1000)
        records = [Record(0, now_ms, b"key-%010d" % next(numbers), value) for _ in range(options.batch)]
        append_as_leader(log, encode_batch(records, codec=codec), 0)
        written += options.batch
    return written


async def clean(manager: LogManager, logs: list[Log], records: int) -> None:
    cleaner = manager.cleaner
    for log in logs:
        log.high_watermark = log.log_end_offset
        log.roll()
        await log.flush()
        await log.flusher.write_back_and_wait()
    before = cleaner.read_bytes, cleaner.written_bytes, cleaner.removed_records
    size, late = sum(log.size for log in logs), Lateness()
    cpu, mine, begun = time.process_time(), time.thread_time(), time.perf_counter()
    await cleaner.clean_all()
    cpu, mine, wall = time.process_time() - cpu, time.thread_time() - mine, time.perf_counter() - begun
    late.stopped = True
    read, written, removed = (
        after - was
        for after, was in zip((cleaner.read_bytes, cleaner.written_bytes, cleaner.removed_records), before, strict=True)
    )
    print(
        f"{records} records in {size / 1e6:.0f} MB: {wall:.1f} s, {cpu:.2f} s of processor ({100 * cpu / wall:.0f} %), "
        f"{mine:.2f} s of them the reactor's, "
        f"{cpu / size * 1e9:.1f} s a GB ({size / cpu / 1e6:.0f} MB/s a core), {records / cpu:.0f} records/s of "
        "processor;\n"
        f"    {removed} removed, {read / 1e6:.0f} MB read, {written / 1e6:.0f} MB written; the reactor's timers come "
        f"late by {late.at(0.5):.1f} ms (median), {late.at(0.99):.1f} ms (99 %), {late.at(1):.1f} ms (most)",
        flush=True,
    )


async def run(directory: str, options: argparse.Namespace) -> None:
    manager = LogManager(
        disks_at([directory], cast(IReactorFromThreads, reactor)),
        reactor,
        time.time,
        cleaner_settings=lambda: CleanerSettings(
            backoff_ms=1 << 40, dedupe_buffer_size=options.buffer << 20, threads=options.threads
        ),
    )
    await manager.open()
    manager.start_housekeeping()
    config = TopicConfig(
        cleanup_policy=frozenset({"compact"}), segment_bytes=64 * 1024 * 1024, min_cleanable_dirty_ratio=0.01
    )
    logs = [await manager.create(TopicPartition("compacted", n), None, config) for n in range(options.logs)]
    numbers = keys(options, random.Random(1))
    written = sum(fill(log, options.megabytes, options, numbers) for log in logs)
    await clean(manager, logs, written)
    kept = written - manager.cleaner.removed_records
    written = sum(fill(log, options.megabytes / 10, options, numbers) for log in logs)
    await clean(manager, logs, kept + written)
    await manager.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", help="where to write; default: a temporary directory")
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--value", type=int, default=100, help="bytes of a value")
    parser.add_argument("--keys", type=int, default=100_000, help="different ones")
    parser.add_argument("--each-key", action="store_true", help="write each once before any comes again")
    parser.add_argument("--codec", default="none")
    parser.add_argument("--buffer", type=int, default=128, help="megabytes for keys")
    parser.add_argument("--threads", type=int, default=1, help="log.cleaner.threads")
    parser.add_argument("--logs", type=int, default=1, help="how many, of that size each")
    parser.add_argument("--batch", type=int, default=500, help="records a batch")
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    directory = tempfile.mkdtemp(prefix="logbus-compaction-", dir=options.directory)
    status: list[int] = []

    def finish(result: object) -> None:
        if result is not None:
            print(result, file=sys.stderr)
            status.append(1)
        reactor.stop()

    def start() -> Deferred[None]:
        return deferLater(reactor, 0, lambda: Deferred.fromCoroutine(run(directory, options))).addBoth(finish)

    try:
        reactor.callWhenRunning(start)
        reactor.run()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    sys.exit(bool(status))


if __name__ == "__main__":
    main()
