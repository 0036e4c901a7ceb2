"""
Compares the source with Spark's own Kafka connector, which comes from Maven Central.

Both read the same topic of the same broker on the same cores, by turns in one run, into a sink that does nothing.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.compare.jars import SPARK_KAFKA_VERSION, spark_kafka_jars
from benchmarks.pipeline_source import PARTITIONS, SETTINGS, fill
from logbus.interpreter import InterpreterBuild
from logbus.pipeline.blocking import Brokers, ConnectionSettings
from logbus.pipeline.session import session
from logbus.records.compression import Codec
from logbus.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CACHE = Path(os.environ.get("LOGBUS_JARS", "~/.cache/logbus-benchmarks")).expanduser()
FORMATS = ("logbus", "kafka")


def seconds(spark: SparkSession, kind: str, bootstrap: str, topic: str) -> float:
    """Read the topic once."""
    begun = time.perf_counter()
    rows = spark.read.format(kind).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
    rows.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200, help="of records of 100 B; three times that of 1 KB")
    parser.add_argument("--rounds", type=int, default=5, help="of each; the median counts")
    parser.add_argument("--master", default="local[2]")
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    jars = ",".join(map(str, sorted(spark_kafka_jars(CACHE).glob("*.jar"))))
    spark = session("benchmark", master=options.master, settings={**SETTINGS, "spark.jars": jars})
    spark.sparkContext.setLogLevel("ERROR")
    print(f"Spark's connector {SPARK_KAFKA_VERSION}, {options.master}")
    print(f"{'records':<16}{'logbus rows/s':>16}{'kafka rows/s':>16}{'ratio':>8}")
    with Broker({"log.flush.before.ack": "false"}, in_process=False) as broker:
        brokers = Brokers(ConnectionSettings.from_options({"bootstrap.servers": broker.bootstrap}))
        for size, codec in ((100, Codec.NONE), (100, Codec.LZ4), (1024, Codec.NONE)):
            topic = f"t-{size}-{codec.name.lower()}"
            rows = fill(brokers, topic, options.megabytes * (1 if size == 100 else 3), size, codec) * PARTITIONS
            for kind in FORMATS:
                seconds(spark, kind, broker.bootstrap, topic)
            taken = [[seconds(spark, kind, broker.bootstrap, topic) for kind in FORMATS] for _ in range(options.rounds)]
            ours, theirs = (rows / median(times) for times in zip(*taken, strict=True))
            print(
                f"{f'{size} B, {codec.name.lower()}':<16}{ours:>16.0f}{theirs:>16.0f}{ours / theirs:>8.2f}", flush=True
            )
        brokers.close()
    spark.stop()


if __name__ == "__main__":
    main()
