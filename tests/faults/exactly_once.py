"""
Exactly once, from end to end: a stage copies a topic in transactions while brokers and the stage are killed at random.

    python -m tests.faults.exactly_once --rounds 50 [--brokers 1|3] [--seed 1]

In each round records are written, something is killed with SIGKILL in the middle of it and started again, and in the
end the copy is read at ``read_committed``: it must be exactly what the stage makes of all records so far, each once and
in order. The status is 1 if it is not.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from logbus.testing import Broker, Cluster
from tests.faults.copy_stage import changed
from tests.faults.traffic import CONSUMER, PRODUCER

PARTITIONS = 3
RECORDS = 600
"""In a round; written within about the time that a round's kill takes."""
SECONDS = 120.0
SESSIONS = {"zookeeper.session.timeout.ms": "2000", "replica.lag.time.max.ms": "2000"}


class Stage:
    """The process that copies; it is started again whenever it ends."""

    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        self._command = [sys.executable, "-m", "tests.faults.copy_stage", bootstrap, source, target]
        self._ending = False
        self.starts = 0
        self.said = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = self._start()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        return subprocess.Popen(self._command, stdin=subprocess.PIPE, stderr=self.said)

    def _watch(self) -> None:
        while True:
            self._process.wait()
            if self._ending:
                return
            self._process = self._start()

    def kill(self) -> None:
        """In the middle of something; another one takes its place."""
        self._process.kill()

    def close(self) -> None:
        """End it."""
        self._ending = True
        self._process.kill()
        self._thread.join()
        self.said.close()

    @property
    def aborted(self) -> int:
        """Transactions that failed, so far."""
        self.said.seek(0)
        return self.said.read().count(b"aborted: ")


class Pipeline:
    """
    Two topics, and a stage between them.

    :param brokers: any of which may be killed.
    :ivar killed: what was, and how often.
    """

    def __init__(self, brokers: Sequence[Broker], bootstrap: str, name: str, chance: random.Random) -> None:
        self._brokers = brokers
        self._bootstrap = bootstrap
        self._chance = chance
        self._source, self._target = f"{name}-source", f"{name}-copy"
        self._sent: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
        self._read: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
        self.killed: Counter[str] = Counter()
        self._create()
        self.stage = Stage(bootstrap, self._source, self._target)
        self._reader = Consumer(
            {
                **CONSUMER,
                "bootstrap.servers": bootstrap,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        self._reader.assign([TopicPartition(self._target, partition, 0) for partition in range(PARTITIONS)])

    def _create(self) -> None:
        factor = len(self._brokers)
        config = {"min.insync.replicas": "2" if factor > 1 else "1"}
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        topics = [NewTopic(topic, PARTITIONS, factor, config=config) for topic in (self._source, self._target)]
        for future in admin.create_topics(topics).values():
            future.result(SECONDS)

    @property
    def records(self) -> int:
        """Written so far."""
        return sum(map(len, self._sent.values()))

    def round(self, number: int) -> str:
        """
        Write, kill, start again, compare.

        :return: what was wrong; empty if nothing was.
        """
        writing = threading.Thread(target=self._write, args=(number,))
        writing.start()
        time.sleep(self._chance.uniform(0.0, 1.5))
        what = self._chance.choice(["broker", "broker", "stage", "both"])
        if what != "broker":
            self.stage.kill()
            self.killed["stage"] += 1
        if what != "stage":
            broker = self._chance.choice(self._brokers)
            broker.kill()
            self.killed["broker"] += 1
            time.sleep(self._chance.uniform(0.0, 3.0))
            broker.start()
        writing.join()
        return self._compare()

    def _write(self, number: int) -> None:
        producer = Producer({**PRODUCER, "bootstrap.servers": self._bootstrap})
        for each in range(RECORDS):
            partition = each % PARTITIONS
            value = b"%d/%d" % (number, each)
            producer.produce(self._source, value, partition=partition)
            self._sent[partition].append(value)
            producer.poll(0.002)
        assert producer.flush(SECONDS) == 0, "records were not acknowledged"

    def _compare(self) -> str:
        wanted = {partition: [changed(value) for value in sent] for partition, sent in self._sent.items()}
        deadline, more = time.monotonic() + SECONDS, 0.0
        # Once all is there it is looked for a little longer: what comes twice may come late.
        while time.monotonic() < deadline and (not more or time.monotonic() < more):
            record: Any = self._reader.poll(0.1)
            if record is not None and not record.error():
                self._read[record.partition()].append(record.value())
            if not more and all(len(self._read[each]) >= len(wanted[each]) for each in wanted):
                more = time.monotonic() + 0.5
        for partition, values in wanted.items():
            found = self._read[partition]
            if found != values:
                at = next(
                    (n for n, (a, b) in enumerate(zip(found, values, strict=False)) if a != b),
                    min(len(found), len(values)),
                )
                return (
                    f"partition {partition}: {len(found)} records instead of {len(values)}; from {at} on "
                    f"{found[at : at + 3]} instead of {values[at : at + 3]}"
                )
        return ""

    def close(self) -> None:
        """End the stage and the reader."""
        self.stage.close()
        self._reader.close()


@contextlib.contextmanager
def pipeline(brokers: int, chance: random.Random, directory: Path) -> Iterator[Pipeline]:
    """One on a broker of its own, or on a cluster of three."""
    with contextlib.ExitStack() as stack:
        if brokers == 1:
            broker = Broker(data_dir=directory / "broker", in_process=False)
            stack.enter_context(broker)
            found, bootstrap = [broker], broker.bootstrap
        else:
            cluster = stack.enter_context(Cluster(brokers, {**SESSIONS, "min.insync.replicas": "2"}))
            found, bootstrap = list(cluster.brokers), cluster.bootstrap
        made = Pipeline(found, bootstrap, "exactly-once", chance)
        stack.callback(made.close)
        yield made


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.exactly_once", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="logbus-exactly-once-") as name,
        pipeline(given.brokers, random.Random(given.seed), Path(name)) as running,
    ):
        for number in range(1, given.rounds + 1):
            wrong = running.round(number)
            print(f"{number:4}  {running.records} records, {dict(running.killed)}  {wrong or 'equal'}", flush=True)
            if wrong:
                return 1
        stage = running.stage
        print(
            f"{given.rounds} rounds in {time.monotonic() - began:.0f} s: {running.records} records, each copied once; "
            f"{running.killed['broker']} kills of brokers and {running.killed['stage']} of the stage, "
            f"which was started {stage.starts} times and aborted {stage.aborted} transactions"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
