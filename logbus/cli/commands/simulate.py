"""The ``logbus simulate`` command: runs simulated clusters with faults and checks invariants."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from logbus.cli.number_types import FloatRange, IntRange
from logbus.cli.options import json_option
from logbus.cli.output import Progress, print_json, print_table

if TYPE_CHECKING:
    from logbus.testing.simulation.schedule import Fault
    from logbus.testing.simulation.series import Series


@click.command()
@click.option(
    "--application",
    metavar="MODULE:FUNCTION",
    default=None,
    help="Run this application, instead of clients of the simulation's own.",
)
@click.option("--seed", type=IntRange(min=0), default=1, show_default=True, help="The first seed.")
@click.option("--seeds", type=IntRange(min=1), default=20, show_default=True, help="Number of seeds.")
@click.option("--hours", type=FloatRange(min=0), default=0.0, help="Instead, run for this many simulated hours.")
@click.option(
    "--seconds",
    type=FloatRange(min=1, max=86_400),
    default=60.0,
    show_default=True,
    help="Simulated seconds with faults per seed.",
)
@click.option("--brokers", type=IntRange(1, 25), default=3, show_default=True, help="Brokers.")
@click.option("--partitions", type=IntRange(1, 1000), default=2, show_default=True, help="Partitions.")
@click.option("--replication-factor", type=IntRange(1, 25), default=None, help="Default: 3, or all brokers.")
@click.option("--min-insync", type=IntRange(1, 25), default=None, help="min.insync.replicas; default: 2, or 1.")
@click.option(
    "--rate",
    type=FloatRange(min=0.01, max=10_000),
    default=5.0,
    show_default=True,
    help="Batches a second, over all producers.",
)
@click.option("--faults", default="all", show_default=True, help="Kinds of faults, separated by commas; or all, none.")
@click.option(
    "--between",
    type=FloatRange(min=0.1),
    default=None,
    help="Seconds from fault to fault; default: 8, or 3 with --application.",
)
@click.option(
    "--workload",
    type=click.Choice(["both", "records", "transactions", "shares", "tiered"]),
    default="both",
    show_default=True,
    help="The workload of clients; both: records and transactions.",
)
@click.option("--flush/--no-flush", default=True, show_default=True, help="log.flush.before.ack of the topic.")
@click.option("--schedule", "schedule_text", metavar="JSON", default=None, help="Exactly these faults, or @FILE.")
@click.option("--shrink/--no-shrink", default=True, show_default=True, help="Shrink the schedule of a failing seed.")
@click.option(
    "--expect-acked",
    type=IntRange(min=0),
    default=1,
    show_default=True,
    help="Fail with fewer batches or transactions.",
)
@click.option("--expect-faults", type=IntRange(min=0), default=0, show_default=True, help="Fail with fewer faults.")
@json_option
@click.pass_context
def simulate(
    context: click.Context,
    application: str | None,
    seed: int,
    seeds: int,
    hours: float,
    seconds: float,
    brokers: int,
    partitions: int,
    replication_factor: int | None,
    min_insync: int | None,
    rate: float,
    faults: str,
    between: float | None,
    workload: str,
    flush: bool,
    schedule_text: str | None,
    shrink: bool,
    expect_acked: int,
    expect_faults: int,
    as_json: bool,
) -> None:
    """Run clusters on a virtual clock, inject faults, and check invariants.

    The same seed gives the same run. A failing seed is printed with the shortest schedule of faults that makes it fail,
    and with the command to run it again.

    \b
    Example:
      logbus simulate --seeds 100
      logbus simulate --hours 1000 --faults kill,power-cut,isolate --json
      logbus simulate --application billing:billing --seeds 50

    Exit status: 0 no invariant was broken, 1 one was, or too little happened; 2 wrong usage.
    """
    from twisted.logger import globalLogBeginner

    from logbus.testing.simulation.series import RunOne, run_cluster, run_series
    from logbus.testing.simulation.settings import (
        AROUND_AN_APPLICATION,
        OF_APPLICATIONS,
        WORKLOADS,
        Settings,
        kinds_for,
    )

    run: RunOne = run_cluster
    name = ""
    if application is not None:
        _refuse_options(context)
        from logbus.testing.simulation.application.application_file import load
        from logbus.testing.simulation.application.simulate import runner

        found = load(application)
        run, name = runner(found), application
    factor, minimum = _replication(brokers, replication_factor, min_insync)
    workloads = () if application is not None else WORKLOADS if workload == "both" else (workload,)
    usual = AROUND_AN_APPLICATION if application is not None else kinds_for(workloads)
    possible = OF_APPLICATIONS if application is not None else usual
    schedule = None if schedule_text is None else _schedule(schedule_text, brokers, possible)
    if between is None:
        between = 8.0 if application is None else 3.0
    settings = Settings(
        brokers=brokers,
        partitions=partitions,
        replication=factor,
        min_insync=minimum,
        rate=rate,
        seconds=seconds,
        kinds=_kinds(faults, usual, possible),
        between=between,
        flush=flush,
        workloads=workloads,
    )
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    progress = Progress()
    series = run_series(
        settings,
        seed,
        seeds=seeds,
        hours=hours,
        schedule=schedule,
        tries=100 if shrink else 0,
        progress=lambda series, seed: progress.show(_progress_text(series, seed)),
        most_failures=5 if application is None else 1,
        run=run,
        application=name,
    )
    progress.clear()
    if as_json:
        print_json(series.as_json())
    else:
        _print(series)
    if series.failures:
        sys.exit(1)
    if application is None:
        _require("batches or transactions were acknowledged", series.acknowledged + series.committed, expect_acked)
    _require("faults had an effect", series.faults, expect_faults)


def _refuse_options(context: click.Context) -> None:
    """Refuse options that say something of the simulation's own clients only."""
    for name in ("workload", "partitions", "rate", "expect_acked"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = "--" + name.replace("_", "-")
            raise click.UsageError(f"{option} is about the simulation's own clients; leave it out with --application")


def _replication(brokers: int, factor: int | None, minimum: int | None) -> tuple[int, int]:
    """Return the replication factor and min.insync.replicas."""
    factor = min(3, brokers) if factor is None else factor
    if factor > brokers:
        raise click.BadParameter(f"{factor} replicas need as many brokers", param_hint="--replication-factor")
    minimum = min(2, factor) if minimum is None else minimum
    if minimum > factor:
        raise click.BadParameter(f"of {factor} replicas {minimum} cannot be in sync", param_hint="--min-insync")
    return factor, minimum


def _require(what: str, count: int, least: int) -> None:
    if count < least:
        raise click.ClickException(f"only {count} {what}, not {least}: this run shows nothing")


def _kinds(text: str, usual: tuple[str, ...], possible: tuple[str, ...]) -> tuple[str, ...]:
    if text == "all":
        return usual
    if text == "none":
        return ()
    kinds = tuple(filter(None, (part.strip() for part in text.split(","))))
    unknown = [kind for kind in kinds if kind not in possible]
    if unknown:
        known = ", ".join(sorted(possible))
        raise click.BadParameter(f"there is no fault {', '.join(unknown)}; there are: {known}", param_hint="--faults")
    return kinds


def _schedule(text: str, brokers: int, possible: tuple[str, ...]) -> list[Fault]:
    from logbus.errors import short_reason
    from logbus.testing.simulation.schedule import schedule_from_json

    try:
        schedule = schedule_from_json(text, brokers)
        for fault in schedule:
            if fault.kind not in possible:
                raise ValueError(f"{fault.kind} is no fault of such runs")
        return schedule
    except OSError as error:
        raise click.BadParameter(f"{text}: {short_reason(error)}", param_hint="--schedule") from None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--schedule") from None


def _progress_text(series: Series, seed: int) -> str:
    work = ""
    if not series.application:
        work = f"{series.acknowledged} batches acknowledged, {series.committed} transactions committed, "
    return (
        f"seed {seed}: {series.virtual_seconds / 3600:.2f} h at {series.ratio:.0f}x, {work}{series.faults} faults, "
        f"{len(series.failures)} failures"
    )


def _print(series: Series) -> None:
    from logbus.testing.simulation.series import command, failure_lines

    click.echo(
        f"{series.runs} runs, {series.virtual_seconds / 3600:.2f} simulated hours in {series.real_seconds:.1f} s "
        f"({series.ratio:.0f} times as fast)"
    )
    if not series.application:
        _print_workloads(series)
    kinds = sorted(series.effects.keys() | series.moot.keys())
    if kinds:
        print_table(
            ["fault", "had an effect", "had none"],
            [[kind, series.effects[kind], series.moot[kind]] for kind in kinds],
        )
    if series.phantoms:
        click.echo(
            f"{series.phantoms} values were read and lost, as all in sync lost their power and none had synced them"
        )
    for failure in series.failures:
        click.echo()
        for line in failure_lines(failure):
            click.echo(line)
        click.echo("again:\n  " + command(failure.settings, failure.seed, failure.schedule, series.application))
    if not series.failures:
        click.echo("nothing was broken")


def _print_workloads(series: Series) -> None:
    click.echo(
        f"{series.acknowledged} of {series.sent} batches acknowledged; a consumer was behind by "
        f"{series.worst_lag:.1f} s at the most"
    )
    if series.begun:
        click.echo(f"{series.committed} of {series.begun} transactions committed")
