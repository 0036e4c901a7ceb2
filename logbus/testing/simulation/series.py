"""Series of runs over many seeds: totals, and the shortest failing schedule of each seed that fails."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field, fields, frozen

from logbus.testing.simulation.checks.history import Anomaly
from logbus.testing.simulation.run import Outcome, Run
from logbus.testing.simulation.schedule import Fault
from logbus.testing.simulation.settings import Settings, kinds_for
from logbus.testing.simulation.shrink import shrink
from logbus.testing.simulation.totals import Totals


@frozen
class Failure:
    """
    A seed that failed.

    :ivar schedule: shrunk as far as possible; ``told``: the events under it.
    """

    seed: int
    anomalies: list[Anomaly]
    schedule: list[Fault]
    told: list[str]


@define
class Series(Totals):
    """
    The totals of many runs, and those that failed.

    :ivar runs: their number.
    """

    settings: Settings
    runs: int = 0
    failures: list[Failure] = field(factory=list)

    @property
    def ratio(self) -> float:
        """The ratio of simulated to real time."""
        return self.virtual_seconds / self.real_seconds if self.real_seconds else 0.0

    @property
    def faults(self) -> int:
        """The number of faults with an effect."""
        return sum(self.effects.values())

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "runs": self.runs,
            "virtual_seconds": round(self.virtual_seconds, 3),
            "real_seconds": round(self.real_seconds, 3),
            "ratio": round(self.ratio, 1),
            "batches_sent": self.sent,
            "batches_acknowledged": self.acknowledged,
            "transactions_begun": self.begun,
            "transactions_committed": self.committed,
            "worst_lag_seconds": round(self.worst_lag, 3),
            "phantom_reads": self.phantoms,
            "faults": dict(sorted(self.effects.items())),
            "faults_without_effect": dict(sorted(self.moot.items())),
            "client_errors": dict(sorted(self.errors.items())),
            "violations": [
                {
                    "seed": failure.seed,
                    "anomalies": [{"kind": each.kind, "what": each.what} for each in failure.anomalies],
                    "schedule": [fault.as_json() for fault in failure.schedule],
                    "command": command(self.settings, failure.seed, failure.schedule),
                }
                for failure in self.failures
            ],
        }


def examine(
    settings: Settings, seed: int, schedule: Sequence[Fault] | None, tries: int
) -> tuple[Outcome, Failure | None]:
    """
    Run one seed, and if it fails, shrink its schedule.

    :param tries: runs to spend on that.
    """
    outcome = Run(settings, seed, schedule).run()
    if not outcome.anomalies:
        return outcome, None
    kinds = {each.kind for each in outcome.anomalies}
    best = outcome

    def fails(faults: list[Fault]) -> bool:
        nonlocal best
        found = Run(settings, seed, faults).run()
        if not kinds & {each.kind for each in found.anomalies}:
            return False
        best = found
        return True

    if tries > 0:
        shrink(outcome.schedule, fails, tries)
    return outcome, Failure(seed, best.anomalies, best.schedule, best.told)


def run_series(
    settings: Settings,
    first: int,
    *,
    seeds: int,
    hours: float = 0.0,
    schedule: Sequence[Fault] | None = None,
    tries: int = 100,
    progress: Callable[[Series, int], object] = lambda series, seed: None,
    most_failures: int = 5,
) -> Series:
    """
    Run seeds one after the other.

    :param seeds: their number; with ``hours`` as many as it takes to simulate that time.
    :param progress: called after each with the totals so far and the seed.
    :param most_failures: ends the series after this many.
    """
    series = Series(settings)
    seed = first
    while len(series.failures) < most_failures:
        if hours > 0:
            if series.virtual_seconds >= hours * 3600:
                break
        elif series.runs >= seeds:
            break
        outcome, failure = examine(settings, seed, schedule, tries)
        series.runs += 1
        series.add(outcome)
        if failure is not None:
            series.failures.append(failure)
        progress(series, seed)
        seed += 1
    return series


_OPTIONS = {
    "brokers": "--brokers",
    "partitions": "--partitions",
    "replication": "--replication-factor",
    "min_insync": "--min-insync",
    "rate": "--rate",
    "seconds": "--seconds",
    "between": "--between",
}


def command(settings: Settings, seed: int, schedule: Sequence[Fault]) -> str:
    """The command that repeats a failed run."""
    words = ["logbus", "simulate", "--seed", str(seed), "--seeds", "1"]
    for each in fields(Settings):
        value = getattr(settings, each.name)
        if each.name in _OPTIONS:
            words += [_OPTIONS[each.name], f"{value:g}"]
    if not settings.flush:
        words.append("--no-flush")
    words += ["--workload", "both" if len(settings.workloads) > 1 else settings.workloads[0]]
    if set(settings.kinds) != set(kinds_for(settings.workloads)):
        # The drawn schedule is replaced, but the random numbers must be the same.
        words += ["--faults", ",".join(settings.kinds) or "none"]
    words += ["--schedule", json.dumps([fault.as_json() for fault in schedule])]
    return shlex.join(words)
