"""
Measures the load job, beside Spark writing the same rows from memory.

``plain`` writes the rows, which Spark has cached, with the same columns to directories of the same shape: no load can
be faster. ``read`` reads the topic and does nothing with it. ``load`` reads, writes, checks and commits. They come by
turns in one run; the median counts.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from logbus.interpreter import InterpreterBuild
from logbus.pipeline.jobs.load import LoadOptions, run
from logbus.pipeline.lake.parquet import parquet_settings
from logbus.pipeline.payloads.payload import JsonPayload, Payload, RawPayload
from logbus.pipeline.session import session
from logbus.testing import Broker

TOPIC = "events"
PARTITIONS = 4
HOURS = 2
SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def fill(bootstrap: str, count: int, size: int) -> None:
    """Records with values of about ``size`` bytes, which are JSON, over two hours."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # Their times are long ago.
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})])[TOPIC].result(60)
    random = Random(1)
    words = [random.randbytes(4).hex() for _ in range(1000)]
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 256 << 10, "compression.type": "lz4"}
    )
    for number in range(count):
        text = "".join(random.choices(words, k=max(1, (size - 40) // 8)))
        while True:
            try:
                producer.produce(
                    TOPIC,
                    b'{"user": "u%06d", "n": %d, "text": "%s"}' % (number % 10**6, number, text.encode()),
                    b"key-%06d" % (number % 997),
                    number % PARTITIONS,
                    timestamp=1_700_002_800_000 + number * HOURS * 3_600_000 // count,
                )
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(120) == 0


def measured(work: Callable[[], object]) -> float:
    """Seconds."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def compare(bootstrap: str, payload: Payload, count: int, batch: int, rounds: int, master: str) -> None:
    """Print the rates of one payload."""
    spark = session("load", master=master, settings=SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    source = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC}
    place = Path(tempfile.mkdtemp(prefix="logbus-load-"))

    def load(table: str) -> None:
        report = run(spark, LoadOptions(source=source, table=table, payload=payload, batch_offsets=batch))
        assert report.records == count, report

    def topic() -> Any:
        return spark.read.format("logbus").options(**source).load()

    try:
        load(str(place / "first"))
        with parquet_settings(spark):
            rows = spark.read.option("mergeSchema", "true").parquet(str(place / "first")).cache()
            assert rows.count() == count
            seconds: dict[str, list[float]] = {"plain": [], "read": [], "load": []}
            for number in range(rounds):
                plain = rows.write.partitionBy("date", "hour")
                seconds["plain"].append(measured(lambda plain=plain: plain.parquet(str(place / "plain"))))  # type: ignore[misc]
                seconds["read"].append(measured(topic().write.format("noop").mode("append").save))
                seconds["load"].append(measured(lambda number=number: load(str(place / f"load-{number}"))))  # type: ignore[misc]
                shutil.rmtree(place / "plain")
    finally:
        shutil.rmtree(place)
    best = count / median(seconds["plain"])
    for name, took in seconds.items():
        rate = count / median(took)
        print(f"{type(payload).__name__:12} {name:6} {rate / 1000:8.0f} k/s {rate / best:6.2f} of plain")


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value, about")
    parser.add_argument("--batch", type=int, default=1_000_000, help="offsets of a commit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--master", default="local[2]")
    asked = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    with Broker(in_process=False, controlled=False) as broker:
        fill(broker.bootstrap, asked.count, asked.size)
        for payload in (RawPayload(), JsonPayload(schema="user STRING, n INT, text STRING")):
            compare(broker.bootstrap, payload, asked.count, asked.batch, asked.rounds, asked.master)


if __name__ == "__main__":
    main()
