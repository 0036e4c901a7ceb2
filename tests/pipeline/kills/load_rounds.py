"""Kills the driver, the executors and their workers of a load that follows a topic."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pyarrow.parquet
from attrs import define, field, frozen
from deltalake import DeltaTable

from logbus.pipeline.lake.commit_log import TableState
from logbus.pipeline.lake.delta_log import DeltaLog
from logbus.pipeline.lake.file_system import LocalFileSystem
from logbus.pipeline.lake.formats import DELTA, PARQUET
from logbus.pipeline.lake.table import Table
from tests.pipeline.kills.feed import PARTITIONS, Feed, Looper, Place
from tests.pipeline.kills.rounds import Report, Rounds, plan
from tests.pipeline.kills.workplace import Workplace
from tests.pipeline.load_fixtures import make
from tests.pipeline.standalone import Standalone

WHO = ("worker", "driver", "executor", "all", "driver", "all", "all")
_TASKS = ("task-has-fetched", "task-has-given-on", None)
_EARLY = "claim-made"
_DRIVERS = (
    "task-has-given-on",
    "load-written",
    "load-drafted",
    "load-made",
    "load-file-moved",
    "compact-written",
    "compact-drafted",
    "compact-made",
    "compact-file-gone",
    "compact-file-moved",
    "snapshot-made",
    _EARLY,
    None,
)
_DELTA_DRIVERS = (
    "task-has-given-on",
    "load-written",
    "load-drafted",
    "load-made",
    "load-settled",
    "compact-written",
    "compact-made",
    _EARLY,
    None,
)
POINTS = {"worker": _TASKS, "executor": _TASKS, "driver": _DRIVERS, "all": _DRIVERS}
DELTA_POINTS = {**POINTS, "driver": _DELTA_DRIVERS, "all": _DELTA_DRIVERS}


@frozen(kw_only=True)
class LoadReport(Report):
    """
    :ivar misplaced: records that are in the table instead of in quarantine, or the other way.
    :ivar observations: of the table as any reader sees it, while loads were killed;  ``doubled``: of them, those that
        saw an offset twice.
    """

    misplaced: int
    observations: int
    doubled: int

    @property
    def is_right(self) -> bool:
        """Whether each record is there once, and was never there twice."""
        return super().is_right and not (self.misplaced or self.doubled)

    def lines(self) -> Iterator[str]:
        """All of it, for people."""
        yield from super().lines()
        yield f"in the table instead of in quarantine, or the other way: {self.misplaced}"
        yield f"a plain reader looked {self.observations} times; saw a record twice: {self.doubled} times"


def places(table: Path, known: dict[Path, list[Place]] | None = None) -> list[Place]:
    """
    What any reader finds, with what is there twice: of Delta Lake; else one who knows nothing of commits.

    :param known: what is in files that were read before: they do not change.
    :raise FileNotFoundError: a file has gone since the directory was listed: readers fail then.
    """
    files = [
        Path(each) for each in (DeltaTable(str(table)).file_uris() if DeltaTable.is_deltatable(str(table)) else ())
    ] or [
        each
        for each in table.rglob("*.parquet")
        if not any(part.startswith(("_", ".")) for part in each.relative_to(table).parts)
    ]
    known = {} if known is None else known
    found: list[Place] = []
    for each in files:
        if each in known:
            each.stat()
        else:
            columns = pyarrow.parquet.ParquetFile(each).read(["partition", "offset"])
            known[each] = list(zip(columns["partition"].to_pylist(), columns["offset"].to_pylist(), strict=True))
        found += known[each]
    return found


@define(eq=False)
class Watcher:
    """Looks at a table again and again; a context manager."""

    table: Path
    seen: int = 0
    doubled: int = 0
    _known: dict[Path, list[Place]] = field(factory=dict)
    _looper: Looper = field(init=False)

    def __enter__(self) -> Watcher:
        self._looper = Looper(0.1, self._look)
        return self

    def __exit__(self, *_: object) -> None:
        self._looper.stop()

    def _look(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            found = places(self.table, self._known)
            self.seen += 1
            self.doubled += len(found) != len(set(found))


def is_good(number: int) -> bool:
    """Whether a record can be read: every seventh is no JSON."""
    return number % 7 != 0


def value(number: int) -> bytes:
    """Of a record."""
    return (b"{" if is_good(number) else b"no ") + b'"number": %d}' % number


def run(
    rounds: int,
    seed: int,
    say: Callable[[str], object] = print,
    spark: Standalone | None = None,
    commits: int = 2,
    table_format: str = PARQUET,
) -> LoadReport:
    """
    Kill a Python worker, an executor, a driver, or a Spark that is one process, at points of a load and its commits.

    :param seed: of who is killed when.
    :param spark: one that runs; or one is started.
    :param commits: before each kill.
    :param table_format: of the table.
    """
    begun = time.monotonic()
    chance = Random(seed)
    with Workplace(spark or Standalone()) as place:
        table = place.directory / "table"
        is_delta = table_format == DELTA
        log: DeltaLog | Table = DeltaLog(str(table)) if is_delta else Table(LocalFileSystem(table))
        topic = make(place.broker, PARTITIONS)
        asked = {"topic": topic, "table": str(table), "format": table_format}
        them = Rounds(chance, say, place, "tests.pipeline.kills.load_driver", asked, "load-made", (_EARLY,), commits)

        def taken() -> int:
            state = log.refresh()
            topics = (state.load if isinstance(state, TableState) else state).offsets.values()
            return sum(len(offsets) for each in topics for offsets in each.partitions.values())

        try:
            with Feed(place.broker.bootstrap, topic, value, taken) as feed, Watcher(table) as watcher:
                for number, each in enumerate(plan(rounds, chance, WHO, DELTA_POINTS if is_delta else POINTS)):
                    them.round(number, each)
            said = them.finish().split()
        finally:
            them.away()
        good, odd = Counter(places(table)), Counter(places(table / "_quarantine"))
        log.refresh()
        commits = log.number if isinstance(log, DeltaLog) else log.state.number
    both = good + odd
    assert said == ["found", str(good.total()), str(len(good))], f"Spark {said}, and there are {good.total()} rows"
    return LoadReport(
        records=len(feed.written),
        missing=sum(each not in both for each in feed.written),
        double=sum(count > 1 for count in both.values()),
        foreign=sum(each not in feed.written for each in both),
        misplaced=sum((each in good) != is_good(number) for each, number in feed.written.items()),
        observations=watcher.seen,
        doubled=watcher.doubled,
        kills=tuple(them.kills),
        commits=commits,
        failures=tuple(them.failures),
        seconds=time.monotonic() - begun,
    )
