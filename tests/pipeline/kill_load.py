"""A load that follows a topic, while its driver, its executors and their workers are killed."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet
from attrs import define, field, frozen
from confluent_kafka import Producer

from logbus.testing import Broker
from tests.pipeline.kill_sink import SETTINGS
from tests.pipeline.loading import make
from tests.pipeline.standalone import Standalone, kill

PARTITIONS = 3
PATIENCE = 240.0
LONGEST = 4.0
"""Seconds from the first commit of a round to its kill, at most."""

MOST_STEPS = 45
"""Changes of files until a driver kills itself: those of about four commits and a compaction."""

LOCAL = "local[2]"

Place = tuple[int, int]


@frozen
class Report:
    """
    :ivar records: that were written to the topic.
    :ivar missing: of them that are neither in the table nor in quarantine;  ``double``: that are there more than once.
    :ivar foreign: that are there, and nobody has written;  ``misplaced``: in the table instead of in quarantine, or the
        other way.
    :ivar observations: of the table as any reader sees it, while loads were killed;  ``doubled``: of them, those that
        saw an offset twice.
    :ivar kills: how many of each kind.
    :ivar failures: why loads ended by themselves; they were started again.
    """

    records: int
    missing: int
    double: int
    foreign: int
    misplaced: int
    observations: int
    doubled: int
    kills: dict[str, int]
    commits: int
    failures: tuple[str, ...]
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether each record is there once, and was never there twice."""
        return not (self.missing or self.double or self.foreign or self.misplaced or self.doubled)


def places(table: Path) -> list[Place]:
    """
    What any reader finds who knows nothing of commits; with what is there twice.

    :raise FileNotFoundError: a file has gone since the directory was listed: readers fail then.
    """
    files = [
        each
        for each in table.rglob("*.parquet")
        if not any(part.startswith(("_", ".")) for part in each.relative_to(table).parts)
    ]
    found: list[Place] = []
    for each in files:
        columns = pyarrow.parquet.ParquetFile(each).read(["partition", "offset"])
        found += zip(columns["partition"].to_pylist(), columns["offset"].to_pylist(), strict=True)
    return found


@define(eq=False)
class Topic:
    """Records that come all the time; every seventh is no JSON."""

    bootstrap: str
    name: str
    written: dict[Place, bool] = field(factory=dict)
    _stopping: threading.Event = field(factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Topic:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        assert self._thread is not None
        self._thread.join()

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20})

        def told(error: Any, message: Any) -> None:
            assert error is None, error
            self.written[message.partition(), message.offset()] = message.value().startswith(b"{")

        number = 0
        while not self._stopping.wait(0.1):
            for _ in range(20):
                value = b"{" if number % 7 else b"no "
                producer.produce(self.name, value + b'"number": %d}' % number, on_delivery=told)
                number += 1
            producer.poll(0)
        producer.flush()


