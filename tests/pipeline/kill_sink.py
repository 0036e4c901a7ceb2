"""A stream that copies a topic exactly once, while its driver and its executors are killed."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from attrs import define, field, frozen
from confluent_kafka import Producer

from logbus.testing import Broker
from tests.pipeline.reading import committed_messages, create_topic
from tests.pipeline.standalone import Standalone, kill

SOURCE, SINK = "in", "out"
PARTITIONS = 3
PER_ROUND = 1000
PER_BATCH = 200
LONGEST = 5.0
"""Seconds from the first batch of a round to its kill, at most; it falls into one of the next two batches."""
PATIENCE = 400.0
_QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For Java processes that do not live long."""
SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": _QUICK,
    "spark.executor.extraJavaOptions": _QUICK,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
LOCAL = "local[2]"


@frozen
class Report:
    """
    :ivar records: that were to be copied.
    :ivar missing: of them that are not in the copy.
    :ivar double: that are in it more than once.
    :ivar foreign: that are in it, and nobody has written.
    :ivar kills: how many of each kind.
    :ivar batches: that drivers told of.
    :ivar failures: why queries ended by themselves; they were started again.
    """

    records: int
    missing: int
    double: int
    foreign: int
    kills: dict[str, int]
    batches: int
    failures: tuple[str, ...]
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether each record is there once."""
        return not (self.missing or self.double or self.foreign)


@define(eq=False)
class Driver:
    """
    A driver in a process of its own.

    :ivar failure: why its query ended by itself.
    :ivar pace: seconds of its last batch.
    """

    process: subprocess.Popen[str]
    master: str
    lines: queue.Queue[str] = field(factory=queue.Queue)
    batches: int = 0
    failure: str = ""
    pace: float = 1.0

    @classmethod
    def start(cls, asked: dict[str, Any]) -> Driver:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.copying", json.dumps(asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self = cls(process, asked["master"])
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("batch "):
                self.batches += 1
                self.pace = float(line.split()[2])
            elif line.startswith("failed "):
                self.failure = line[7:].strip()[:500]
            self.lines.put(line)
        self.lines.put("")

    def wait_for_batch(self) -> bool:
        """Until another batch is done; False: it ended instead."""
        while not self.lines.empty():
            self.lines.get()
        line = self.lines.get(timeout=PATIENCE) if self.process.poll() is None else ""
        return line.startswith("batch ")

    def kill(self) -> None:
        """The driver's Python and JVM; what they started notices."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def finish(self) -> bool:
        """Let it copy what is left; False: it failed."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        return self.process.wait(PATIENCE) == 0


@define(eq=False)
class Rounds:
    """
    :ivar chance: decides who is killed, and when.
    :ivar say: told what happens.
    """

    chance: Random
    say: Callable[[str], object]
    asked: dict[str, Any]
    spark: Standalone
    bootstrap: str
    master: str = ""
    driver: Driver | None = None
    written: int = 0
    batches: int = 0
    kills: Counter[str] = field(factory=Counter)
    failures: list[str] = field(factory=list)

    def produce(self, count: int) -> None:
        """More to copy: each record's value is its number, and its key the last digits."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20})
        for number in range(self.written, self.written + count):
            producer.produce(SOURCE, value=b"%d" % number, key=b"%d" % (number % 97))
            if number % 500 == 0:
                producer.poll(0)
        producer.flush()
        self.written += count

    def running(self) -> Driver:
        """A driver that has just done a batch."""
        while True:
            if self.driver is None:
                self.driver = Driver.start({**self.asked, "master": self.master})
            if self.driver.wait_for_batch():
                return self.driver
            self.gone()

    def gone(self) -> None:
        """The driver is no more."""
        assert self.driver is not None
        self.driver.process.wait(PATIENCE)
        self.batches += self.driver.batches
        if self.driver.failure or self.driver.process.returncode >= 0:
            self.failures.append(self.driver.failure or f"exit {self.driver.process.returncode}")
            self.say(f"  the query ended: {self.failures[-1]}")
        self.driver = None

    def round(self, number: int, what: str) -> None:
        """
        Kill somebody while batches are copied.

        :param what: ``driver``, ``executor`` or ``worker`` of the standalone Spark; ``all`` of a local one.
        """
        self.master = LOCAL if what == "all" else self.spark.url
        if self.driver is not None and self.driver.master != self.master:
            self.driver.kill()
            self.gone()
        self.produce(PER_ROUND)
        driver = self.running()
        delay = self.chance.uniform(0, min(LONGEST, 2 * driver.pace))
        time.sleep(delay)
        if what in ("driver", "all"):
            driver.kill()
            self.gone()
            victim = driver.process.pid
        else:
            found = self.spark.executors() if what == "executor" else self.spark.python_workers()
            if not found:
                self.say(f"round {number}: no {what} was there to be killed")
                return
            victim = self.chance.choice(found)
            kill(victim)
        self.kills[what] += 1
        self.say(f"round {number}: {what} {victim} killed after {delay:.2f} s")

    def finish(self) -> None:
        """Copy all that is left, undisturbed."""
        while True:
            driver = self.driver = self.driver or Driver.start({**self.asked, "master": self.master})
            is_done = driver.finish()
            if is_done:
                self.batches += driver.batches
                return
            self.gone()


def run(rounds: int, seed: int, say: Callable[[str], object] = print) -> Report:
    """
    Of four rounds, kill an executor in one, a Python worker, the driver, and in one a Spark that is one process.

    :param seed: of who is killed when.
    """
    begun = time.monotonic()
    chance = Random(seed)
    # Drivers take long to start: all who can have the same one come together.
    kinds = [("worker", "executor", "driver", "all")[number % 4] for number in range(rounds)]
    kinds.sort(key=["executor", "worker", "driver", "all"].index)
    checkpoint = tempfile.mkdtemp(prefix="logbus-checkpoint-")
    try:
        with Broker(in_process=False) as broker, Standalone() as spark:
            for topic in (SOURCE, SINK):
                create_topic(broker.bootstrap, topic, PARTITIONS)
            asked = {
                "bootstrap": broker.bootstrap,
                "source": SOURCE,
                "sink": SINK,
                "checkpoint": checkpoint,
                "per_batch": PER_BATCH,
                "settings": SETTINGS,
            }
            them = Rounds(chance, say, asked, spark, broker.bootstrap)
            try:
                for number, what in enumerate(kinds):
                    them.round(number, what)
                them.finish()
            finally:
                if them.driver is not None:
                    them.driver.kill()
            copied = Counter(int(each.value()) for each in committed_messages(broker.bootstrap, SINK))
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)
    wanted = range(them.written)
    return Report(
        records=them.written,
        missing=sum(number not in copied for number in wanted),
        double=sum(count > 1 for count in copied.values()),
        foreign=sum(number not in wanted for number in copied),
        kills=dict(them.kills),
        batches=them.batches,
        failures=tuple(them.failures),
        seconds=time.monotonic() - begun,
    )
