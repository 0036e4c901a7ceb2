"""
Two clusters of three brokers mirror each other, while brokers of both and the mirrors are killed.

    python -m tests.faults.mirror_soak --seconds 60 --seed 1 [--kafka] [--keep DIRECTORY]

With ``--kafka`` the first of them is Apache Kafka. With ``--keep`` its data and the mirrors' lines stay in a directory
if something is wrong.

In the end ``logbus audit mirror`` proves both mirrors complete; it tells what was done. The status is 1 if a record is
missing, repeated, foreign or in another order, or if one that was acknowledged cannot be read.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, Self

from confluent_kafka import Producer

from logbus.testing.cluster import Cluster
from tests.faults.conftest import FAULTY_CONFIG
from tests.faults.kafka_cluster import KafkaCluster
from tests.faults.nemesis import Nemesis
from tests.faults.traffic import create

LOGBUS = Path(sys.executable).with_name("logbus")
PARTITIONS = 3
TOPIC = "orders"
SECONDS = 180.0
PAUSE = 0.01


class Side(Protocol):
    """
    A cluster of three brokers.

    :ivar bootstrap: their addresses.
    """

    bootstrap: str

    def begin(self, until: ExitStack) -> None:
        """Start it, and create the topic; it is stopped with the stack."""

    def killed(self, chance: random.Random) -> Any:
        """A context: a broker's process ends, as by a crash; it is started again at the end, and waited for."""


class LogbusSide:
    """One of logbus."""

    def __init__(self) -> None:
        self._cluster = Cluster(config=FAULTY_CONFIG)
        self._nemesis = Nemesis(self._cluster)
        self.bootstrap = ""

    def begin(self, until: ExitStack) -> None:
        until.callback(self._cluster.close)
        self._cluster.start()
        self.bootstrap = self._cluster.bootstrap
        create(self._cluster, TOPIC, PARTITIONS)

    @contextmanager
    def killed(self, chance: random.Random) -> Iterator[None]:
        with self._nemesis.killed(chance.choice(self._cluster.brokers)):
            yield


class KafkaSide:
    """One of Apache Kafka."""

    def __init__(self, home: Path) -> None:
        self._cluster = KafkaCluster(home)
        self.bootstrap = self._cluster.bootstrap

    def begin(self, until: ExitStack) -> None:
        until.enter_context(self._cluster)
        self._cluster.create(TOPIC, PARTITIONS)

    @contextmanager
    def killed(self, chance: random.Random) -> Iterator[None]:
        with self._cluster.killed(chance.choice(self._cluster.brokers)):
            yield


