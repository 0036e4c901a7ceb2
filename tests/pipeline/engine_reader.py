"""
Answers SQL on a Spark of another installation, which has no logbus: a program of its own.

    PYTHON engine_reader.py '{"spark.jars": ...}'

Each line of its input is a statement; each answer is a line of output that begins with ``answer``, and has the rows, or
the error, as JSON.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    """Answer until the input ends."""
    builder = SparkSession.builder.master("local[1]").appName("reader")
    for name, value in json.loads(sys.argv[1]).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        try:
            found: dict[str, object] = {"rows": [list(row) for row in spark.sql(json.loads(line)).collect()]}
        except Exception as e:
            found = {"error": str(e)}
        print("answer", json.dumps(found, default=str), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
