"""
Measures small requests beside a consumer of old data that is not in the page cache::

    python -m benchmarks.cold_reads [--seconds 5] [--gigabytes 1] [--cgroup DIRECTORY]

One connection produces single records as fast as they are answered: alone, beside a consumer that reads a log from its
beginning out of the page cache, beside one whose log was dropped from the cache, which is checked, and beside a client
that looks up offsets by time, and fetches from random offsets, in another log of small batches, which is dropped from
the cache each time.  Prints latency of the small requests, the consumer's rate or the number of look-ups, and the
broker's CPU.

A fast disk hides what this is about.  With ``--cgroup`` the broker is put into a cgroup that limits what it reads::

    mkdir /sys/fs/cgroup/blkio/slow
    echo "254:0 20971520" > /sys/fs/cgroup/blkio/slow/blkio.throttle.read_bps_device
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import struct
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from random import Random
from typing import Any

import attrs

from benchmarks.compare import wire
from benchmarks.compare.process_cost import cost
from benchmarks.compare.systems import Logbus, Running, start
from logbus.interpreter import InterpreterBuild
from logbus.records.batch import Record, encode_batch
from logbus.records.file_slice import joined
from logbus.wire.connection import ClientConnection
from logbus.wire.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

RECORDS, SIZE = 1000, 1000
"""Of a batch of the log that is consumed."""
SMALL = 100
SPARSE, FEW = "sparse", 10
"""The log of the look-ups, and the records of a batch there."""
FIRST_TIME = 1_700_000_000_000
"""The timestamp of its first batch; each has one millisecond more."""


def receive(sock: socket.socket, buffer: bytearray) -> int:
    """One whole answer into ``buffer``; its length."""
    view = memoryview(buffer)
    need, have = 4, 0
    while have < need:
        count = sock.recv_into(view[have:])
        if not count:
            raise ConnectionError("the broker closed the connection")
        have += count
        if have >= 4:
            need = 4 + int(struct.unpack_from(">i", buffer)[0])
    return need


def consume(port: int, topic: str, batches: int, stop: Event, read: Any) -> None:
    """A process that fetches a log batch by batch, over and over; counts its bytes in ``read``."""
    frame = wire.fetch_request(topic, [0])
    request, buffer = bytearray(frame.data), bytearray(2 << 20)
    with socket.create_connection(("127.0.0.1", port)) as sock:
        for number in range(10**9):
            if stop.is_set():
                return
            struct.pack_into(">q", request, frame.entries_at + 8, number % batches * RECORDS)
            sock.sendall(request)
            size = receive(sock, buffer)
            if size < RECORDS * SIZE:
                raise RuntimeError(f"batch {number} came with {size} bytes: the broker refused")
            read.value += size


def look_up(port: int, directory: Path, batches: int, stop: Event, done: Any) -> None:
    """A process that looks for records in a cold log; counts the look-ups in ``done``."""
    client, random = ClientConnection("bench"), Random(1)
    with socket.create_connection(("127.0.0.1", port)) as sock, sock.makefile("rb") as stream:

        def ask(message: Any, version: int) -> Any:
            evict(directory, SPARSE)
            sock.sendall(joined(client.request(message, version)[1]))
            (size,) = struct.unpack(">i", stream.read(4))
            done.value += 1
            return client.receive(stream.read(size))[1]

        while not stop.is_set():
            number = random.randrange(batches)
            by_time = ListOffsetsPartition(partition_index=0, timestamp=FIRST_TIME + number)
            found = ask(ListOffsetsRequest(topics=[ListOffsetsTopic(name=SPARSE, partitions=[by_time])]), 5)
            if found.topics[0].partitions[0].offset != number * FEW:
                raise RuntimeError(f"not the batch {number}: {found}")
            wanted = FetchPartition(partition=0, fetch_offset=random.randrange(batches) * FEW, partition_max_bytes=100)
            topics = [FetchTopic(topic=SPARSE, partitions=[wanted])]
            fetched = ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 11)
            if fetched.responses[0].partitions[0].error_code:
                raise RuntimeError(f"the fetch failed: {fetched}")


def evict(directory: Path, topic: str, sync: bool = False) -> None:
    """
    Drop a log from the page cache.

    :param sync: write it first.
    :raises RuntimeError: it is still there.
    """
    if sync:
        os.sync()
    for path in directory.glob(f"**/{topic}-0/*"):
        fd = os.open(path, os.O_RDWR)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            middle = os.fstat(fd).st_size // 2
            if sync and middle > SIZE * RECORDS:
                try:
                    os.preadv(fd, [bytearray(1)], middle, os.RWF_NOWAIT)
                except BlockingIOError:
                    continue
                raise RuntimeError(f"{path} stays in the page cache: nothing cold to measure")
        finally:
            os.close(fd)


@attrs.frozen
class Row:
    """The figures of one situation."""

    name: str
    latencies: list[float]
    consumed: int
    seconds: float
    cpu: float
    look_ups: int = 0

    def __str__(self) -> str:
        ordered = sorted(self.latencies)
        points = [ordered[min(len(ordered) - 1, int(len(ordered) * q))] * 1e3 for q in (0.5, 0.99, 0.999, 1)]
        p50, p99, p999, longest = points
        text = f"{self.name:<14} p50 {p50:6.2f}  p99 {p99:6.2f}  p99.9 {p999:6.2f}  longest {longest:7.2f} ms"
        text += f"  {len(ordered) / self.seconds:7,.0f} requests/s"
        if self.consumed:
            text += f"  {self.consumed / self.seconds / 1e6:6.0f} MB/s consumed"
        if self.look_ups:
            text += f"  {self.look_ups / self.seconds:6.0f} look-ups/s"
        return text + f"  {self.cpu / self.seconds:.0%} CPU"


def measure(name: str, broker: Running, seconds: float, target: Any = None, *arguments: Any) -> Row:
    """Small produces for a while, beside a process or alone."""
    stop, read = multiprocessing.Event(), multiprocessing.Value("q", 0)
    process = None
    if target is not None:
        process = multiprocessing.Process(target=target, args=(broker.port, *arguments, stop, read), daemon=True)
        process.start()
        while not read.value and process.is_alive():
            time.sleep(0.001)
    request = wire.produce_request("small", {0: wire.record_batch(1, SMALL)}, 1)
    latencies, buffer = [], bytearray(4096)
    before, consumed = cost(broker.pid).cpu, read.value
    with socket.create_connection(("127.0.0.1", broker.port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = now = time.perf_counter()
        while now - began < seconds:
            sock.sendall(request)
            receive(sock, buffer)
            later = time.perf_counter()
            latencies.append(later - now)
            now = later
    done, cpu = read.value - consumed, cost(broker.pid).cpu - before
    row = Row(name, latencies, done if target is consume else 0, now - began, cpu, done if target is look_up else 0)
    stop.set()
    if process is not None:
        process.join(60)
        if process.exitcode:
            raise RuntimeError("the consumer failed")
    return row


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each situation")
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the log that is consumed")
    parser.add_argument("--cgroup", type=Path, help="a cgroup for the broker, with the limit of a slow disk")
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR"), prefix="logbus-cold-") as name:
        directory = Path(name)
        broker = start(Logbus(), directory / "broker")
        try:
            if options.cgroup is not None:
                (options.cgroup / "cgroup.procs").write_text(str(broker.pid))
            for topic in ("old", "small", SPARSE):
                broker.admin.create_topic(topic, 1, {})
            batches = max(2, int(options.gigabytes * 1e9 / RECORDS / SIZE))
            request = wire.produce_request("old", {0: wire.record_batch(RECORDS, SIZE)}, 1)
            with socket.create_connection(("127.0.0.1", broker.port)) as sock:
                for _ in range(batches):
                    sock.sendall(request)
                    receive(sock, bytearray(4096))
                sparse = batches * RECORDS // FEW // 10
                for number in range(sparse):
                    records = [Record(n, FIRST_TIME + number, None, bytes(SIZE), ()) for n in range(FEW)]
                    batch = wire.Batch(encode_batch(records), FEW)
                    sock.sendall(wire.produce_request(SPARSE, {0: batch}, 1))
                    receive(sock, bytearray(4096))
            os.sync()
            print(measure("alone", broker, options.seconds), flush=True)
            print(measure("hot consumer", broker, options.seconds, consume, "old", batches), flush=True)
            evict(directory, "old", True)
            print(measure("cold consumer", broker, options.seconds, consume, "old", batches), flush=True)
            evict(directory, SPARSE, True)
            print(measure("cold look-ups", broker, options.seconds, look_up, directory, sparse), flush=True)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
