"""Runs a simulated application over many seeds, in tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from logbus.errors import ConfigError
from logbus.testing.simulation.application.application_run import ApplicationRun
from logbus.testing.simulation.application.simulated_application import Function, SimulatedApplication, check_function
from logbus.testing.simulation.schedule import Fault
from logbus.testing.simulation.series import Failure, RunOne, Series, command, examine, failure_lines
from logbus.testing.simulation.settings import AROUND_AN_APPLICATION, OF_APPLICATIONS, Settings
from logbus.testing.simulation.totals import RunOutcome


class SimulationFailed(AssertionError):
    """
    A seed failed; the message has what is wrong, what happened, and how to repeat it.

    :ivar failure: the seed, its shrunk faults, and the history.
    """

    def __init__(self, failure: Failure, again: str) -> None:
        super().__init__("\n".join([*failure_lines(failure), "again:", *(f"  {line}" for line in again.splitlines())]))
        self.failure = failure


def simulate(
    application: SimulatedApplication | Function,
    seeds: Iterable[int] = range(1, 21),
    *,
    seconds: float = 60.0,
    brokers: int = 3,
    faults: Sequence[str] | None = None,
    between: float = 3.0,
    schedule: Sequence[Fault] | None = None,
    tries: int = 60,
    again: Callable[[Failure], str] | None = None,
) -> Series:
    """
    Run an application once for each seed, on a cluster of its own with faults of its own.

    :param application: made by :func:`.simulated`; or a plain function, which then has neither topics nor checks.
    :param seeds: the first that fails ends it.
    :param seconds: virtual seconds with faults.
    :param faults: the kinds that may occur, as of ``logbus simulate --faults``; default: those that applications meet.
    :param between: seconds from one fault to the next, on average.
    :param schedule: exactly these faults, instead of those drawn from the seed.
    :param tries: runs to spend on finding the fewest faults with which a seed fails.
    :param again: says how a failed seed is repeated; default: as a command.
    :returns: what the runs had in common: their number, virtual and real seconds, the faults with an effect.
    :raises SimulationFailed: a seed failed.
    :raises ConfigError: an argument is wrong, or it is no application.
    :raises NotSimulated: the application did something that has no place on virtual time.
    """
    if not isinstance(application, SimulatedApplication):
        check_function(application, "the application")
        application = SimulatedApplication(application, {}, 1, ())
    settings = _settings(seconds, brokers, faults, between)
    run, name = runner(application), application.name
    series = Series(settings, name)
    for seed in seeds:
        outcome, failure = examine(settings, seed, schedule, tries, run, twice=tries > 0)
        series.runs += 1
        series.add(outcome)
        if failure is not None:
            series.failures.append(failure)
            text = command(failure.settings, seed, failure.schedule, name) if again is None else again(failure)
            raise SimulationFailed(failure, text)
    return series


def runner(application: SimulatedApplication) -> RunOne:
    """What runs one seed of an application."""

    def run(settings: Settings, seed: int, schedule: Sequence[Fault] | None) -> RunOutcome:
        return ApplicationRun(application, settings, seed, schedule).run()

    return run


def _settings(seconds: float, brokers: int, faults: Sequence[str] | None, between: float) -> Settings:
    if not isinstance(brokers, int) or not 1 <= brokers <= 25:
        raise ConfigError(f"brokers is {brokers!r}; give a number from 1 to 25")
    for name, value, least in (("seconds", seconds, 1.0), ("between", between, 0.1)):
        if not isinstance(value, int | float) or not least <= value <= 86_400:
            raise ConfigError(f"{name} is {value!r}; give seconds from {least:g} to 86400")
    kinds = AROUND_AN_APPLICATION if faults is None else tuple(faults)
    for kind in kinds:
        if kind not in OF_APPLICATIONS:
            raise ConfigError(f"there is no fault {kind!r}; there are: {', '.join(sorted(OF_APPLICATIONS))}")
    return Settings(
        brokers=brokers,
        replication=min(3, brokers),
        min_insync=min(2, brokers),
        seconds=seconds,
        kinds=kinds,
        between=between,
        workloads=(),
    )
