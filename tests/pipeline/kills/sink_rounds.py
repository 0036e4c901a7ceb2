"""Kills the driver and the executors of a stream that copies a topic exactly once."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.pipeline.committed_messages import committed_messages, create_topic
from tests.pipeline.kills.feed import PARTITIONS, Feed
from tests.pipeline.kills.rounds import Report, Rounds, plan
from tests.pipeline.kills.workplace import Workplace
from tests.pipeline.standalone import Standalone

SOURCE, SINK = "in", "out"
PER_BATCH = 150
WHO = ("worker", "driver", "executor", "all", "committer", "driver")
_TASKS = ("task-has-fenced", "task-has-sent", None)
_COMMITS = ("batch-prepared", "batch-noted", "batch-committed-in-part", "batch-committed")
_DRIVERS = ("task-has-fenced", "task-has-sent", *_COMMITS, None)
POINTS = {"worker": _TASKS, "executor": _TASKS, "driver": _DRIVERS, "all": _DRIVERS, "committer": _COMMITS}


def planned(checkpoint: Path) -> tuple[int, int]:
    """How many batches a query has begun, and how many records are in them."""
    names = [path.name for path in (checkpoint / "offsets").glob("*") if path.name.isdigit()]
    if not names:
        return 0, 0
    number = max(map(int, names))
    offsets = json.loads((checkpoint / "offsets" / str(number)).read_text().splitlines()[-1])
    return number + 1, sum(offsets[SOURCE].values())


def run(
    rounds: int, seed: int, say: Callable[[str], object] = print, spark: Standalone | None = None, commits: int = 2
) -> Report:
    """
    Kill a Python worker, an executor, a driver, a Spark that is one process, or the process that commits.

    :param seed: of who is killed when.
    :param spark: one that runs; or one is started.
    :param commits: before each kill.
    """
    begun = time.monotonic()
    chance = Random(seed)
    with Workplace(spark or Standalone()) as place:
        checkpoint, bootstrap = place.directory / "checkpoint", place.broker.bootstrap
        for topic in (SOURCE, SINK):
            create_topic(bootstrap, topic, PARTITIONS)
        asked = {"source": SOURCE, "sink": SINK, "checkpoint": str(checkpoint), "per_batch": PER_BATCH}
        them = Rounds(chance, say, place, "tests.pipeline.kills.copy_driver", asked, "batch-committed", (), commits)
        try:
            with Feed(bootstrap, SOURCE, lambda number: b"%d" % number, lambda: planned(checkpoint)[1]) as feed:
                for number, each in enumerate(plan(rounds, chance, WHO, POINTS)):
                    them.round(number, each)
            them.finish()
        finally:
            them.away()
        copied = Counter(int(each.value()) for each in committed_messages(bootstrap, SINK))
        batches, _ = planned(checkpoint)
    wanted = set(feed.written.values())
    return Report(
        records=len(wanted),
        missing=len(wanted - copied.keys()),
        double=sum(count > 1 for count in copied.values()),
        foreign=len(copied.keys() - wanted),
        kills=tuple(them.kills),
        commits=batches,
        failures=tuple(them.failures),
        seconds=time.monotonic() - begun,
    )
