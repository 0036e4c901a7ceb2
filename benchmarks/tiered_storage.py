"""
Measures a consumer of records that only remote storage has, beside the store's own sequential rate::

    python -m benchmarks.tiered_storage [--megabytes 512] [--uri s3://bucket/empty --options JSON]

Fills a topic, waits until its segments are in the store and off the disk, and reads it from its beginning, 4 MB a
fetch, without looking at records. Beside it, the same objects are read from the store, one after the other, 4 MB at a
time, as one reader of the store would; and the same records from a local topic, dropped from the page cache and then
from there, which is the most that this consumer reaches. A store in a directory is dropped from the page cache before
each read of it.
Without ``--uri`` the store is a temporary directory.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from attrs import frozen

from benchmarks.cold_reads import receive
from benchmarks.compare import wire
from benchmarks.compare.process_cost import cost
from benchmarks.compare.systems import Logbus, start
from logbus.interpreter import InterpreterBuild
from logbus.records.batch import iter_batches
from logbus.records.file_slice import joined
from logbus.storage.remote.fsspec_storage import FsspecStorage
from logbus.testing.waiting import wait_until
from logbus.wire.connection import ClientConnection
from logbus.wire.messages.records import FetchPartition, FetchRequest, FetchTopic

RECORDS, SIZE = 100, 1000
"""Of a batch."""
FETCH = 4 << 20
TOPIC, LOCAL = "old", "local"


def consume(port: int, topic: str, end: int) -> int:
    """Read the topic up to an offset, into the same memory again and again; its bytes."""
    client, offset, total = ClientConnection("bench"), 0, 0
    buffer = bytearray(2 * FETCH)
    with socket.create_connection(("127.0.0.1", port)) as sock:
        while offset < end:
            wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=FETCH)
            topics = [FetchTopic(topic=topic, partitions=[wanted])]
            request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=2 * FETCH, topics=topics)
            sock.sendall(joined(client.request(request, 11)[1]))
            size = receive(sock, buffer)
            _, answer = client.receive(memoryview(buffer)[4:size])
            found = answer.responses[0].partitions[0]
            if found.error_code:
                raise RuntimeError(f"offset {offset}: error {found.error_code}")
            total += len(found.records)
            for _, header in iter_batches(found.records):
                offset = header.next_offset
    return total


def read_store(store: FsspecStorage, names: list[str]) -> int:
    """Read objects one after the other; their bytes."""
    total = 0
    for name in names:
        start = 0
        while data := store.read(name, start, start + FETCH):
            start += len(data)
            if len(data) < FETCH:
                break
        total += start
    return total


def evict(directory: Path | None) -> None:
    """Drop a store in a directory from the page cache."""
    os.sync()
    for path in directory.rglob("*.log") if directory is not None else ():
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


@frozen
class Rate:
    """Megabytes a second, and seconds of CPU a gigabyte of the broker and of this process."""

    rate: float
    broker: float
    own: float

    @classmethod
    def of(cls, pid: int, read: Callable[[], int]) -> Rate:
        """Measure something that returns how many bytes it has read."""
        broker, own, begun = cost(pid).cpu, time.process_time(), time.perf_counter()
        size = read()
        seconds = time.perf_counter() - begun
        return cls(
            size / 1e6 / seconds, (cost(pid).cpu - broker) / size * 1e9, (time.process_time() - own) / size * 1e9
        )

    def __str__(self) -> str:
        return f"{self.rate:5.0f} MB/s (CPU s/GB: broker {self.broker:.2f}, client {self.own:.2f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--uri", help="of an empty store; a temporary directory by default")
    parser.add_argument("--options", type=json.loads, default={}, help="of the store: a JSON object")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR"), prefix="logbus-tiered-") as name:
        directory = None if options.uri else Path(name) / "store"
        uri = options.uri or f"file://{directory}"
        config = {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.uri": uri,
            "remote.log.storage.options": json.dumps(options.options),
            "remote.log.manager.task.interval.ms": "2000",
            "remote.log.metadata.topic.num.partitions": "1",
            "log.retention.check.interval.ms": "2000",
            "log.flush.offset.checkpoint.interval.ms": "1000",
        }
        broker = start(Logbus(settings=config), Path(name) / "broker", synced=False)
        try:
            tiered = {"remote.storage.enable": "true", "segment.bytes": str(64 << 20), "local.retention.bytes": "1"}
            broker.admin.create_topic(TOPIC, 1, tiered)
            broker.admin.create_topic(LOCAL, 1, {})
            batches = options.megabytes * 1_000_000 // (RECORDS * SIZE)
            with socket.create_connection(("127.0.0.1", broker.port)) as sock:
                for topic in (TOPIC, LOCAL):
                    request = wire.produce_request(topic, {0: wire.record_batch(RECORDS, SIZE)}, 1)
                    for _ in range(batches):
                        sock.sendall(request)
                        receive(sock, bytearray(4096))
            data = Path(name) / "broker" / "data"
            logs = data / f"{TOPIC}-0"
            wait_until(lambda: len(list(logs.glob("*.log"))) == 1, "local segments to go", 300)
            end = min(int(path.stem) for path in logs.glob("*.log"))
            store = FsspecStorage.open(uri, options.options)
            prefix = next(iter(sorted({each for each in store.names("") if each.startswith(f"{TOPIC}-0-")})))
            names = sorted(f"{prefix}/{each}" for each in store.names(prefix) if each.endswith(".log"))
            shares = []
            for _ in range(options.rounds):
                evict(directory)
                own = Rate.of(broker.pid, lambda: read_store(store, names))
                evict(directory)
                through = Rate.of(broker.pid, lambda: consume(broker.port, TOPIC, end))
                evict(data / f"{LOCAL}-0")
                cold = Rate.of(broker.pid, lambda: consume(broker.port, LOCAL, end))
                local = Rate.of(broker.pid, lambda: consume(broker.port, LOCAL, end))
                shares.append(through.rate / own.rate)
                print(
                    f"the store alone {own}   a consumer {through} ({shares[-1]:.0%})\n"
                    f"of a local topic, cold {cold}   cached {local}",
                    flush=True,
                )
            print(f"median share {sorted(shares)[len(shares) // 2]:.0%}", flush=True)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
