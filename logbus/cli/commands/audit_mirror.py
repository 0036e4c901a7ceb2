"""The ``logbus audit mirror`` command: compares topics with their copies in another cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logbus.cli.number_types import FloatRange, IntRange
from logbus.cli.options import checked_addresses, json_option, naming_option, timeout_option, timestamp_ms
from logbus.cli.output import print_json, print_table

if TYPE_CHECKING:
    from logbus.mirror.audit.partition_report import PartitionReport

_NAMED = 5
"""The most partitions in the line of error."""


@click.command("mirror")
@click.option(
    "--from",
    "source",
    metavar="HOST:PORT",
    required=True,
    callback=checked_addresses,
    help="A broker of the cluster that is mirrored, or several, separated by commas.",
)
@click.option(
    "--to",
    "target",
    metavar="HOST:PORT",
    required=True,
    callback=checked_addresses,
    help="The same of the cluster with the copies.",
)
@click.option(
    "--from-name", metavar="ALIAS", default="source", show_default=True, help="As it was given to 'logbus mirror'."
)
@click.option("--to-name", metavar="ALIAS", default="target", show_default=True, help="Likewise.")
@naming_option
@click.option(
    "--topics",
    "-t",
    multiple=True,
    metavar="REGEX",
    help="Topics to compare, by their whole names at the source; several are separated by commas, or the option is "
    "repeated.  [default: all]",
)
@click.option("--exclude", "-x", multiple=True, metavar="REGEX", help="Topics not to compare; likewise.")
@click.option("--since", metavar="WHEN", help="Only records from this time on: a date, or milliseconds since 1970.")
@click.option("--until", metavar="WHEN", help="Only records before this time.")
@click.option(
    "--window",
    type=FloatRange(min=0.001),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="The length of a window of time.",
)
@click.option(
    "--wait",
    type=FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait so long for a mirror that runs to have copied what the source has now.",
)
@click.option("--windows", "show_windows", is_flag=True, help="Print all windows, not only those that differ.")
@click.option("--examples", type=IntRange(min=0), default=3, show_default=True, help="Records to name.")
@click.option(
    "--from-config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="How to connect to the cluster that is mirrored: security.protocol, ssl.* and sasl.* of Kafka's clients.",
)
@click.option(
    "--to-config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="The same for the cluster with the copies.",
)
@timeout_option
@json_option
def audit_mirror(
    source: str,
    target: str,
    from_name: str,
    to_name: str,
    naming: str,
    topics: tuple[str, ...],
    exclude: tuple[str, ...],
    since: str | None,
    until: str | None,
    window: float,
    wait: float,
    show_windows: bool,
    examples: int,
    from_config: Path | None,
    to_config: Path | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Compare the records of topics with those of their copies, by partition and window of time: their number, and the
    checksum of keys, values, headers and times, in their order. The exit status is 1 if records are missing, repeated,
    foreign or in another order, and if some are not copied yet.

    The mirror may run meanwhile. Of compacted topics the last records of keys are compared.

    \b
    Example:
      logbus audit mirror --from paris:9092 --from-name paris --to rome:9092 --to-name rome
      logbus audit mirror --from old:9092 --to new:9092 --naming identity --since 2024-05-01T00:00 --json
    """
    from logbus.cli.mirror_run import MirrorSides, run_audit
    from logbus.cli.runner import CommandFailed
    from logbus.errors import ConfigError
    from logbus.mirror.audit.audit_options import AuditOptions
    from logbus.mirror.mirror_options import MirrorOptions
    from logbus.mirror.name_filter import TOPICS_EXCLUDED, NameFilter, all_expressions

    options = AuditOptions(
        window_ms=max(1, int(window * 1000)),
        since_ms=None if since is None else timestamp_ms(since, "--since"),
        until_ms=None if until is None else timestamp_ms(until, "--until"),
        examples=examples,
    )
    try:
        mirror = MirrorOptions(
            source=from_name,
            target=to_name,
            naming=naming,
            topics=NameFilter(all_expressions(topics) or [".*"], [*TOPICS_EXCLUDED, *all_expressions(exclude)]),
            heartbeat_interval=0,
        )
    except ConfigError as e:
        raise click.UsageError(str(e)) from None
    sides = MirrorSides.of(source, from_config, target, to_config, timeout)
    found = run_audit(sides, mirror, options, wait)
    if as_json:
        print_json([_as_json(each) for each in found])
    else:
        _print(found, show_windows)
    if not found:
        raise CommandFailed("there is no topic to compare at the source; --topics says which are meant")
    if problems := _problems(found):
        raise CommandFailed("; ".join(problems))


