"""A Spark driver that reads a topic slowly enough to be disturbed, and prints what it read as JSON."""

from __future__ import annotations

import json
import sys

from logbus.pipeline.session import session
from tests.pipeline.standalone import SETTINGS


def main(master: str, bootstrap: str, topic: str, options: str) -> None:
    """Read everything; say so first, and print partition, offset and value of each row at the end."""
    spark = session("reading", master=master, settings=SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **json.loads(options)}
    table = spark.read.format("logbus").options(**given).load()
    print("reading", flush=True)
    rows = table.selectExpr("partition", "offset", "cast(value as string)").collect()
    print(json.dumps(sorted(list(row) for row in rows)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
