"""
Measures storage: appends, reads, flushes, transactions, recovery, and ten thousand logs.

    python benchmarks/storage.py [--directory DIR] [--logs 10000]

CPU is that of the process, per operation. Rates move with the machine; compare the figures of one run.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from logbus.config.topic_config import TopicConfig
from logbus.interpreter import InterpreterBuild
from logbus.model import TopicPartition
from logbus.records.batch import BatchBuilder, ControlType, Marker, encode_batch
from logbus.records.record import Record
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.appends.append_marker import append_marker
from logbus.storage.filesystem.disk import Disk, disks_at
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.storage.offset_lookup import offset_for_timestamp
from logbus.storage.producers.producer_snapshot import decode_snapshot, encode_snapshot
from logbus.storage.settings import StorageSettings

NOW_MS = int(time.time() * 1000)
QUIET = StorageSettings(write_back_bytes=1 << 62)


def say(name: str, figure: str) -> None:
    print(f"{name:58} {figure}", flush=True)


def batch(record_size: int, count: int = 1, **header: Any) -> bytes:
    return encode_batch([Record(i, NOW_MS, None, os.urandom(record_size), ()) for i in range(count)], **header)


def cpu_us(work: Callable[[], object], count: int) -> float:
    """CPU per call in µs: the best of five runs."""
    best = 1e9
    for _ in range(5):
        begun = time.process_time()
        for _ in range(count // 5):
            work()
        best = min(best, (time.process_time() - begun) / (count // 5))
    return best * 1e6


def resident_kb() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def part(directory: str, name: str) -> str:
    """A directory of its own for each group of figures."""
    path = f"{directory}/{name}"
    os.makedirs(path)
    return path


def a_log(directory: str, name: str, **settings: Any) -> Log:
    disk = Disk(directory, reactor)
    disk.make_directory(name)
    log = Log(
        TopicPartition(name.rpartition("-")[0], 0),
        disk,
        name,
        wall_clock=time.time,
        jitter=random.Random(1),
        settings=QUIET,
        config=TopicConfig(**settings),
    )
    log.create()
    return log


def hot_path(directory: str) -> None:
    log = a_log(directory, "hot-0", max_message_bytes=1 << 22)
    small = memoryview(bytearray(batch(30)))
    say(
        f"append a batch of {len(small)} bytes",
        f"{cpu_us(lambda: append_as_leader(log, small, 0, NOW_MS), 50_000):8.2f} µs",
    )
    fd = os.open(f"{directory}/raw", os.O_RDWR | os.O_CREAT)
    place = iter(range(0, 1 << 40, len(small)))
    say("  of which the write itself", f"{cpu_us(lambda: os.pwrite(fd, small, next(place)), 50_000):8.2f} µs")
    last = log.log_end_offset - 1
    say("read at the end", f"{cpu_us(lambda: log.read(last, 1 << 20), 50_000):8.2f} µs")
    say("read at the end, bounded", f"{cpu_us(lambda: log.read(last - 50, 1 << 20, last - 5), 50_000):8.2f} µs")
    rng = random.Random(1)
    say(
        "read anywhere in the active segment",
        f"{cpu_us(lambda: log.read(rng.randrange(last), 1 << 20), 10_000):8.2f} µs",
    )
    log.roll()
    append_as_leader(log, small, 0, NOW_MS)
    say(
        "read anywhere in an older segment", f"{cpu_us(lambda: log.read(rng.randrange(last), 1 << 20), 10_000):8.2f} µs"
    )
    say("offset for a timestamp", f"{cpu_us(lambda: list(offset_for_timestamp(log, NOW_MS)), 5_000):8.2f} µs")
    sequence = iter(range(1 << 30))

    def idempotent() -> None:
        append_as_leader(log, batches[next(sequence)], 0, NOW_MS)

    batches = [batch(30, producer_id=5, producer_epoch=0, base_sequence=i) for i in range(50_000)]
    say("append from an idempotent producer", f"{cpu_us(idempotent, 50_000):8.2f} µs")
    for size in (16, 1024):
        large = batch(size * 1024)
        us = cpu_us(lambda large=large: append_as_leader(log, large, 0, NOW_MS), 2000)  # type: ignore[misc]
        place = iter(range(0, 1 << 40, len(large)))
        raw = cpu_us(lambda large=large, place=place: os.pwrite(fd, large, next(place)), 2000)  # type: ignore[misc]
        say(
            f"append a batch of {size} KB", f"{us:8.1f} µs, {len(large) / us / 1000:.2f} GB/s; write alone {raw:.1f} µs"
        )
    os.close(fd)
    os.unlink(f"{directory}/raw")


def transactions(directory: str, open_count: int = 10_000) -> None:
    """Batches of transactions beside others, and what it costs that very many are open."""
    builder = BatchBuilder()
    builder.append(NOW_MS, None, os.urandom(30))
    plain = builder.build()
    log = a_log(directory, "plain-0")
    say("append a batch of no producer", f"{cpu_us(lambda: append_as_leader(log, plain, 0, NOW_MS), 50_000):8.2f} µs")
    for name, transactional in (("of an idempotent producer", False), ("of a transaction", True)):
        own = [
            builder.build(producer_id=5, producer_epoch=0, base_sequence=i, transactional=transactional)
            for i in range(50_000)
        ]
        one, turn = a_log(directory, f"one-{int(transactional)}"), iter(own)
        us = cpu_us(lambda one=one, turn=turn: append_as_leader(one, next(turn), 0, NOW_MS), 50_000)  # type: ignore[misc]
        say(f"append a batch {name}", f"{us:8.2f} µs")

    log, ids = a_log(directory, "open-0"), iter(range(open_count))
    first = [
        builder.build(producer_id=i, producer_epoch=0, base_sequence=0, transactional=True) for i in range(open_count)
    ]
    us = cpu_us(lambda: append_as_leader(log, first[next(ids)], 0, NOW_MS), open_count)
    say(f"begin {open_count} transactions", f"{us:8.2f} µs each")
    say("last stable offset", f"{cpu_us(lambda: log.last_stable_offset(log.log_end_offset), 50_000):8.2f} µs")
    data = encode_snapshot(log.producers)
    say("write a snapshot of these producers", f"{cpu_us(lambda: encode_snapshot(log.producers), 10) / 1000:8.2f} ms")
    say("  and read it", f"{cpu_us(lambda: decode_snapshot(data, 1), 10) / 1000:8.2f} ms")
    ids = iter(range(open_count))

    def abort() -> None:
        append_marker(log, next(ids), 0, Marker(ControlType.ABORT, 0), 0, NOW_MS)

    say("abort them", f"{cpu_us(abort, open_count):8.2f} µs each")
    end = log.log_end_offset
    say("aborted transactions at the log's end", f"{cpu_us(lambda: log.aborted_transactions(end, end), 5000):8.2f} µs")
    log.roll()
    us = cpu_us(lambda: log.aborted_transactions(end - 10, end), 5000)
    say("aborted transactions of ten offsets in a file of 10,000", f"{us:8.2f} µs")


async def flushes(directory: str) -> None:
    log = a_log(directory, "flush-0")
    data = batch(100)
    times = []
    for _ in range(200):
        append_as_leader(log, data, 0, NOW_MS)
        begun = time.perf_counter()
        await log.flush()
        times.append(time.perf_counter() - begun)
    times.sort()
    fd = os.open(f"{directory}/raw", os.O_RDWR | os.O_CREAT)
    raw = []
    for i in range(200):
        os.pwrite(fd, data, i * len(data))
        begun = time.perf_counter()
        os.fdatasync(fd)
        raw.append(time.perf_counter() - begun)
    os.close(fd)
    os.unlink(f"{directory}/raw")
    raw.sort()
    say("flush, median and p99", f"{times[100] * 1e3:8.2f} ms {times[198] * 1e3:.2f} ms")
    say("  fdatasync alone", f"{raw[100] * 1e3:8.2f} ms {raw[198] * 1e3:.2f} ms")


def manager(directory: str) -> LogManager:
    return LogManager(disks_at([directory], reactor), reactor, time.time, settings=QUIET)


async def recovery(directory: str) -> None:
    for size, count, total in ((100, 1, 64), (1000, 1, 256), (1000, 16, 1024), (1000, 1000, 2048)):
        logs = manager(directory)
        await logs.open()
        log = await logs.create(TopicPartition("lost", 0))
        log.config = TopicConfig(max_message_bytes=1 << 22)
        data = batch(size, count)
        while log.size < total << 20:
            append_as_leader(log, data, 0, NOW_MS)
        end = log.log_end_offset
        for disk in logs.disks:
            await disk.close()
        begun, cpu = time.perf_counter(), time.process_time()
        logs = manager(directory)
        await logs.open()
        took, cpu = time.perf_counter() - begun, time.process_time() - cpu
        again = logs.get(TopicPartition("lost", 0))
        assert again is not None and again.log_end_offset == end
        say(
            f"recover {total} MB in batches of {len(data)} bytes",
            f"{again.size / took / 1e9:8.2f} GB/s, {cpu / again.size * 1e9:.2f} CPU s/GB",
        )
        await logs.delete(TopicPartition("lost", 0))
        for disk in logs.disks:
            await disk.close()
        for name in os.listdir(directory):
            if name.startswith("lost"):
                shutil.rmtree(f"{directory}/{name}")


async def many(directory: str, count: int) -> None:
    logs = manager(directory)
    await logs.open()
    begun = time.perf_counter()
    data = batch(100)
    for i in range(count):
        log = await logs.create(TopicPartition("many", i))
        append_as_leader(log, data, 0, NOW_MS)
    say(f"create {count} logs, one record each", f"{(time.perf_counter() - begun) / count * 1e6:8.0f} µs each")
    begun = time.perf_counter()
    await logs.close()
    say(f"close them cleanly, all dirty: {count} syncs", f"{time.perf_counter() - begun:8.2f} s")
    await reopened(directory, count)
    crashed = manager(directory)
    await crashed.open()
    for disk in crashed.disks:
        await disk.close()
    begun = time.perf_counter()
    logs = manager(directory)
    await logs.open()
    say(f"open {count} logs after a kill", f"{time.perf_counter() - begun:8.2f} s")
    begun = time.perf_counter()
    await logs.close()
    say(f"close {count} idle logs", f"{time.perf_counter() - begun:8.2f} s")


async def reopened(directory: str, count: int) -> None:
    """In a process of its own: what ten thousand logs weigh."""
    pid = os.spawnv(  # noqa: ASYNC220
        os.P_NOWAIT, sys.executable, [sys.executable, __file__, "--directory", directory, "--open-only"]
    )
    while os.waitpid(pid, os.WNOHANG) == (0, 0):  # noqa: ASYNC222
        await deferLater(reactor, 0.05, int)


async def open_only(directory: str) -> None:
    before = resident_kb()
    begun, cpu = time.perf_counter(), time.process_time()
    logs = manager(directory)
    await logs.open()
    took, cpu = time.perf_counter() - begun, time.process_time() - cpu
    count = len(logs)
    say(f"open {count} logs after a clean stop", f"{took:8.2f} s ({cpu:.2f} s CPU)")
    say("  memory of an idle log", f"{(resident_kb() - before) / count:8.2f} KB")
    logs.start_housekeeping()
    begun = time.process_time()
    logs.housekeeping.check_retention()
    for _ in range(count // 500 + 2):
        await deferLater(reactor, 0, int)
    logs.housekeeping.checkpoint()
    say("  a round of retention and checkpoints", f"{(time.process_time() - begun) * 1e3:8.1f} ms of CPU")
    data, each = batch(100), list(logs)
    begun = time.process_time()
    for log in each:
        append_as_leader(log, data, 0, NOW_MS)
    say("  first append to each", f"{(time.process_time() - begun) / count * 1e6:8.1f} µs")
    begun = time.process_time()
    for log in each:
        append_as_leader(log, data, 0, NOW_MS)
    say("  second append to each", f"{(time.process_time() - begun) / count * 1e6:8.1f} µs")
    say("  memory of a log written to", f"{(resident_kb() - before) / count:8.2f} KB, {len(logs.files)} files open")
    await logs.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", help="where to put the logs; a new one below the temporary directory by default")
    parser.add_argument("--logs", type=int, default=10_000)
    parser.add_argument("--open-only", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    directory = options.directory or tempfile.mkdtemp(prefix="logbus-storage-")

    async def run() -> None:
        if options.open_only:
            await open_only(directory)
            return
        await flushes(part(directory, "flush"))
        hot_path(part(directory, "hot"))
        transactions(part(directory, "transactions"))
        await recovery(part(directory, "recovery"))
        await many(part(directory, "many"), options.logs)

    def ended(result: object) -> None:
        if result is not None:
            print(result)
        reactor.stop()

    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(run()).addBoth(ended))
    reactor.run()
    if not options.directory:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