def _print(found: Sequence[PartitionReport], show_windows: bool) -> None:
    from logbus.mirror.audit.partition_report import MirrorVerdict
    from logbus.pipeline.jobs.time_text import time_text

    rows: list[Sequence[object]] = []
    for each in found:
        counts = (each.source, each.copy, each.missing, each.repeated, each.foreign, each.behind)
        rows.append((f"{each.topic}-{each.partition}", "all", *counts, each.verdict.value))
        rows.extend(
            (
                f"{each.topic}-{each.partition}",
                time_text(one.start),
                one.source,
                one.copy,
                one.difference.missing,
                one.difference.repeated,
                one.difference.foreign,
                None,
                one.verdict.value,
            )
            for one in each.windows
            if show_windows or one.verdict is not MirrorVerdict.COMPLETE
        )
    if rows:
        print_table(
            ["partition", "window", "source", "copy", "missing", "repeated", "foreign", "behind", "verdict"], rows
        )
    for each in found:
        name = f"{each.topic}-{each.partition}"
        if each.problem:
            click.echo(f"{name}: {each.problem}")
        for one in each.examples:
            where = "" if one.kind.value == "missing" else f" of {each.copy_topic}"
            click.echo(f"{name}: offset {one.offset}{where}, of {time_text(one.timestamp)}, is {one.kind.value}")
        if each.skipped:
            what = "1 record is" if each.skipped == 1 else f"{each.skipped} records are"
            click.echo(f"{name}: {what} too large for {each.copy_topic}, and left out by the mirror: not compared")
        if each.gone_at_source:
            click.echo(f"{name}: the source has deleted {each.gone_at_source} records that the copy has: not compared")
        if each.gone_at_target:
            click.echo(f"{name}: the copy has deleted {each.gone_at_target} records that the source has: not compared")


def _problems(found: Sequence[PartitionReport]) -> list[str]:
    """Parts of the sentence that says what is wrong."""
    from logbus.mirror.audit.partition_report import MirrorVerdict

    problems = []
    for what, count_of in (
        ("missing", lambda each: each.missing),
        ("repeated", lambda each: each.repeated),
        ("foreign: the source does not have them", lambda each: each.foreign),
        ("not copied yet", lambda each: each.behind),
    ):
        if count := sum(map(count_of, found)):
            problems.append(f"{count} records are {what}, of {_topics(each for each in found if count_of(each))}")
    if these := [each for each in found if each.verdict is MirrorVerdict.REORDERED]:
        problems.append(f"records are in another order, of {_topics(these)}")
    if names := [f"{each.topic}-{each.partition}" for each in found if each.verdict is MirrorVerdict.UNKNOWN]:
        rest = f" and {len(names) - _NAMED} others" if len(names) > _NAMED else ""
        problems.append(f"not compared: {', '.join(names[:_NAMED])}{rest}")
    return problems


def _topics(these: Any) -> str:
    return ", ".join(sorted({each.topic for each in these}))


def _as_json(each: PartitionReport) -> dict[str, object]:
    return {
        "topic": each.topic,
        "copy_topic": each.copy_topic,
        "partition": each.partition,
        "source": each.source,
        "copy": each.copy,
        "missing": each.missing,
        "repeated": each.repeated,
        "foreign": each.foreign,
        "behind": each.behind,
        "skipped": each.skipped,
        "gone_at_source": each.gone_at_source,
        "gone_at_target": each.gone_at_target,
        "compacted": each.compacted,
        "problem": each.problem or None,
        "verdict": each.verdict.value,
        "windows": [
            {
                "start": one.start,
                "source": one.source,
                "copy": one.copy,
                "missing": one.difference.missing,
                "repeated": one.difference.repeated,
                "foreign": one.difference.foreign,
                "verdict": one.verdict.value,
            }
            for one in each.windows
        ],
        "examples": [
            {"kind": one.kind.value, "offset": one.offset, "timestamp": one.timestamp} for one in each.examples
        ],
    }
