"""
Kills many drivers of a load, at each operation of its commits, at little cost.

What takes long before a batch is to start Java and Python, and Java's first look at its classes. Here drivers are
forked from a Python that has imported all, and connect to a Java of Spark's that is there already, with its context and
workers; it is killed with every twentieth, and started again. What a driver had under way when it was killed alone
goes on in Java: tasks write files whose commit nobody makes, while the next driver loads the same records.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import polars
from attrs import define, field
from confluent_kafka import Producer

from logbus.pipeline.lake.formats import DELTA, ICEBERG, PARQUET
from tests.pipeline.kills import iceberg_rounds, load_rounds
from tests.pipeline.kills.feed import PARTITIONS, Place
from tests.pipeline.kills.hold_points import VARIABLE
from tests.pipeline.kills.load_rounds import is_good, value
from tests.pipeline.kills.workplace import PATIENCE, Workplace
from tests.pipeline.lake.iceberg.fixtures import NAME, catalog_in
from tests.pipeline.load_fixtures import make
from tests.pipeline.standalone import Standalone

WITH_JAVA = 20
"""Every so many-th kill is Java's as well."""

PER_ROUND = 700
"""Records: more than a driver loads before it comes to where it is killed."""

_POINTS: Mapping[str, Sequence[str | None]] = {
    PARQUET: load_rounds.POINTS["driver"],
    DELTA: load_rounds.DELTA_POINTS["driver"],
    ICEBERG: iceberg_rounds.POINTS["driver"],
}
_MODULES = {PARQUET: "load_driver", DELTA: "load_driver", ICEBERG: "iceberg_driver"}
_LOOK = 0.02
_MOST_FAILURES = 5
_LONG_PATIENCE = 4 * PATIENCE
"""Seconds: half of the records may be left to the last driver."""


class _Told:
    """A driver's input: it ends when a file is there."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> str:
        while not self._path.exists():
            time.sleep(_LOOK)
        return ""


def drive(
    module: str, asked: Mapping[str, Any], environ: Mapping[str, str], told: str, log: str, *, is_first: bool
) -> None:
    """
    Be a driver, in a process that was forked; its output goes to a file.

    :param is_first: in its Java, which has no context yet.
    """
    os.environ.update(environ)
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdin = _Told(Path(told))  # type: ignore[assignment]
    if not is_first:
        _attach()
    importlib.import_module(f"tests.pipeline.kills.{module}").main(dict(asked))


def _attach() -> None:
    """Go on with the context of the driver before."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    gateway, jvm = SparkContext._gateway, SparkContext._jvm
    found: Any = jvm.org.apache.spark.SparkContext.getOrCreate()  # type: ignore[union-attr]
    java: Any = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(found)  # type: ignore[union-attr]
    SparkContext(gateway=gateway, jsc=java, conf=SparkConf(_jconf=java.getConf()))


