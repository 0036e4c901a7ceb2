"""
Kills drivers and executors at chosen points and at random moments, and checks the records::

    python -m tests.pipeline.kills --sink --rounds 20
    python -m tests.pipeline.kills --load --rounds 20

SIGTERM and Ctrl-C end it with all that it has started.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.pipeline.kills.rounds import Report


def _end(number: int, _: FrameType | None) -> None:
    """Leave everything that was entered; a second signal does not disturb that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(128 + number)


def main() -> int:
    """
    :returns: 1 if a record is missing or double.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sink", action="store_true", help="a stream that copies a topic exactly once")
    parser.add_argument("--load", action="store_true", help="a load that follows a topic")
    parser.add_argument("--format", default="parquet", help="of the table that is loaded: parquet, delta or iceberg")
    parser.add_argument("--rounds", type=int, default=4, help="how many are killed")
    parser.add_argument("--seed", type=int, default=1, help="decides who and when")
    asked = parser.parse_args()
    if not asked.sink and not asked.load:
        parser.error("what is to be killed? --sink or --load")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    from tests.pipeline.kills import iceberg_rounds, load_rounds, sink_rounds

    loads = iceberg_rounds.run if asked.format == "iceberg" else partial(load_rounds.run, table_format=asked.format)

    jobs: list[tuple[bool, str, Callable[..., Report]]] = [
        (asked.sink, "sink", sink_rounds.run),
        (asked.load, "load", loads),
    ]
    is_right = True
    for is_asked, name, kill in jobs:
        if is_asked:
            report = kill(asked.rounds, asked.seed, lambda line: print(line, flush=True))
            print(f"\n{name}, seed {asked.seed}: {'right' if report.is_right else 'WRONG'}")
            print(*report.lines(), sep="\n", flush=True)
            is_right &= report.is_right
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
