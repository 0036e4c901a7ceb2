"""
Measures the source: reading topics in Spark, beside Spark reading Arrow batches from memory.

Both go through the same API, on the same cores, by turns in one run, into a sink that does nothing. A second time the
rates are per second of processor time in Spark's processes, which other work on the machine changes little. ``alone``
reads the same topic by the same client without Spark, per second of its processor time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.processor_time import ProcessorTime
from logbus.interpreter import InterpreterBuild
from logbus.model import TopicPartition
from logbus.pipeline.blocking import Brokers, ConnectionSettings
from logbus.pipeline.blocking.range_reader import read_range
from logbus.pipeline.session import session
from logbus.pipeline.source.arrow import record_batch
from logbus.pipeline.source.schema import source_schema
from logbus.records.batch import BatchBuilder
from logbus.records.compression import Codec
from logbus.testing import Broker
from logbus.wire.messages.records import PartitionProduceData, ProduceRequest, TopicProduceData
from logbus.wire.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 4
NOW = 1_700_000_000_000
BATCH = 10_000
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def a_batch(size: int, codec: Codec, limit: int) -> BatchBuilder:
    """Records with values of ``size`` bytes and keys of ten, up to ``limit`` bytes."""
    random = Random(1)
    words = [random.randbytes(4).hex().encode() for _ in range(1000)]
    builder = BatchBuilder(codec)
    while True:
        value = b"".join(random.choices(words, k=max(1, size // 8)))
        if builder.append_within(limit, NOW + builder.count, b"key-%06d" % random.randrange(10**6), value) < 0:
            return builder


def fill(brokers: Brokers, topic: str, megabytes: int, size: int, codec: Codec) -> int:
    """Make a topic of so many bytes before compression, in equal partitions; the records in each."""
    for_ever = [CreatableTopicConfig(name="retention.ms", value="-1")]
    new = CreatableTopic(name=topic, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=for_ever)
    brokers.any().request(CreateTopicsRequest(topics=[new], timeout_ms=30_000))
    batch = a_batch(size, codec, 1 << 19)
    data, rounds = batch.build(), -(-(megabytes << 20) // (batch.size * PARTITIONS))
    for number in range(PARTITIONS):
        place = TopicPartition(topic, number)
        while True:
            try:
                connection = brokers.leader(place)
                break
            except Exception:
                time.sleep(0.05)
        for _ in range(rounds):
            what = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=number, records=data)])
            request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[what])
            answer = connection.request(request, version=min(12, connection.version(0)))
            assert not answer.responses[0].partition_responses[0].error_code, answer
    return rounds * batch.count


def prebuilt_batch(brokers: Brokers, topic: str) -> bytes:
    """A batch as the source yields them, as Arrow's own bytes: what Spark gets to take in again and again."""
    place = TopicPartition(topic, 0)
    rows = next(read_range(brokers, place, 0, BATCH, batch_rows=BATCH))
    batch = record_batch(place, rows.columns, False)
    with pa.BufferOutputStream() as out, pa.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(out.getvalue())


class Prebuilt(DataSource):
    """Batches that are there already."""

    @classmethod
    def name(cls) -> str:
        """As in ``format("prebuilt")``."""
        return "prebuilt"

    def schema(self) -> StructType:
        """As the source has it."""
        return source_schema(False)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For batches."""
        return PrebuiltReader(self.options)


class PrebuiltReader(DataSourceReader):
    """The same batch as often as it takes to have as many rows."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._file = options["file"]
        self._rows = int(options["rows"])

    def partitions(self) -> Sequence[InputPartition]:
        """As many as the topic has."""
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """In a worker."""
        batch = pa.ipc.open_stream(Path(self._file).read_bytes()).read_next_batch()
        left = self._rows
        while left > 0:
            yield batch if left >= batch.num_rows else batch.slice(0, left)
            left -= batch.num_rows


class Taken(NamedTuple):
    """Seconds that something took: by the clock, and of processors in Spark's processes."""

    clock: float
    processor: float


