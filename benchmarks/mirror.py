"""
Measures what a mirror copies a second, beside one consumer and one producer, and beside Apache's MirrorMaker 2::

    python -m benchmarks.mirror [--megabytes 256] [--batch-bytes 65536] [--no-mirror-maker]

Both clusters are one logbus broker each. Records have 1 KB; librdkafka wrote them in batches of ``--batch-bytes``.
The pair is a loop of librdkafka's consumer and producer in one process, which neither keeps its place in the source nor
writes in transactions. The mirrors are measured while they run, from a fifth of the records on until all are there, so
that their start, which is slow for a JVM, does not count. Everything runs on this machine, so all take their share.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import frozen
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.compare.jars import KAFKA_VERSION, mirror_maker_jars
from benchmarks.compare.systems import Logbus, Running, start

RECORD = os.urandom(500) + bytes(500)
PARTITIONS = 4
SECONDS = 300
FROM = 0.2
"""The share of the records from which on a mirror is measured."""
CACHE = Path(os.environ.get("LOGBUS_JARS", "~/.cache/logbus-benchmarks")).expanduser()


def address(running: Running) -> str:
    """Where a broker is reached."""
    return f"127.0.0.1:{running.port}"


def fill(bootstrap: str, count: int, batch_bytes: int) -> None:
    """Write the records of the source."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("orders", PARTITIONS, 1)])["orders"].result(SECONDS)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 100, "batch.size": batch_bytes})
    for number in range(count):
        producer.produce("orders", RECORD, partition=number // 500 % PARTITIONS)
        if not number % 5000:
            producer.flush(SECONDS)
    assert producer.flush(SECONDS) == 0


def pair(source: str, target: str, count: int) -> None:
    """One consumer and one producer."""
    admin = AdminClient({"bootstrap.servers": target})
    admin.create_topics([NewTopic("pair", PARTITIONS, 1)])["pair"].result(SECONDS)
    consumer = Consumer({"bootstrap.servers": source, "group.id": "pair", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition("orders", number, 0) for number in range(PARTITIONS)])
    producer = Producer({"bootstrap.servers": target, "enable.idempotence": True, "linger.ms": 5})
    left = count
    while left:
        for message in consumer.consume(1000, SECONDS):
            assert message.error() is None, message.error()
            while True:
                try:
                    producer.produce("pair", message.value(), message.key(), message.partition() or 0)
                    break
                except BufferError:
                    producer.poll(0.1)
            left -= 1
        producer.poll(0)
    assert producer.flush(SECONDS) == 0
    consumer.close()


@frozen
class Pace:
    """
    How fast a mirror is, once it runs.

    :ivar rate: records a second.
    :ivar cpu: seconds of CPU of its process for each of these seconds.
    """

    rate: float
    cpu: float


def cpu_seconds(pid: int) -> float:
    """What a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def paced(command: Sequence[str | Path], target: str, topic: str, count: int, log: Path) -> Pace:
    """Run a mirror until the target has all records; its pace from :data:`FROM` of them on."""
    with log.open("w") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
    watcher = Consumer({"bootstrap.servers": target, "group.id": "watcher"})
    first: tuple[float, int, float] | None = None
    ends = 0
    try:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            try:
                partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
                ends = sum(watcher.get_watermark_offsets(each, 10, cached=False)[1] for each in partitions)
            except KafkaException:
                ends = 0  # There is no such topic yet.
            now, cpu = time.monotonic(), cpu_seconds(process.pid)
            if first is None and ends >= FROM * count:
                first = now, ends, cpu
            if ends >= count:
                assert first is not None
                began, had, used = first
                if had >= (1 + FROM) / 2 * count:
                    raise SystemExit(f"{topic}: {had} of {count} records came at once; take more --megabytes")
                return Pace((ends - had) / (now - began), (cpu - used) / (now - began))
            time.sleep(0.05)
        raise SystemExit(f"{topic}: {ends} of {count} records were copied: {log}\n{log.read_text()[-2000:]}")
    finally:
        process.kill()
        process.wait()
        watcher.close()


def mirror(source: str, target: str, name: str) -> list[str | Path]:
    """The command of ``logbus mirror``, as it runs all the time."""
    sides = ["--from", source, "--from-name", name, "--to", target, "--to-name", "b", "--topics", "orders"]
    return [Path(sys.executable).with_name("logbus"), "mirror", *sides]


def mirror_maker(source: str, target: str, directory: Path) -> list[str | Path]:
    """The command of MirrorMaker 2 with its defaults."""
    jars = mirror_maker_jars(KAFKA_VERSION, CACHE)
    properties = directory / "mm2.properties"
    properties.write_text(
        f"clusters=mm,b\nmm.bootstrap.servers={source}\nb.bootstrap.servers={target}\nmm->b.enabled=true\n"
        "mm->b.topics=orders\nreplication.factor=1\ncheckpoints.topic.replication.factor=1\n"
        "heartbeats.topic.replication.factor=1\noffset-syncs.topic.replication.factor=1\n"
        "offset.storage.replication.factor=1\nstatus.storage.replication.factor=1\n"
        "config.storage.replication.factor=1\ntasks.max=2\ndedicated.mode.enable.internal.rest=false\n"
    )
    return ["java", "-Xmx1g", "-cp", f"{jars}/*", "org.apache.kafka.connect.mirror.MirrorMaker", properties]


def shown(what: str, pace: Pace) -> float:
    """Print a pace; returns megabytes a second."""
    megabytes = pace.rate * len(RECORD) / 1e6
    print(f"{what:<32} {megabytes:7.1f} MB/s  {pace.cpu:5.2f} CPUs  {megabytes / pace.cpu:6.1f} MB/s a CPU", flush=True)
    return megabytes


def timed(what: str, megabytes: float, work: Callable[[], None]) -> float:
    """Print how fast something is; returns megabytes a second."""
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    print(f"{what:<32} {megabytes / seconds:7.1f} MB/s  {seconds:6.1f} s", flush=True)
    return megabytes / seconds


def main() -> None:
    """Run all of them, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--batch-bytes", type=int, default=65536)
    parser.add_argument("--no-mirror-maker", action="store_true")
    options = parser.parse_args()
    count = options.megabytes * 1000
    with tempfile.TemporaryDirectory() as home:
        brokers = [start(Logbus(), Path(home) / name) for name in ("source", "target")]
        source, target = map(address, brokers)
        try:
            fill(source, count, options.batch_bytes)
            reached = timed("a consumer and a producer", options.megabytes, lambda: pair(source, target, count))
            log = Path(home) / "mirror.log"
            ours = shown("logbus mirror", paced(mirror(source, target, "a"), target, "a.orders", count, log))
            print(f"the mirror reaches {ours / reached:.0%} of the pair")
            if not options.no_mirror_maker:
                command = mirror_maker(source, target, Path(home))
                theirs = shown("MirrorMaker 2", paced(command, target, "mm.orders", count, log))
                print(f"the mirror reaches {ours / theirs:.0%} of MirrorMaker 2")
        finally:
            for each in brokers:
                each.stop()


if __name__ == "__main__":
    main()
