"""
Measures the memory of the driver over many small batches of a windows job: it should be flat.

    python -m benchmarks.driver_memory --batches 1000 --samples samples.jsonl

Each batch has one record.  Every 250 batches it prints a row: of the driver's Python process the resident memory, of
its Java process the resident memory, what is live in the heap, and what is outside of it (classes and compiled code,
direct buffers), and of both the threads and open files.  At the end: the growth of each by batch, over the second half,
and the classes whose objects grew most.  ``--samples`` keeps each row as a line of JSON, with the largest classes.

With ``TMPDIR`` in memory, such as ``/dev/shm``, a batch takes a third of the time, since no sync of a file waits for a
disk.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field, fields, frozen
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from logbus.pipeline.jobs.event_stream import EventStream
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.outputs import ToTable
from logbus.pipeline.jobs.streaming_query import QuerySettings
from logbus.pipeline.jobs.windows import TumblingWindow, WindowsOptions, run
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.pipeline.session import session
from logbus.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COUNTS = 5
"""Of live objects for a sample, of which the least counts: a batch that is under way has up to 250 MB more."""

_BATCH = re.compile(r"batch (\d+):")

_KEPT_CLASSES = 200
"""Of the classes with the most bytes, kept with a sample."""

_LARGE_CLASS = 10_000
"""Bytes of all objects of a class whose growth is looked at."""

_SETTINGS = {
    "spark.driver.memory": "768m",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    # A machine that pauses for minutes does not end a run of an hour.
    "spark.network.timeout": "3600s",
    "spark.executor.heartbeatInterval": "600s",
}


@frozen
class Sample:
    """
    What the driver has after a batch.

    :ivar python_mb: resident in Python's process; ``python_blocks``: its allocated blocks, without garbage.
    :ivar java_mb: resident in Java's process; ``live_mb``: of reachable objects; ``non_heap_mb``: of classes and
        compiled code; ``direct_mb``: of direct and mapped buffers.
    """

    batch: int
    seconds: float
    python_mb: float
    python_blocks: int
    python_threads: int
    python_files: int
    java_mb: float
    live_mb: float
    non_heap_mb: float
    direct_mb: float
    java_threads: int
    java_files: int


@define
class Samples:
    """Takes samples as a job tells of its batches; ``kept``: a file for them."""

    spark: SparkSession
    every: int
    kept: Path | None = None
    taken: list[Sample] = field(factory=list)
    classes: list[Mapping[str, int]] = field(factory=list)
    began: float = field(factory=time.monotonic)

    def tell(self, line: str) -> None:
        """Take a sample after each so many batches."""
        found = _BATCH.match(line)
        if found is None or int(found[1]) % self.every:
            return
        histogram = min((live_objects(self.spark) for _ in range(_COUNTS)), key=lambda each: sum(each.values()))
        sample = self._sample(int(found[1]), sum(histogram.values()))
        if not self.taken:
            print(*(each.name for each in fields(Sample)), flush=True)
        print(*asdict(sample).values(), flush=True)
        self.taken.append(sample)
        # What is kept of each sample would be taken for growth of the driver: 20,000 blocks for whole histograms.
        self.classes.append({sys.intern(name): size for name, size in histogram.items() if size >= _LARGE_CLASS})
        if self.kept is not None:
            largest = sorted(histogram, key=histogram.__getitem__, reverse=True)[:_KEPT_CLASSES]
            with self.kept.open("a") as file:
                print(json.dumps(asdict(sample) | {"classes": {name: histogram[name] for name in largest}}), file=file)

    def _sample(self, batch: int, live: int) -> Sample:
        management: Any = self.spark._jvm.java.lang.management  # type: ignore[union-attr]
        pool: Any = self.spark._jvm.java.lang.Class.forName("java.lang.management.BufferPoolMXBean")  # type: ignore[union-attr]
        pools = management.ManagementFactory.getPlatformMXBeans(pool)
        java = _java(self.spark)
        # As of Java, only what is reachable.
        gc.collect()
        return Sample(
            batch=batch,
            seconds=round(time.monotonic() - self.began, 1),
            python_mb=_resident("self"),
            python_blocks=sys.getallocatedblocks(),
            python_threads=_entries("self", "task"),
            python_files=_entries("self", "fd"),
            java_mb=_resident(java),
            live_mb=_mb(live),
            non_heap_mb=_mb(management.ManagementFactory.getMemoryMXBean().getNonHeapMemoryUsage().getUsed()),
            direct_mb=_mb(sum(each.getMemoryUsed() for each in pools)),
            java_threads=_entries(java, "task"),
            java_files=_entries(java, "fd"),
        )


def _mb(size: int) -> float:
    return round(size / 1e6, 1)


def _resident(process: str) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return _mb(pages * 4096)


def _entries(process: str, kind: str) -> int:
    return sum(1 for _ in Path(f"/proc/{process}/{kind}").iterdir())


def _java(spark: SparkSession) -> str:
    process: Any = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    return str(process.pid)


def live_objects(spark: SparkSession) -> dict[str, int]:
    """
    Bytes of all objects of Java that are reachable, by class; by ``jcmd``, which is part of a JDK.

    ``System.gc()`` and the used heap say little: they differ by a hundred MB from one second to the next.
    """
    command = ["jcmd", _java(spark), "GC.class_histogram"]
    found: dict[str, int] = {}
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        match line.split():
            case [rank, _, size, name, *_] if rank.endswith(":") and size.isdigit():
                name = re.sub(r"0x[0-9a-f]+", "", name)  # Of hidden classes.
                found[name] = found.get(name, 0) + int(size)
    return found


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the line that fits best."""
    mean_x, mean_y = (sum(each) / len(points) for each in zip(*points, strict=True))
    covariance: float = math.fsum((x - mean_x) * (y - mean_y) for x, y in points)
    return covariance / math.fsum((x - mean_x) ** 2 for x, _ in points)


