"""
Measures what a mirror copies a second, beside one consumer and one producer, and beside Apache's MirrorMaker 2::

    python -m benchmarks.mirror [--megabytes 256] [--batch-bytes 65536] [--no-mirror-maker]

Both clusters are one logbus broker each. Records have 1 KB; librdkafka wrote them in batches of ``--batch-bytes``.
The pair is a loop of librdkafka's consumer and producer in one process, which neither keeps its place in the source nor
writes in transactions. Everything runs on this machine, so all take their share of it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.compare.jars import KAFKA_VERSION, mirror_maker_jars
from benchmarks.compare.systems import Logbus, Running, start

RECORD = os.urandom(500) + bytes(500)
PARTITIONS = 4
SECONDS = 300
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


def mirror(source: str, target: str, count: int) -> None:
    """``logbus mirror``."""
    command = ["mirror", "--from", source, "--from-name", "a", "--to", target, "--to-name", "b", "--until-end"]
    done = subprocess.run(
        [Path(sys.executable).with_name("logbus"), *command],
        check=True,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert f"copied {count} records" in done.stdout, done.stdout
    print(done.stdout, end="")


def mirror_maker(source: str, target: str, count: int, directory: Path) -> None:
    """MirrorMaker 2 with its defaults, until the target has all records."""
    jars = mirror_maker_jars(KAFKA_VERSION, CACHE)
    properties = directory / "mm2.properties"
    properties.write_text(
        f"clusters=mm,b\nmm.bootstrap.servers={source}\nb.bootstrap.servers={target}\nmm->b.enabled=true\n"
        "mm->b.topics=orders\nreplication.factor=1\ncheckpoints.topic.replication.factor=1\n"
        "heartbeats.topic.replication.factor=1\noffset-syncs.topic.replication.factor=1\n"
        "offset.storage.replication.factor=1\nstatus.storage.replication.factor=1\n"
        "config.storage.replication.factor=1\ntasks.max=2\ndedicated.mode.enable.internal.rest=false\n"
    )
    log = (directory / "mm2.log").open("w")
    command = ["java", "-Xmx1g", "-cp", f"{jars}/*", "org.apache.kafka.connect.mirror.MirrorMaker", str(properties)]
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    watcher = Consumer({"bootstrap.servers": target, "group.id": "watcher"})
    try:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            ends = 0
            for number in range(PARTITIONS):
                try:
                    ends += watcher.get_watermark_offsets(TopicPartition("mm.orders", number), 10, cached=False)[1]
                except Exception:
                    break
            if ends >= count:
                return
            time.sleep(0.1)
        raise SystemExit(f"MirrorMaker copied {ends} of {count} records: {directory / 'mm2.log'}")
    finally:
        process.kill()
        process.wait()
        watcher.close()
        log.close()


def timed(what: str, megabytes: float, work: Callable[[], None], waited: float = 0.0) -> float:
    """Print how fast something is; returns megabytes a second."""
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began - waited
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
            ours = timed("logbus mirror, with its start", options.megabytes, lambda: mirror(source, target, count))
            print(f"the mirror reaches {ours / reached:.0%} of the pair")
            if not options.no_mirror_maker:
                theirs = timed(
                    "MirrorMaker 2, with its start",
                    options.megabytes,
                    lambda: mirror_maker(source, target, count, Path(home)),
                )
                print(f"the mirror reaches {ours / theirs:.0%} of MirrorMaker 2")
        finally:
            for each in brokers:
                each.stop()


if __name__ == "__main__":
    main()