@define(eq=False)
class Drivers:
    """
    Drivers of a load, one at a time; a context manager.

    :ivar points: that they pass.
    :ivar failures: why drivers ended by themselves.
    """

    place: Workplace
    module: str
    asked: Mapping[str, Any]
    environ: Mapping[str, str]
    points: Sequence[str | None] = ()
    failures: list[str] = field(factory=list)
    _java: Any = None
    _process: Any = None
    _started: int = 0
    _context: Any = field(factory=lambda: multiprocessing.get_context("forkserver"))

    def __enter__(self) -> Drivers:
        self._context.set_forkserver_preload([f"tests.pipeline.kills.{self.module}", "pandas", "pyspark.sql.functions"])
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(java=True)

    @property
    def log(self) -> Path:
        """The output of the last one."""
        return self.place.directory / f"driver-{self._started}.log"

    def running(self) -> None:
        """Start one, unless one runs."""
        if self._process is not None and self._process.is_alive():
            return
        if self._process is not None:
            self.failures.append(f"exit {self._process.exitcode}: {self.log.read_text()[-300:]}")
            assert len(self.failures) <= _MOST_FAILURES, self.failures
        is_first = self._java is None
        self._start_java()
        self._started += 1
        parameters = self._java.gateway_parameters
        environ = {
            **self.environ,
            "PYSPARK_GATEWAY_PORT": str(parameters.port),
            "PYSPARK_GATEWAY_SECRET": str(parameters.auth_token),
        }
        self._process = self._context.Process(
            target=drive,
            args=(self.module, self.asked, environ, str(self.told), str(self.log)),
            kwargs={"is_first": is_first},
        )
        self._process.start()

    @property
    def told(self) -> Path:
        """The file that tells drivers to take what is left."""
        return self.place.directory / "finish"

    def _start_java(self) -> None:
        from pyspark import SparkConf
        from pyspark.java_gateway import launch_gateway

        if self._java is None:
            conf = SparkConf(loadDefaults=False)
            conf.setAll([(name, each) for name, each in self.place.settings.items() if "executor" not in name])
            self._java = launch_gateway(conf)  # type: ignore[no-untyped-call]

    def kill(self, *, java: bool) -> None:
        """Kill the one that runs."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            self._process.join()
            self._process = None
        if java and self._java is not None:
            self._java.proc.kill()
            self._java.proc.wait()
            self._java.shutdown()
            self._java = None

    def wait(self, what: str, find: Callable[[], Any]) -> None:
        """
        Wait until something is found, while a driver runs.

        :raise AssertionError: it takes too long.
        """
        deadline = time.monotonic() + PATIENCE
        while not find():
            if time.monotonic() > deadline:
                passed = ", ".join(f"{self.place.orders.count(str(each))} x {each}" for each in self.points if each)
                last = self.log.read_text()[-500:]
                raise AssertionError(f"{what}: not in {PATIENCE:g} s; {self.failures}; {passed}; {last}")
            self.running()
            time.sleep(_LOOK)

    def finish(self) -> str:
        """
        Have one take all that is left, undisturbed; what it says in the end.

        :raise AssertionError: it fails.
        """
        self.told.touch()
        self.running()
        self._process.join(_LONG_PATIENCE)
        assert self._process.exitcode == 0, self.log.read_text()[-1000:]
        self._process = None
        return self.log.read_text().strip().rpartition("\n")[2]


@define
class DriverReport:
    """
    :ivar kills: by the point;  ``with_java``: of them, those of Java as well.
    :ivar found: the records that each program finds, which all are to be once.
    """

    records: int
    kills: Counter[str]
    with_java: int
    failures: Sequence[str]
    seconds: float
    wrong: Sequence[str]

    def lines(self) -> Iterator[str]:
        """All of it, for people."""
        yield f"{self.kills.total()} kills in {self.seconds:.0f} s, {self.with_java} of them with Java:"
        yield from (f"  {count} x {what}" for what, count in sorted(self.kills.items()))
        yield f"ended by themselves and were started again: {len(self.failures)}"
        yield from (f"  {each}" for each in self.failures)
        yield f"records {self.records}; {'; '.join(self.wrong) or 'each once, by all readers'}"

    @property
    def is_right(self) -> bool:
        """Whether each record is there once."""
        return not self.wrong


def run(
    rounds: int,
    seed: int,
    say: Callable[[str], object] = print,
    table_format: str = DELTA,
    seconds: float = float("inf"),
) -> DriverReport:
    """
    Kill drivers of a load, and look at what is in the table.

    :param seed: of when who is killed.
    :param seconds: after them no more are killed, so that a slow machine comes to an end.
    """
    begun, chance = time.monotonic(), Random(seed)
    standalone = Standalone()
    standalone.url = "local[1]"  # None is needed.
    kills: Counter[str] = Counter()
    with_java = 0
    with Workplace(standalone) as place, catalog_in(place.directory) as catalog:
        topic = make(place.broker, PARTITIONS)
        written = _produce(place.broker.bootstrap, topic, rounds * PER_ROUND)
        table = NAME if table_format == ICEBERG else str(place.directory / "table")
        asked = {
            "bootstrap": place.broker.bootstrap,
            "topic": topic,
            "table": table,
            "master": "local[1]",
            "settings": {name: each for name, each in place.settings.items() if "xecutor" not in name},
            **({"catalog": catalog} if table_format == ICEBERG else {"format": table_format}),
        }
        names = [name for name in os.environ if name.startswith("PYICEBERG_") or name in (VARIABLE, "PYTHONPATH")]
        environ = {name: os.environ[name] for name in names}
        points = _POINTS[table_format]
        with Drivers(place, _MODULES[table_format], asked, environ, points) as drivers:
            for number, point in enumerate(islice(cycle(chance.sample(points, len(points))), rounds)):
                if time.monotonic() - begun > seconds:
                    say(f"no more kills after {seconds:g} s")
                    break
                java = number % WITH_JAVA == WITH_JAVA - 1
                _kill(drivers, point, chance, java=java)
                kills[str(point or "anywhere")] += 1
                with_java += java
                say(f"round {number}, {time.monotonic() - begun:.0f} s: killed at {point}{' with Java' * java}")
            said = drivers.finish().split()
        good, odd = readers(table_format, table, catalog)
    wanted = {place: number for place, number in written.items() if is_good(number)}
    wrong = []
    for name, found in good.items():
        if Counter(found) != Counter((*place, number) for place, number in wanted.items()):
            wrong.append(f"{name} finds {len(found)} rows, {len(set(found))} different, of {len(wanted)}")
    if sorted(odd) != sorted(written.keys() - wanted.keys()):
        wrong.append(f"in quarantine are {len(odd)}, {len(set(odd))} different, of {len(written) - len(wanted)}")
    if said != ["found", str(len(wanted)), str(len(wanted))]:
        wrong.append(f"Spark {' '.join(said)} of {len(wanted)}")
    return DriverReport(len(written), kills, with_java, drivers.failures, time.monotonic() - begun, wrong)


def _kill(drivers: Drivers, point: str | None, chance: Random, *, java: bool) -> None:
    orders = drivers.place.orders
    if point is None:
        enough = orders.count("load-made") + 1
        drivers.wait("a commit", lambda: orders.count("load-made") >= enough)
        time.sleep(chance.uniform(0, 0.5))
    else:
        if point != "claim-made":
            enough = orders.count(point) + chance.randint(0, 1)
            drivers.wait(f"point {point}", lambda: orders.count(point) >= enough)
        orders.hold(point)
        drivers.wait(f"point {point}", orders.held)
    drivers.kill(java=java)
    orders.release()


def _produce(bootstrap: str, topic: str, count: int) -> dict[Place, int]:
    """The numbers of records, by where they are."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    written: dict[Place, int] = {}

    def told(number: int) -> Callable[[Any, Any], None]:
        def note(error: Any, message: Any) -> None:
            assert error is None, error
            written[message.partition(), message.offset()] = number

        return note

    for number in range(count):
        producer.produce(topic, value(number), on_delivery=told(number))
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0
    return written


