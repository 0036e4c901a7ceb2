"""The ``logbus simulate`` command: runs simulated clusters with faults and checks invariants."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from logbus.cli.options import json_option
from logbus.cli.output import Progress, print_json, print_table

if TYPE_CHECKING:
    from logbus.testing.simulation.schedule import Fault
    from logbus.testing.simulation.series import Series


@click.command()
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="The first seed.")
@click.option("--seeds", type=click.IntRange(min=1), default=20, show_default=True, help="Number of seeds.")
@click.option("--hours", type=click.FloatRange(min=0), default=0.0, help="Instead, run for this many simulated hours.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=1, max=86_400),
    default=60.0,
    show_default=True,
    help="Simulated seconds with faults per seed.",
)
@click.option("--brokers", type=click.IntRange(1, 25), default=3, show_default=True, help="Brokers.")
@click.option("--partitions", type=click.IntRange(1, 1000), default=2, show_default=True, help="Partitions.")
@click.option("--replication-factor", type=click.IntRange(1, 25), default=None, help="Default: 3, or all brokers.")
@click.option("--min-insync", type=click.IntRange(1, 25), default=None, help="min.insync.replicas; default: 2, or 1.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0.01, max=10_000),
    default=5.0,
    show_default=True,
    help="Batches a second, over all producers.",
)
@click.option("--faults", default="all", show_default=True, help="Kinds of faults, separated by commas; or all, none.")
@click.option(
    "--between", type=click.FloatRange(min=0.1), default=8.0, show_default=True, help="Seconds from fault to fault."
)
@click.option(
    "--workload",
    type=click.Choice(["both", "records", "transactions"]),
    default="both",
    show_default=True,
    help="The workload of clients.",
)
@click.option("--flush/--no-flush", default=True, show_default=True, help="log.flush.before.ack of the topic.")
@click.option("--schedule", "schedule_text", metavar="JSON", default=None, help="Exactly these faults, or @FILE.")
@click.option("--shrink/--no-shrink", default=True, show_default=True, help="Shrink the schedule of a failing seed.")
@click.option(
    "--expect-acked",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Fail with fewer batches or transactions.",
)
@click.option(
    "--expect-faults", type=click.IntRange(min=0), default=0, show_default=True, help="Fail with fewer faults."
)
@json_option
def simulate(
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
    between: float,
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

    Exit status: 0 no invariant was broken, 1 one was, or too little happened; 2 wrong usage.
    """
    from twisted.logger import globalLogBeginner

    from logbus.testing.simulation.series import run_series
    from logbus.testing.simulation.settings import WORKLOADS, Settings

    factor, minimum = _replication(brokers, replication_factor, min_insync)
    workloads = WORKLOADS if workload == "both" else (workload,)
    schedule = None if schedule_text is None else _schedule(schedule_text, brokers)
    settings = Settings(
        brokers=brokers,
        partitions=partitions,
        replication=factor,
        min_insync=minimum,
        rate=rate,
        seconds=seconds,
        kinds=_kinds(faults, workloads),
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
    )
    progress.clear()
    if as_json:
        print_json(series.as_json())
    else:
        _print(series)
    if series.failures:
        sys.exit(1)
    _require("batches or transactions were acknowledged", series.acknowledged + series.committed, expect_acked)
    _require("faults had an effect", series.faults, expect_faults)


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


def _kinds(text: str, workloads: tuple[str, ...]) -> tuple[str, ...]:
    from logbus.testing.simulation.settings import kinds_for

    possible = kinds_for(workloads)
    if text == "all":
        return possible
    if text == "none":
        return ()
    kinds = tuple(filter(None, (part.strip() for part in text.split(","))))
    unknown = [kind for kind in kinds if kind not in possible]
    if unknown:
        known = ", ".join(sorted(possible))
        raise click.BadParameter(f"there is no fault {', '.join(unknown)}; there are: {known}", param_hint="--faults")
    return kinds


def _schedule(text: str, brokers: int) -> list[Fault]:
    from logbus.testing.simulation.schedule import fault_from_json

    try:
        if text.startswith("@"):
            with open(text[1:], encoding="utf-8") as file:
                text = file.read()
        values: Any = json.loads(text)
        if not isinstance(values, list):
            raise ValueError("it is not a list of faults")
        return [fault_from_json(value, brokers) for value in values]
    except (OSError, ValueError) as error:
        raise click.BadParameter(str(error), param_hint="--schedule") from None


def _progress_text(series: Series, seed: int) -> str:
    return (
        f"seed {seed}: {series.virtual_seconds / 3600:.2f} h at {series.ratio:.0f}x, {series.acknowledged} batches "
        f"acknowledged, {series.committed} transactions committed, {series.faults} faults, "
        f"{len(series.failures)} failures"
    )


def _print(series: Series) -> None:
    from logbus.testing.simulation.series import command

    click.echo(
        f"{series.runs} runs, {series.virtual_seconds / 3600:.2f} simulated hours in {series.real_seconds:.1f} s "
        f"({series.ratio:.0f} times as fast)"
    )
    click.echo(
        f"{series.acknowledged} of {series.sent} batches acknowledged; a consumer was behind by "
        f"{series.worst_lag:.1f} s at the most"
    )
    if series.begun:
        click.echo(f"{series.committed} of {series.begun} transactions committed")
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
        click.echo(f"\nseed {failure.seed} FAILED:")
        for anomaly in failure.anomalies[:20]:
            click.echo(f"  {anomaly}")
        click.echo("what happened:")
        for line in failure.told:
            click.echo(f"  {line}")
        click.echo("again:\n  " + command(series.settings, failure.seed, failure.schedule))
    if not series.failures:
        click.echo("nothing was broken")