class Writer(threading.Thread):
    """
    Writes numbers to a cluster until it is told to end.

    :ivar acknowledged: the number of records that were.
    """

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(name=f"writer {name}", daemon=True)
        shared: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, "message.timeout.ms": 600_000}
        # With several in flight librdkafka may give a batch that is in doubt a new epoch, if Kafka refuses a later one.
        one = {"enable.idempotence": True, "max.in.flight.requests.per.connection": 1}
        self.plain = Producer({**shared, **one, "linger.ms": 5})
        self.acknowledged = 0
        self.failures: list[str] = []
        self._over = threading.Event()
        self._number = 0

    def run(self) -> None:
        while not self._over.wait(PAUSE):
            for partition in range(PARTITIONS):
                self._number += 1
                self.plain.produce(TOPIC, b"%d" % self._number, b"%d" % (self._number % 7), partition, self._delivered)
            self.plain.poll(0)
            if len(self.plain) > 10_000:
                self.plain.flush(1)
        if left := self.plain.flush(SECONDS):
            self.failures.append(f"{left} records were not acknowledged in {SECONDS:g} s")

    def _delivered(self, error: object, message: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failures.append(str(error))

    def end(self) -> None:
        """Have all acknowledged."""
        self._over.set()
        self.join(SECONDS + 10)


class Flow:
    """A mirror in a process of its own, which is killed and started again."""

    def __init__(self, source: Side, target: Side, names: tuple[str, str], home: Path) -> None:
        here, there = names
        self.sides = ["--from", source.bootstrap, "--from-name", here, "--to", target.bootstrap, "--to-name", there]
        self.name, self._log = f"{here}-to-{there}", home / f"{here}-to-{there}.log"
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        quick = ["--interval", "0.3", "--refresh-interval", "2", "--timeout", "10", "--topics", TOPIC]
        with self._log.open("ab") as log:
            return subprocess.Popen([LOGBUS, "mirror", *self.sides, *quick], stdout=log, stderr=log)

    def kill(self) -> None:
        """As by a crash; and begin again."""
        assert self._process.poll() is None, self.said
        self._process.kill()
        self._process.wait()
        self._process = self._start()

    def audit(self) -> list[dict[str, Any]]:
        """
        What the audit says of each partition, once everything was copied.

        :raises AssertionError: it is not complete.
        """
        command = [LOGBUS, "audit", "mirror", *self.sides, "--topics", TOPIC, "--wait", str(SECONDS), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3 * SECONDS, check=False)
        assert done.returncode == 0, f"{self.name}: {done.stderr} {done.stdout}\n{self.said}"
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    @property
    def said(self) -> str:
        """The mirror's lines."""
        return self._log.read_text()

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


class MirrorSoak:
    """
    Two clusters, the writers, and the mirrors.

    :ivar injected: what was done, and how often.
    """

    def __init__(self, home: Path, seed: int, *, with_kafka: bool = False) -> None:
        self.clusters: list[Side] = [KafkaSide(home / "kafka") if with_kafka else LogbusSide(), LogbusSide()]
        self._stack = ExitStack()
        self.injected: Counter[str] = Counter()
        self._home, self._random = home, random.Random(seed)
        self.writers: list[Writer] = []
        self.flows: list[Flow] = []

    def __enter__(self) -> Self:
        try:
            for cluster in self.clusters:
                cluster.begin(self._stack)
            first, second = self.clusters
            self.writers = [Writer(each.bootstrap, str(number)) for number, each in enumerate(self.clusters)]
            for each in self.writers:
                each.start()
            self.flows = [
                Flow(first, second, ("paris", "rome"), self._home),
                Flow(second, first, ("rome", "paris"), self._home),
            ]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for flow in self.flows:
            flow.stop()
        self._stack.close()

    def trouble(self, seconds: float) -> None:
        """Kill something, and again, for a time, and one of each kind at least; everything runs in the end."""
        until = time.monotonic() + seconds
        # Both clusters, and both mirrors.
        first = self._random.sample(range(4), 4)
        while first or time.monotonic() < until:
            side = first.pop() if first else self._random.randrange(4)
            if side < 2:
                with self.clusters[side].killed(self._random):
                    time.sleep(self._random.uniform(0.0, 2.0))
                self.injected[f"broker of {('paris', 'rome')[side]}"] += 1
            else:
                flow = self.flows[side - 2]
                flow.kill()
                self.injected[f"mirror {flow.name}"] += 1
            time.sleep(self._random.uniform(0.2, 1.5))

    def prove(self) -> list[int]:
        """
        End the writers, and have both mirrors proved complete.

        :returns: the records that were copied, by flow.
        :raises AssertionError: something is wrong.
        """
        for each in self.writers:
            each.end()
            assert not each.failures, each.failures[:3]
        copied = []
        for writer, flow in zip(self.writers, self.flows, strict=True):
            found = flow.audit()
            records = sum(each["source"] for each in found)
            # All partitions, nothing deleted meanwhile; an idempotent producer repeats nothing.
            assert [each["partition"] for each in found] == list(range(PARTITIONS))
            assert records == writer.acknowledged, (records, writer.acknowledged)
            copied.append(records)
        return copied


def main() -> int:
    """Run it for a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kafka", action="store_true", help="the first cluster is Apache Kafka")
    parser.add_argument(
        "--keep", type=Path, metavar="DIRECTORY", help="where data stay if something is wrong; a new one"
    )
    options = parser.parse_args()
    with TemporaryDirectory() as home, MirrorSoak(Path(home), options.seed, with_kafka=options.kafka) as soak:
        try:
            soak.trouble(options.seconds)
            copied = soak.prove()
        except AssertionError as e:
            print(e)
            if options.keep is not None:
                shutil.copytree(home, options.keep)
            return 1
        print(f"killed {dict(soak.injected)}; {sum(copied)} records were copied exactly once, in order")
    return 0


if __name__ == "__main__":
    sys.exit(main())