def readers(kind: str, table: str, catalog: str) -> tuple[dict[str, list[tuple[int, int, int]]], list[Place]]:
    """What each program finds: partition, offset and number of each row; and, of the quarantine, the first two."""
    columns = '"partition", "offset", number'
    found: dict[str, Any]
    if kind == ICEBERG:
        from pyiceberg.catalog import load_catalog

        views, odd = (load_catalog(catalog).load_table(name) for name in (table, f"{table}_quarantine"))
        scan = views.scan(selected_fields=("partition", "offset", "number"))
        found = {
            "pyiceberg": scan.to_arrow().select(["partition", "offset", "number"]),
            "duckdb": scan.to_duckdb("rows").sql(f"SELECT {columns} FROM rows").to_arrow_table(),
            "polars": polars.scan_iceberg(views).select("partition", "offset", "number").collect().to_arrow(),
        }
        rest = odd.scan().to_arrow()
    elif kind == DELTA:
        from deltalake import DeltaTable

        from tests.pipeline.delta_rows import delta_rows

        files = DeltaTable(table).file_uris()
        found = {
            "delta-rs": delta_rows(table, "partition", "offset", "number"),
            "duckdb": duckdb.sql(f"SELECT {columns} FROM read_parquet({files})").to_arrow_table(),
            "polars": polars.read_delta(table).select("partition", "offset", "number").to_arrow(),
        }
        rest = delta_rows(f"{table}/_quarantine")
    else:
        found = {
            "duckdb": duckdb.sql(f"SELECT {columns} FROM read_parquet('{table}/*.parquet')").to_arrow_table(),
            "polars": polars.read_parquet(f"{table}/*.parquet", columns=["partition", "offset", "number"]).to_arrow(),
        }
        rest = duckdb.sql(f"SELECT * FROM read_parquet('{table}/_quarantine/*.parquet')").to_arrow_table()
    rows = {name: list(zip(*(each[at].to_pylist() for at in range(3)), strict=True)) for name, each in found.items()}
    return rows, list(zip(rest["partition"].to_pylist(), rest["offset"].to_pylist(), strict=True))


def main() -> None:
    """``python -m tests.pipeline.kills.driver_rounds FORMAT ROUNDS SEED [SECONDS]``."""
    kind, rounds, seed, *seconds = sys.argv[1:]
    limit = float(*seconds or ["inf"])
    report = run(int(rounds), int(seed), lambda line: print(line, flush=True), kind, limit)
    print(*report.lines(), sep="\n")
    print(json.dumps({"format": kind, "right": report.is_right}), flush=True)
    sys.exit(not report.is_right)


if __name__ == "__main__":
    main()
