"""
Measures the sink: how fast Spark's rows become records.

``alone`` is what a task does, without Spark: Arrow batches that are there already to a broker, in one process.
``confluent`` is a plain confluent-kafka producer with the same records and settings, in one process, too. With
``--masters``, the same rows are written by Spark, at least once and exactly once, beside ``noop``, which takes them in
and does nothing: by turns in one run; the median counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from random import Random
from statistics import median
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AdminClient, NewTopic

from logbus.interpreter import InterpreterBuild
from logbus.pipeline.session import session
from logbus.pipeline.sink import options as sink_options
from logbus.pipeline.sink.columns import SinkColumns
from logbus.pipeline.sink.exactly_once import BatchIdentity
from logbus.pipeline.sink.writers import write_task
from logbus.testing import Broker

PARTITIONS = 4
BATCH = 10_000
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def records(count: int, size: int) -> tuple[list[bytes], list[bytes]]:
    """Keys and values of ``count`` records."""
    random = Random(1)
    words = [random.randbytes(4).hex().encode() for _ in range(1000)]
    values = [b"".join(random.choices(words, k=max(1, size // 8)))[:size] for _ in range(count)]
    return [b"key-%06d" % random.randrange(10**6) for _ in range(count)], values


def alone(bootstrap: str, topic: str, codec: str, batches: list[Any]) -> None:
    """The work of one task."""
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "kafka.compression.type": codec}
    written = write_task(
        sink_options.read_sink_options(given, streaming=False),
        SinkColumns(key=True),
        BatchIdentity("benchmark", None),
        batches,
    )
    assert written.outcome.rows == sum(each.num_rows for each in batches)


def confluent(bootstrap: str, topic: str, codec: str, keys: list[bytes], values: list[bytes], times: int) -> None:
    """The same records by another client."""
    producer = ConfluentProducer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "compression.type": codec,
            "partitioner": "murmur2_random",
            "batch.size": 256 << 10,
            "batch.num.messages": 10_000,
            "linger.ms": 20,
            "queue.buffering.max.messages": 200_000,
        }
    )
    for _ in range(times):
        for key, value in zip(keys, values, strict=True):
            while True:
                try:
                    producer.produce(topic, value, key)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
    assert producer.flush(60) == 0


def rate(rows: int, call: Callable[[], object], rounds: int) -> float:
    """Rows per second, the median of the rounds after one that does not count."""
    call()
    taken = []
    for _ in range(rounds):
        begun = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begun)
    return rows / median(taken)


def in_spark(bootstrap: str, topic: str, codec: str, master: str, rows: int, size: int, rounds: int) -> list[float]:
    """Rows per second into nothing, at least once, exactly once."""
    spark = session("benchmark", master=master, settings=SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    table = spark.range(0, rows, 1, PARTITIONS).selectExpr(
        "concat('key-', lpad(cast(id % 1000000 as string), 6, '0')) as key",
        f"rpad(sha2(cast(id as string), 256), {size}, 'x') as value",
    )

    def write(guarantee: str) -> None:
        writer = table.write.format("logbus").option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
        writer.option("kafka.compression.type", codec).option("deliveryGuarantee", guarantee).mode("append").save()

    found = [
        rate(rows, lambda: table.write.format("noop").mode("overwrite").save(), rounds),
        rate(rows, lambda: write("at-least-once"), rounds),
        rate(rows, lambda: write("exactly-once"), rounds),
    ]
    spark.stop()
    return found


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of 100 B; a quarter of that of 1 KB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--masters", nargs="*", default=["local[1]", "local[2]"])
    asked = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    print(f"{'where':<12}{'records':<14}{'rows/s':>11}  what")
    with Broker(
        {"log.flush.before.ack": "false", "log.retention.bytes": str(1 << 28)}, in_process=False, controlled=False
    ) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for size, codec in ((100, "none"), (100, "lz4"), (1024, "none")):
            topic = f"t-{size}-{codec}"
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
            rows = asked.rows if size == 100 else asked.rows // 4
            keys, values = records(BATCH, size)
            times = max(1, rows // BATCH)
            batches = [pa.RecordBatch.from_arrays([pa.array(keys), pa.array(values)], ["key", "value"])] * times
            figures = {
                "alone": rate(
                    times * BATCH,
                    lambda: alone(broker.bootstrap, topic, codec, batches),  # noqa: B023
                    asked.rounds,
                ),
                "confluent": rate(
                    times * BATCH,
                    lambda: confluent(broker.bootstrap, topic, codec, keys, values, times),  # noqa: B023
                    asked.rounds,
                ),
            }
            for what, figure in figures.items():
                print(f"{'one process':<12}{f'{size} B, {codec}':<14}{figure:>11.0f}  {what}", flush=True)
            for master in asked.masters:
                found = in_spark(broker.bootstrap, topic, codec, master, rows, size, asked.rounds)
                for what, figure in zip(("noop", "at least once", "exactly once"), found, strict=True):
                    print(f"{master:<12}{f'{size} B, {codec}':<14}{figure:>11.0f}  {what}", flush=True)


if __name__ == "__main__":
    main()
