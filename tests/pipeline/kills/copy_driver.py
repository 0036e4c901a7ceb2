"""
A Spark driver that copies a topic exactly once. When its input is closed, it copies the rest and ends.

It is run as a process of its own, ``python -m tests.pipeline.kills.copy_driver '{"bootstrap": ...}'``, so that it can
be killed; its tasks and its commits come to points where they can be held (:mod:`.hold_points`).
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from logbus.pipeline.error_text import short_message
from logbus.pipeline.session import session
from tests.pipeline.kills.held_source import HeldSource


def main(asked: dict[str, Any]) -> None:
    """
    :param asked: ``bootstrap``, ``source``, ``sink``, ``checkpoint``, ``master``, ``per_batch`` (offsets), ``settings``
        of Spark.
    """
    spark = session("copying", master=asked["master"], settings=asked["settings"])
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(HeldSource)
    rows = (
        spark.readStream.format("logbus")
        .option("kafka.bootstrap.servers", asked["bootstrap"])
        .option("subscribe", asked["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", asked["per_batch"])
        .load()
    )
    query = (
        rows.select("key", "value")
        .writeStream.format("logbus")
        .option("kafka.bootstrap.servers", asked["bootstrap"])
        .option("topic", asked["sink"])
        .option("deliveryGuarantee", "exactly-once")
        .option("checkpointLocation", asked["checkpoint"])
        .start()
    )
    closed = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        closed.set()

    threading.Thread(target=listen, daemon=True).start()
    while query.isActive and not closed.wait(0.1):
        pass
    if query.isActive:
        query.processAllAvailable()
        query.stop()
    error = query.exception()
    spark.stop()
    if error is not None:
        print("failed:", short_message(str(error)), flush=True)
        sys.exit(1)
    print("done", flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