@define(eq=False)
class Watcher:
    """Looks at a table again and again."""

    table: Path
    seen: int = 0
    doubled: int = 0
    _stopping: threading.Event = field(factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Watcher:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        assert self._thread is not None
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(0.3):
            with contextlib.suppress(FileNotFoundError):
                found = places(self.table)
                self.seen += 1
                self.doubled += len(found) != len(set(found))


@define(eq=False)
class Driver:
    """A load in a process of its own."""

    process: subprocess.Popen[str]
    master: str
    lines: queue.Queue[str] = field(factory=queue.Queue)
    last: str = ""

    @classmethod
    def start(cls, asked: dict[str, Any]) -> Driver:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.loading_driver", json.dumps(asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self = cls(process, asked["master"])
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.last = line.strip() or self.last
            if line.startswith(("told ", "found ")):
                self.lines.put(line)
        self.lines.put("")

    def wait_for(self, word: str) -> str:
        """The next line that it says with a word; "" if it ended instead."""
        while (line := self.lines.get(timeout=PATIENCE)) and word not in line:
            pass
        return line

    def forget(self) -> None:
        """What was said does not count any more."""
        while not self.lines.empty():
            self.lines.get()

    def kill(self) -> None:
        """The driver's Python and Java; what they started notices."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@define(eq=False)
class Rounds:
    """Who is killed, and when."""

    chance: Random
    say: Callable[[str], object]
    asked: dict[str, Any]
    spark: Standalone
    driver: Driver | None = None
    kills: Counter[str] = field(factory=Counter)
    failures: list[str] = field(factory=list)

    def start(self, master: str, steps: int | None = None) -> Driver:
        """A driver, there where it is to be."""
        self.driver = Driver.start({**self.asked, "master": master, "steps": steps})
        return self.driver

    def running(self, master: str) -> Driver:
        """A driver that has just committed."""
        while True:
            driver = self.driver or self.start(master)
            if driver.master != master:
                driver.kill()
                self.driver = None
                continue
            driver.forget()
            if driver.process.poll() is None and driver.wait_for("commit "):
                return driver
            self.ended()

    def ended(self) -> None:
        """The driver has ended, though nobody has killed it."""
        assert self.driver is not None
        self.driver.process.wait(PATIENCE)
        self.failures.append(f"exit {self.driver.process.returncode}: {self.driver.last:.300}")
        self.say(f"  the load ended: {self.failures[-1]}")
        self.driver = None

    def round(self, number: int, what: str) -> None:
        """
        One kill.

        :param what: ``executor``, ``worker`` or ``driver`` of the standalone Spark; ``all`` of one that is a process;
            ``inside``: a driver that kills itself while it commits.
        """
        if what == "inside":
            self.kill_inside(number)
            return
        driver = self.running(LOCAL if what == "all" else self.spark.url)
        delay = self.chance.uniform(0, LONGEST)
        time.sleep(delay)
        if what in ("driver", "all"):
            driver.kill()
            self.driver = None
        else:
            found = self.spark.executors() if what == "executor" else self.spark.python_workers()
            if not found:
                self.say(f"round {number}: no {what} was there to be killed")
                return
            kill(self.chance.choice(found))
        self.kills[what] += 1
        self.say(f"round {number}: {what} killed after {delay:.2f} s")

    def kill_inside(self, number: int) -> None:
        if self.driver is not None:
            self.driver.kill()
        steps = self.chance.randrange(MOST_STEPS)
        driver = self.start(LOCAL, steps)
        driver.process.wait(PATIENCE)
        self.driver = None
        assert driver.process.returncode == -signal.SIGKILL, driver.last
        self.kills["inside"] += 1
        self.say(f"round {number}: driver killed before step {steps} of its commits")

    def finish(self) -> str:
        """Load all that is left, undisturbed; what a Spark finds then."""
        while True:
            driver = self.driver or self.start(LOCAL)
            assert driver.process.stdin is not None
            with contextlib.suppress(OSError):
                driver.process.stdin.close()
            if line := driver.wait_for("found "):
                driver.process.wait(PATIENCE)
                return line
            self.ended()


def run(rounds: int, seed: int, say: Callable[[str], object] = print) -> Report:
    """
    Of five rounds, kill an executor, a Python worker, a driver, a Spark that is one process, and a driver in a commit.

    :param seed: of who is killed when.
    """
    begun = time.monotonic()
    chance = Random(seed)
    kinds = [("inside", "executor", "all", "worker", "driver")[number % 5] for number in range(rounds)]
    kinds.sort(key=["executor", "worker", "driver", "all", "inside"].index)
    with contextlib.ExitStack() as stack:
        table = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="logbus-lake-"))) / "table"
        broker = stack.enter_context(Broker(in_process=False))
        spark = stack.enter_context(Standalone())
        name = make(broker, PARTITIONS)
        asked = {"bootstrap": broker.bootstrap, "topic": name, "table": str(table), "settings": SETTINGS}
        them = Rounds(chance, say, asked, spark)
        try:
            with Topic(broker.bootstrap, name) as topic, Watcher(table) as watcher:
                for number, what in enumerate(kinds):
                    them.round(number, what)
            said = them.finish().split()
        finally:
            if them.driver is not None:
                them.driver.kill()
        good, odd = Counter(places(table)), Counter(places(table / "_quarantine"))
        commits = len(list((table / "_logbus" / "commits").iterdir()))
    both = good + odd
    assert said[1:] == [str(good.total()), str(len(good))], f"Spark finds {said}, not {good.total()}"
    return Report(
        records=len(topic.written),
        missing=sum(each not in both for each in topic.written),
        double=sum(count > 1 for count in both.values()),
        foreign=sum(each not in topic.written for each in both),
        misplaced=sum((each in good) != is_good for each, is_good in topic.written.items()),
        observations=watcher.seen,
        doubled=watcher.doubled,
        kills=dict(them.kills),
        commits=commits,
        failures=tuple(them.failures),
        seconds=round(time.monotonic() - begun, 1),
    )