def timed(call: Callable[[], object], processor: ProcessorTime) -> Taken:
    """Do it once."""
    used, begun = processor.seconds(), time.perf_counter()
    call()
    return Taken(time.perf_counter() - begun, processor.seconds() - used)


def alone(brokers: Brokers, topic: str, rows: int) -> None:
    """Read the topic without Spark."""
    found = 0
    for number in range(PARTITIONS):
        place = TopicPartition(topic, number)
        for some in read_range(brokers, place, 0, rows):
            found += record_batch(place, some.columns, some.stamped).num_rows
    assert found == rows * PARTITIONS, found


def measure(
    spark: SparkSession, broker: Broker, topic: str, rows: int, batch: bytes, rounds: int
) -> tuple[float, float]:
    """The rates of the source and of what is prebuilt, in rows per second: the best of the rounds, taken by turns."""
    spark.dataSource.register(Prebuilt)
    topics = spark.read.format("logbus").options(**{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic})
    ready = spark.read.format("prebuilt").options(file=str(batch), rows=str(rows))
    both = [lambda: topics.load().write.format("noop").mode("overwrite").save()]
    both.append(lambda: ready.load().write.format("noop").mode("overwrite").save())
    for each in both:
        each()
    processor = ProcessorTime.of(spark.sparkContext._gateway.proc.pid)
    taken = [[timed(each, processor) for each in both] for _ in range(rounds)]
    return [Taken(*map(median, zip(*times, strict=True))) for times in zip(*taken, strict=True)]


def read_topics(options: argparse.Namespace) -> None:
    """Measure reading."""
    heads = f"{'rows/s':>11}{'prebuilt':>11}{'ratio':>7}{'rows/CPU s':>12}{'prebuilt':>11}{'ratio':>7}"
    print(f"{'master':<26}{'records':<14}{heads}{'alone':>11}")
    with (
        tempfile.TemporaryDirectory() as directory,
        Broker({"log.flush.before.ack": "false"}, in_process=False, controlled=False) as broker,
    ):
        brokers = Brokers(ConnectionSettings.from_options({"bootstrap.servers": broker.bootstrap}))
        filled = {}
        for size, codec in ((100, Codec.NONE), (100, Codec.LZ4), (1024, Codec.NONE)):
            topic = f"t-{size}-{codec.name.lower()}"
            rows = fill(brokers, topic, options.megabytes * (1 if size == 100 else 3), size, codec)
            used = []
            for _ in range(3):
                begun = time.process_time()
                alone(brokers, topic, rows)
                used.append(time.process_time() - begun)
            filled[f"{size} B, {codec.name.lower()}"] = topic, rows, rows * PARTITIONS / min(used)
        for master in options.masters:
            spark = session("benchmark", master=master, settings=SETTINGS)
            spark.sparkContext.setLogLevel("ERROR")
            for title, (topic, rows, lone) in filled.items():
                batch = Path(directory) / f"{topic}.arrow"
                batch.write_bytes(prebuilt_batch(brokers, topic))
                source, ready = measure(spark, broker, topic, rows, batch, options.rounds)
                figures = ""
                for one, other in zip(source, ready, strict=True):
                    figures += f"{rows * PARTITIONS / one:>11.0f}{rows * PARTITIONS / other:>11.0f}{other / one:>7.2f}"
                print(f"{master:<26}{title:<14}{figures}{lone:>12.0f}", flush=True)
            spark.stop()
        brokers.close()


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["source"], help="what to measure")
    parser.add_argument("--megabytes", type=int, default=200, help="of records of 100 B; three times that of 1 KB")
    parser.add_argument("--rounds", type=int, default=5, help="of each case; the median counts")
    parser.add_argument(
        "--masters", nargs="+", default=["local[1]", "local[2]", "local-cluster[1,1,1024]", "local-cluster[2,1,1024]"]
    )
    arguments = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    read_topics(arguments)


if __name__ == "__main__":
    main()
