"""
Measures the memory of the driver over many small batches of a windows job: it should be flat.

    python -m benchmarks.driver_memory --batches 1000

Each batch has one record.  From time to time it prints the resident memory of the driver's Python process, and what is
live in the heap of its Java process; at the end the growth of both by batch, over the second half.  With ``TMPDIR`` in
memory, such as ``/dev/shm``, a batch takes a third of the time, since no sync of a file waits for a disk.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define, field
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

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


@define
class Samples:
    """Memory by batch: resident MB of Python, and MB of the live objects of Java."""

    spark: SparkSession
    every: int
    taken: list[tuple[int, float, float]] = field(factory=list)

    def tell(self, line: str) -> None:
        """Take a sample after each so many batches."""
        found = _BATCH.match(line)
        if found is None or int(found[1]) % self.every:
            return
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        live = min(live_bytes(self.spark) for _ in range(_COUNTS))
        self.taken.append((int(found[1]), pages * 4096 / 1e6, live / 1e6))
        print("batch {:5}: Python {:.1f} MB, live in Java {:.1f} MB".format(*self.taken[-1]), flush=True)


def live_bytes(spark: SparkSession) -> int:
    """
    Bytes of all objects of Java that are reachable; by ``jcmd``, which is part of a JDK.

    ``System.gc()`` and the used heap say little: they differ by a hundred MB from one second to the next.
    """
    process: Any = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    command = ["jcmd", str(process.pid), "GC.class_histogram"]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the line that fits best."""
    mean_x, mean_y = (sum(each) / len(points) for each in zip(*points, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=1000)
    batches = parser.parse_args().batches
    settings = {"spark.driver.memory": "768m", "spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false"}
    spark = session("driver memory", master="local[1]", settings=settings, quiet=True)
    samples = Samples(spark, max(1, batches // 20))
    with Broker() as broker, tempfile.TemporaryDirectory() as directory:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("events", 1, 1)])["events"].result()
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(batches):
            at = f"2026-01-{1 + number * 20 // batches:02}T{number % 24:02}:00:00Z"
            producer.produce("events", json.dumps({"user": number % 10, "at": at}))
        producer.flush()
        source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "events", "maxOffsetsPerTrigger": "1"}
        options = WindowsOptions(
            stream=EventStream(source=source, payload=JsonPayload(schema="user INT, at TIMESTAMP", event_time="at")),
            window=TumblingWindow("1 hour"),
            outputs=[ToTable(f"{directory}/table")],
            running=QuerySettings(f"{directory}/checkpoint"),
        )
        report = run(spark, options, JobControl(samples.tell))
    half = samples.taken[len(samples.taken) // 2 :]
    for name, at in (("Python", 1), ("Java", 2)):
        print(f"{name}: {1000 * slope([(each[0], each[at]) for each in half]):.2f} kB a batch")
    print(json.dumps(report.as_json()))
    spark.stop()


if __name__ == "__main__":
    main()
