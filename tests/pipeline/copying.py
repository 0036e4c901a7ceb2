"""
A driver that copies one topic to another, exactly once, until its input is closed: then it copies what is left, and
ends. It says ``batch N SECONDS`` for each batch that is done.

It is run as a process of its own, ``python -m tests.pipeline.copying '{"bootstrap": ...}'``, so that it can be killed.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from logbus.pipeline.session import session


def main(asked: dict[str, Any]) -> None:
    """
    :param asked: ``bootstrap``, ``source``, ``sink``, ``checkpoint``, ``master``, ``per_batch`` (offsets), ``settings``
        of Spark.
    """
    spark = session("copying", master=asked["master"], settings=asked["settings"])
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "50")
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
    said: set[int] = set()

    def say() -> None:
        for each in query.recentProgress:
            # Spark tells of what is idle, too.
            if each["numInputRows"] and each["batchId"] not in said:
                said.add(each["batchId"])
                print(f"batch {each['batchId']} {each['durationMs']['triggerExecution'] / 1000}", flush=True)

    while query.isActive and not closed.wait(0.05):
        say()
    if query.isActive:
        query.processAllAvailable()
        say()
        query.stop()
    error = query.exception()
    spark.stop()
    if error is not None:
        print(f"failed {error}", flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
