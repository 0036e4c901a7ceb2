"""
Leaves an archive of Spark's classes in the user's cache, from which the Sparks of a test run start in half the time.

``python -m tests.pipeline.write_class_archive``: it loads a few records, so that the classes of a load are among them.
"""

from __future__ import annotations

import sys
import tempfile

from confluent_kafka import Producer

from logbus.cli.app import run_app
from logbus.testing import Broker


def main() -> int:
    """Run a small load that writes the archive; its exit status."""
    with Broker() as broker, tempfile.TemporaryDirectory() as lake:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(100):
            producer.produce("numbers", f'{{"number": {number}}}')
        producer.flush(60)
        where = ["--bootstrap", broker.bootstrap, "--master", "local[2]", "--table", f"{lake}/numbers"]
        what = ["--payload", "json", "--schema", "number BIGINT", "--class-archive", "--quiet"]
        return run_app(["pipeline", "load", "numbers", *where, *what])


if __name__ == "__main__":
    sys.exit(main())
