"""
A driver that loads a topic into a table and follows it, until its input is closed: then it loads what is left, and
ends. It says ``told ...`` for each thing that the load tells, and in the end ``found`` with rows and different offsets.

It is run as a process of its own, ``python -m tests.pipeline.loading_driver '{"bootstrap": ...}'``, so that it can be
killed; or so that it kills itself before one of the steps by which files come, move and go.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from logbus.pipeline.jobs.load import LoadOptions, run
from logbus.pipeline.jobs.payloads import JsonPayload
from logbus.pipeline.jobs.watching import Watch
from logbus.pipeline.lake.files import LocalFiles
from logbus.pipeline.session import session

STEPS = ("create", "move", "delete", "sync")


def _mortal(left: int) -> None:
    """Kill this process and its Java before the step with this number."""
    steps = iter(range(left, -1, -1))

    def dying(step: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if next(steps) == 0:
                os.killpg(os.getpgid(0), signal.SIGKILL)
            return step(*arguments)

        return call

    for name in STEPS:
        setattr(LocalFiles, name, dying(getattr(LocalFiles, name)))


def main(asked: dict[str, Any]) -> None:
    """
    :param asked: ``bootstrap``, ``topic``, ``table``, ``master``, ``settings`` of Spark; ``steps`` to live for, or
        null.
    """
    spark = session("loading", master=asked["master"], settings=asked["settings"])
    spark.sparkContext.setLogLevel("ERROR")
    if asked["steps"] is not None:
        _mortal(asked["steps"])
    watch = Watch(lambda line: print("told", line, flush=True))

    def listen() -> None:
        sys.stdin.read()
        watch.stop()

    threading.Thread(target=listen, daemon=True).start()
    source = {"kafka.bootstrap.servers": asked["bootstrap"], "subscribe": asked["topic"]}
    payload = JsonPayload(schema="number INT")

    def load(batch_offsets: int, follow: float | None, watch: Watch) -> None:
        options = LoadOptions(
            source=source, table=asked["table"], payload=payload, batch_offsets=batch_offsets, compact=3, follow=follow
        )
        run(spark, options, watch)

    load(400, 0.05, watch)
    load(1_000_000, None, Watch(watch.tell))  # What is left may be much.
    rows = spark.read.parquet(asked["table"]).select("partition", "offset")
    print("found", rows.count(), rows.distinct().count(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