def _produce(bootstrap: str, records: int) -> None:
    """An event for each batch, over twenty days."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("events", 1, 1)])["events"].result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(records):
        at = f"2026-01-{1 + number * 20 // records:02}T{number % 24:02}:00:00Z"
        producer.produce("events", json.dumps({"user": number % 10, "at": at}))
    producer.flush()


def _print_growth(samples: Samples) -> None:
    """Growth over the second half of a run, by measure and by class."""
    half = samples.taken[len(samples.taken) // 2 :]
    if len(half) < 2:
        return
    for name in (each.name for each in fields(Sample) if each.name not in ("batch", "seconds")):
        by = slope([(each.batch, getattr(each, name)) for each in half])
        print(f"{name}: {1000 * by:.2f} per 1,000 batches, over the second half")
    before, after = samples.classes[-len(half)], samples.classes[-1]
    grown = {name: size - before.get(name, 0) for name, size in after.items()}
    for name in sorted(grown, key=grown.__getitem__, reverse=True)[:10]:
        print(f"{grown[name] / 1000:12.1f} kB more of {name}")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--every", type=int, default=250, help="batches between samples")
    parser.add_argument("--samples", type=Path, help="a file that gets each sample as a line of JSON")
    given = parser.parse_args()
    spark = session("driver memory", master="local[1]", settings=_SETTINGS, quiet=True)
    samples = Samples(spark, given.every, given.samples)
    # In a process of its own, as what a broker keeps for tests, its last requests, would count as the driver's.
    with Broker(in_process=False, controlled=False) as broker, tempfile.TemporaryDirectory() as directory:
        _produce(broker.bootstrap, given.batches)
        source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "events", "maxOffsetsPerTrigger": "1"}
        options = WindowsOptions(
            stream=EventStream(source=source, payload=JsonPayload(schema="user INT, at TIMESTAMP", event_time="at")),
            window=TumblingWindow("1 hour"),
            outputs=[ToTable(f"{directory}/table")],
            running=QuerySettings(f"{directory}/checkpoint"),
        )
        report = run(spark, options, JobControl(samples.tell))
    _print_growth(samples)
    print(json.dumps(report.as_json()))
    spark.stop()


if __name__ == "__main__":
    main()
