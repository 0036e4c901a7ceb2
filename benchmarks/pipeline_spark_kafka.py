"""
Compares the source and the sink with Spark's own Kafka connector, which comes from Maven Central.

Both use the same broker on the same cores, by turns in one session. Rates are rows per second of processor time in
Spark's processes (the JVM and its Python workers), which other work on the machine changes little, and per second on
the clock: the medians of the rounds. Ratios are those of the rounds, each of which has both.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.compare.jars import SPARK_KAFKA_VERSION, spark_kafka_jars
from benchmarks.pipeline_source import PARTITIONS, SETTINGS, Taken, fill, timed
from benchmarks.processor_time import ProcessorTime
from logbus.interpreter import InterpreterBuild
from logbus.pipeline.blocking import Brokers, ConnectionSettings
from logbus.pipeline.session import session
from logbus.records.compression import Codec
from logbus.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CACHE = Path(os.environ.get("LOGBUS_JARS", "~/.cache/logbus-benchmarks")).expanduser()
FORMATS = ("logbus", "kafka")
_TICK = 0.01
"""Seconds: what Linux counts processor time in."""


def noop(rows: DataFrame) -> None:
    """Read all columns."""
    rows.write.format("noop").mode("overwrite").save()


def count(rows: DataFrame) -> None:
    """Count the rows."""
    rows.count()


def aggregate(rows: DataFrame) -> None:
    """Sum up what the rows have, by partition."""
    rows.groupBy("partition").agg({"value": "max", "offset": "sum", "timestamp": "max"}).collect()


CELLS: dict[str, Callable[[Any], None]] = {"noop": noop, "count": count, "aggregate": aggregate}


def compared(spark: SparkSession, calls: list[Callable[[], object]], rounds: int) -> list[list[Taken]]:
    """What each of two takes, by turns, in each round, after one that does not count."""
    for each in calls:
        each()
    processor = ProcessorTime.of(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]
    return [[timed(each, processor) for each in calls] for _ in range(rounds)]


def figures(rows: int, ours: Sequence[float], theirs: Sequence[float]) -> str:
    """
    Both rates, as medians, and the ratio: the least, median and greatest of the rounds.

    :param ours: seconds of each round;  ``theirs``: of the same rounds.
    """
    ratios = [other / max(mine, _TICK) for mine, other in zip(ours, theirs, strict=True)]
    spread = f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    mine, other = (max(median(each), _TICK) for each in (ours, theirs))
    return f"{rows / mine:>12.0f}{rows / other:>12.0f}{spread:>18}"


def report(what: str, records: str, rows: int, taken: list[list[Taken]]) -> None:
    """Print a line."""
    ours, theirs = zip(*taken, strict=True)
    used = figures(rows, [each.processor for each in ours], [each.processor for each in theirs])
    clock = figures(rows, [each.clock for each in ours], [each.clock for each in theirs])
    print(f"{what:<12}{records:<14}{used}{clock}", flush=True)


def reading(spark: SparkSession, broker: Broker, brokers: Brokers, options: argparse.Namespace) -> None:
    """Each cell of reading."""
    for size, codec in ((100, Codec.NONE), (100, Codec.LZ4), (1024, Codec.NONE)):
        topic = f"t-{size}-{codec.name.lower()}"
        rows = fill(brokers, topic, options.megabytes * (1 if size == 100 else 3), size, codec) * PARTITIONS
        for what in options.cells:
            tables = [
                spark.read.format(kind)
                .option("kafka.bootstrap.servers", broker.bootstrap)
                .option("subscribe", topic)
                .options(**({"minPartitions": options.min_partitions} if options.min_partitions else {}))
                for kind in FORMATS
            ]
            calls = [lambda table=table: CELLS[what](table.load()) for table in tables]  # noqa: B023
            report(what, f"{size} B, {codec.name.lower()}", rows, compared(spark, calls, options.rounds))


def writing(spark: SparkSession, broker: Broker, options: argparse.Namespace) -> None:
    """Each cell of writing; to topics that keep little."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for size, codec in ((100, "none"), (100, "lz4"), (1024, "none")):
        rows = (options.megabytes << 20) * (1 if size == 100 else 3) // size
        table = spark.range(0, rows, 1, PARTITIONS).selectExpr(
            "concat('key-', lpad(cast(id % 1000000 as string), 6, '0')) as key",
            f"rpad(sha2(cast(id as string), 256), {size}, 'x') as value",
        )
        # Making the rows is not the sinks' work: they are made before.
        table = table.cache()
        table.count()
        calls = []
        for kind in FORMATS:
            topic = f"w-{kind}-{size}-{codec}"
            new = NewTopic(topic, PARTITIONS, 1, config={"retention.bytes": str(1 << 28)})
            admin.create_topics([new])[topic].result()
            writer = table.write.format(kind).option("kafka.bootstrap.servers", broker.bootstrap)
            writer = writer.option("topic", topic).option("kafka.compression.type", codec).mode("append")
            calls.append(writer.save)
        report("write", f"{size} B, {codec}", rows, compared(spark, calls, options.rounds))
        table.unpersist()


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200, help="of records of 100 B; three times that of 1 KB")
    parser.add_argument("--rounds", type=int, default=5, help="of each")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--min-partitions", type=int, help="tasks, instead of one for each partition")
    parser.add_argument("--cells", nargs="*", default=[*CELLS], choices=[*CELLS], help="what is done with rows read")
    parser.add_argument("--no-sink", action="store_true", help="do not measure writing")
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    jars = ",".join(map(str, sorted(spark_kafka_jars(CACHE).glob("*.jar"))))
    spark = session("benchmark", master=options.master, settings={**SETTINGS, "spark.jars": jars})
    spark.sparkContext.setLogLevel("ERROR")
    print(f"Spark's connector {SPARK_KAFKA_VERSION}, {options.master}")
    for_each = f"{'logbus':>12}{'kafka':>12}{'ratio (rounds)':>18}"
    print(f"{'':<26}{'rows/CPU s':>42}{'rows/s':>42}")
    print(f"{'what':<12}{'records':<14}{for_each}{for_each}")
    with Broker({"log.flush.before.ack": "false"}, in_process=False, controlled=False) as broker:
        brokers = Brokers(ConnectionSettings.from_options({"bootstrap.servers": broker.bootstrap}))
        reading(spark, broker, brokers, options)
        brokers.close()
        if not options.no_sink:
            writing(spark, broker, options)
    spark.stop()


if __name__ == "__main__":
    main()
