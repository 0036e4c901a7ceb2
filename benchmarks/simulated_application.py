"""
Measures how much faster than real time applications are simulated: processor time beside virtual time::

    python -m benchmarks.simulated_application [--seeds 10] [--seconds 60]

Each seed is one run of an application on asyncio or Twisted: two processes that read orders and write invoices, three
brokers, and faults every three seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from twisted.logger import globalLogBeginner

from logbus.testing.simulation import SimulatedApplication, simulate
from tests.simulation import applications

APPLICATIONS = ("at_least_once", "exactly_once", "on_twisted")


def ratio(application: SimulatedApplication, seeds: int, seconds: float) -> float:
    """How many virtual seconds a second of processor time gives."""
    simulate(application, [1], seconds=seconds)  # what is made once
    began = time.process_time()
    series = simulate(application, range(1, seeds + 1), seconds=seconds)
    return series.virtual_seconds / (time.process_time() - began)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args(arguments)
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    for name in APPLICATIONS:
        found = ratio(getattr(applications, name), options.seeds, options.seconds)
        print(f"{name:15} {found:6.0f} virtual seconds a second of processor time")


if __name__ == "__main__":
    main()
