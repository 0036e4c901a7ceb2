"""Kills the driver, the executors and their workers of a load into a table of Iceberg that follows a topic."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet
from attrs import define, field
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from logbus.pipeline.lake.iceberg.catalogs import catalog
from logbus.pipeline.lake.iceberg.quarantine import SUFFIX
from logbus.pipeline.lake.iceberg.table import IcebergTable
from tests.pipeline.kills.feed import PARTITIONS, Feed, Looper, Place
from tests.pipeline.kills.load_rounds import WHO, LoadReport, is_good, value
from tests.pipeline.kills.rounds import Rounds, plan
from tests.pipeline.kills.workplace import Workplace
from tests.pipeline.lake.iceberg.fixtures import NAME, catalog_in
from tests.pipeline.load_fixtures import make
from tests.pipeline.standalone import Standalone

_TASKS = ("task-has-fetched", "task-has-given-on", None)
_EARLY = "claim-made"
_DRIVERS = (
    "task-has-given-on",
    "load-written",
    "load-odd-made",
    "load-drafted",
    "load-made",
    "compact-written",
    "compact-drafted",
    "compact-made",
    _EARLY,
    None,
)
POINTS = {"worker": _TASKS, "executor": _TASKS, "driver": _DRIVERS, "all": _DRIVERS}


def places(lake: Catalog, name: str, known: dict[str, list[Place]] | None = None) -> list[Place]:
    """
    What a reader of Iceberg finds who knows nothing of logbus; with what is there twice.

    :param known: what is in files that were read before: they do not change.
    """
    try:
        table = lake.load_table(name)
    except NoSuchTableError:
        return []
    known = {} if known is None else known
    found: list[Place] = []
    for task in table.scan().plan_files():
        path = task.file.file_path
        if path not in known:
            columns = pyarrow.parquet.ParquetFile(urlsplit(path).path).read(["partition", "offset"])
            known[path] = list(zip(columns["partition"].to_pylist(), columns["offset"].to_pylist(), strict=True))
        found += known[path]
    return found


@define(eq=False)
class Watcher:
    """Looks at a table again and again; a context manager."""

    lake: Catalog
    seen: int = 0
    doubled: int = 0
    _known: dict[str, list[Place]] = field(factory=dict)
    _looper: Looper = field(init=False)

    def __enter__(self) -> Watcher:
        self._looper = Looper(0.2, self._look)
        return self

    def __exit__(self, *_: object) -> None:
        self._looper.stop()

    def _look(self) -> None:
        found = places(self.lake, NAME, self._known)
        self.seen += 1
        self.doubled += len(found) != len(set(found))


def run(
    rounds: int, seed: int, say: Callable[[str], object] = print, spark: Standalone | None = None, commits: int = 2
) -> LoadReport:
    """See :func:`.load_rounds.run`."""
    begun = time.monotonic()
    chance = Random(seed)
    with Workplace(spark or Standalone()) as place, catalog_in(place.directory) as name:
        lake = catalog(name)
        topic = make(place.broker, PARTITIONS)
        asked: dict[str, Any] = {"topic": topic, "table": NAME, "catalog": name}
        them = Rounds(chance, say, place, "tests.pipeline.kills.iceberg_driver", asked, "load-made", (_EARLY,), commits)

        def taken() -> int:
            topics = IcebergTable.at(None, NAME, name).state.offsets.values()
            return sum(len(offsets) for each in topics for offsets in each.partitions.values())

        try:
            with Feed(place.broker.bootstrap, topic, value, taken) as feed, Watcher(lake) as watcher:
                for number, each in enumerate(plan(rounds, chance, WHO, POINTS)):
                    them.round(number, each)
            said = them.finish().split()
        finally:
            them.away()
        good, odd = Counter(places(lake, NAME)), Counter(places(lake, NAME + SUFFIX))
        commits = IcebergTable.at(None, NAME, name).number
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
