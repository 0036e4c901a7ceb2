"""Series of runs over many seeds: totals, and the shortest failing schedule of each seed that fails."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from attrs import define, evolve, field, fields, frozen

from logbus.testing.simulation.checks.history import Anomaly
from logbus.testing.simulation.run import Run
from logbus.testing.simulation.schedule import Fault
from logbus.testing.simulation.settings import AROUND_AN_APPLICATION, Settings, kinds_for
from logbus.testing.simulation.shrink import shrink
from logbus.testing.simulation.totals import RunOutcome, Totals

RunOne: TypeAlias = Callable[[Settings, int, Sequence[Fault] | None], RunOutcome]
"""Runs a seed, with the faults drawn from it, or with others."""


def run_cluster(settings: Settings, seed: int, schedule: Sequence[Fault] | None) -> RunOutcome:
    """Run a seed with the workloads of the settings."""
    return Run(settings, seed, schedule).run()


@frozen
class Failure:
    """
    A seed that failed.

    :ivar settings: of the run, with as few seconds as possible.
    :ivar schedule: shrunk as far as possible; ``told``: the events under it.
    :ivar repeats: whether the seed gave the same run twice; also if nobody tried.
    """

    settings: Settings
    seed: int
    anomalies: list[Anomaly]
    schedule: list[Fault]
    told: list[str]
    repeats: bool = True


@define
class Series(Totals):
    """
    The totals of many runs, and those that failed.

    :ivar runs: their number.
    :ivar application: the name of the application that ran, empty for the workloads of the settings.
    """

    settings: Settings
    application: str = ""
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
        of_workloads = {
            "batches_sent": self.sent,
            "batches_acknowledged": self.acknowledged,
            "transactions_begun": self.begun,
            "transactions_committed": self.committed,
            "worst_lag_seconds": round(self.worst_lag, 3),
            "phantom_reads": self.phantoms,
        }
        return {
            "runs": self.runs,
            "virtual_seconds": round(self.virtual_seconds, 3),
            "real_seconds": round(self.real_seconds, 3),
            "ratio": round(self.ratio, 1),
            **({} if self.application else of_workloads),
            "faults": dict(sorted(self.effects.items())),
            "faults_without_effect": dict(sorted(self.moot.items())),
            "client_errors": dict(sorted(self.errors.items())),
            "violations": [
                {
                    "seed": failure.seed,
                    "anomalies": [{"kind": each.kind, "what": each.what} for each in failure.anomalies],
                    "schedule": [fault.as_json() for fault in failure.schedule],
                    "command": command(failure.settings, failure.seed, failure.schedule, self.application),
                }
                for failure in self.failures
            ],
        }


def examine(
    settings: Settings,
    seed: int,
    schedule: Sequence[Fault] | None,
    tries: int,
    run: RunOne = run_cluster,
    *,
    twice: bool = False,
) -> tuple[RunOutcome, Failure | None]:
    """
    Run one seed, and if it fails, shrink its schedule, and then its time.

    :param tries: runs to spend on that.
    :param twice: find out whether the same run comes again.
    """
    outcome = run(settings, seed, schedule)
    if not outcome.anomalies:
        return outcome, None
    kinds = {each.kind for each in outcome.anomalies}
    best, best_settings = outcome, settings

    def fails(faults: list[Fault], shorter: Settings = settings) -> bool:
        nonlocal best, best_settings, tries
        tries -= 1
        found = run(shorter, seed, faults)
        if not kinds & {each.kind for each in found.anomalies}:
            return False
        best, best_settings = found, shorter
        return True

    repeats = not twice or run(settings, seed, outcome.schedule).trace == outcome.trace
    if tries > 0:
        shrink(outcome.schedule, fails, tries)
        last = max((fault.at for fault in best.schedule), default=0.0)
        for seconds in (last + 1, (last + settings.seconds) / 2):
            shorter = evolve(settings, seconds=float(math.ceil(seconds)))
            if tries > 0 and shorter.seconds < settings.seconds and fails(best.schedule, shorter):
                break
    return outcome, Failure(best_settings, seed, best.anomalies, best.schedule, best.told, repeats)


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
    run: RunOne = run_cluster,
    application: str = "",
) -> Series:
    """
    Run seeds one after the other.

    :param seeds: their number; with ``hours`` as many as it takes to simulate that time.
    :param progress: called after each with the totals so far and the seed.
    :param most_failures: ends the series after this many.
    :param run: runs one seed; ``application``: the name of the application that it runs.
    """
    series = Series(settings, application)
    seed = first
    while len(series.failures) < most_failures:
        if hours > 0:
            if series.virtual_seconds >= hours * 3600:
                break
        elif series.runs >= seeds:
            break
        outcome, failure = examine(settings, seed, schedule, tries, run, twice=bool(application) and tries > 0)
        series.runs += 1
        series.add(outcome)
        if failure is not None:
            series.failures.append(failure)
        progress(series, seed)
        seed += 1
    return series


_MOST_TOLD = 200
"""Lines of a history that are shown."""

_OPTIONS = {
    "brokers": "--brokers",
    "partitions": "--partitions",
    "replication": "--replication-factor",
    "min_insync": "--min-insync",
    "rate": "--rate",
    "seconds": "--seconds",
    "between": "--between",
}


def command(settings: Settings, seed: int, schedule: Sequence[Fault], application: str = "") -> str:
    """The command that repeats a failed run."""
    words = ["logbus", "simulate"]
    if application:
        words += ["--application", application]
    words += ["--seed", str(seed), "--seeds", "1"]
    for each in fields(Settings):
        value = getattr(settings, each.name)
        if each.name in _OPTIONS and not (application and each.name in ("partitions", "rate")):
            words += [_OPTIONS[each.name], f"{value:g}"]
    if not settings.flush:
        words.append("--no-flush")
    if application:
        usual: Sequence[str] = AROUND_AN_APPLICATION
    else:
        usual = kinds_for(settings.workloads)
        words += ["--workload", "both" if len(settings.workloads) > 1 else settings.workloads[0]]
    if set(settings.kinds) != set(usual):
        # The drawn schedule is replaced, but the random numbers must be the same.
        words += ["--faults", ",".join(settings.kinds) or "none"]
    return shlex.join([*words, "--schedule", schedule_text(schedule)])


def schedule_text(schedule: Sequence[Fault]) -> str:
    """Faults for a command line."""
    return json.dumps([fault.as_json() for fault in schedule])


def failure_lines(failure: Failure) -> Iterator[str]:
    """What is to be said of a seed that failed, besides how to repeat it; the history may be cut in its middle."""
    yield f"seed {failure.seed} FAILED:"
    for anomaly in failure.anomalies[:20]:
        yield from (f"  {line}" for line in str(anomaly).splitlines())
    if not failure.repeats:
        yield (
            "this seed does not give the same run twice: the application depends on something else, such as "
            "datetime.now(), what its modules keep from run to run, or the order of a set of texts (set PYTHONHASHSEED)"
        )
    yield "what happened:"
    told = failure.told
    if len(told) > _MOST_TOLD:
        half = _MOST_TOLD // 2
        told = [*told[:half], f"... {len(told) - 2 * half} lines ...", *told[-half:]]
    yield from (f"  {line}" for line in told)
