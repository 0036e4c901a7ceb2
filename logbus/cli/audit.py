"""``logbus audit``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from logbus.cli.options import bootstrap_options, json_option, pairs, when
from logbus.cli.output import print_json, print_table

if TYPE_CHECKING:
    from logbus.client.audit_check import Comparison
    from logbus.client.audit_reading import AuditRead
    from logbus.client.cluster import Cluster

# An event may be published a little before its window begins, if clocks differ.
_CLOCKS_MS = 3_600_000


@click.command()
@click.option("--topic", default="logbus-audit", show_default=True, help="Where the monitoring events are.")
@click.option(
    "--since", metavar="WHEN", help="Windows that begin at this time or later: as for 'logbus consume --timestamp'."
)
@click.option("--until", metavar="WHEN", help="Windows that begin before this time.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    help="Seconds after the end of a window for which it is not judged: records and events may be under way.",
)
@click.option("--measure", default="producer", show_default=True, help="The role whose counts the others must reach.")
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="APPLICATION=TOPIC",
    help="An application that must have consumed a topic, also if it reports nothing; may be repeated.",
)
@click.option(
    "--schema-registry",
    "registries",
    multiple=True,
    metavar="URL",
    help="Where schemas of events in framed Avro are; may be repeated, for others that answer if the first does not.",
)
@json_option
@bootstrap_options
def audit(
    topic: str,
    since: str | None,
    until: str | None,
    grace: float,
    measure: str,
    expected: tuple[str, ...],
    registries: tuple[str, ...],
    as_json: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Compare what applications consumed with what was published, by topic and window of time, as their monitoring
    events say. Where records are missing the exit status is 1.

    \b
    Example:
      logbus audit
      logbus audit --since 2024-05-01T00:00 --until 2024-05-02T00:00
      logbus audit --expect warehouse=orders --json

    Events are read in JSON and in Avro.
    """
    from logbus.cli.app import complain
    from logbus.cli.running import CommandFailed, with_cluster
    from logbus.client.audit_check import Ledger, Verdict
    from logbus.client.audit_decoding import EventReader
    from logbus.client.audit_reading import read_audit
    from logbus.client.schema_registry import SchemaRegistry

    since_ms = 0 if since is None else when(since, "--since")
    until_ms = None if until is None else when(until, "--until")
    for each in expected:
        pairs((each,), "--expect")
    wanted = [(application, name) for application, _, name in (each.partition("=") for each in expected)]

    async def work(cluster: Cluster) -> AuditRead:
        read_from = None if since is None else max(since_ms - _CLOCKS_MS, 0)
        if not registries:
            return await read_audit(cluster, Ledger(measure), topic, since_ms=read_from)
        registry = SchemaRegistry(cluster.reactor, registries, timeout=timeout)
        try:
            return await read_audit(cluster, Ledger(measure), topic, since_ms=read_from, decode=EventReader(registry))
        finally:
            await registry.close()

    read = with_cluster(bootstrap, timeout, work)
    if read.unreadable:
        complain(f"left out what is no monitoring event ({read.unreadable} of the records); the first: {read.problem}")
    try:
        compared = read.ledger.compare(settled_ms=int((time.time() - grace) * 1000), expected=wanted)
    except ValueError as e:
        raise CommandFailed(str(e)) from None
    found = [
        each
        for each in compared
        if each.window_start >= since_ms and (until_ms is None or each.window_start < until_ms)
    ]
    if as_json:
        print_json([_as_json(each) for each in found])
    elif found:
        print_table(
            ["topic", "window", "application", "role", "published", "counted", "missing", "failed", "verdict"],
            [_row(each) for each in found],
        )
    lost = [each for each in found if each.verdict is Verdict.MISSING]
    if lost:
        topics = ", ".join(sorted({each.topic for each in lost}))
        raise CommandFailed(f"{sum(each.missing for each in lost)} records are missing, of {topics}")


def _row(each: Comparison) -> list[object]:
    from logbus.pipeline.jobs.times import time_text

    who = [each.topic, time_text(each.window_start), each.application, each.role]
    return [*who, each.published, each.counted, each.missing, each.failed, each.verdict.value]


def _as_json(each: Comparison) -> dict[str, object]:
    return {
        "topic": each.topic,
        "window_start": each.window_start,
        "window_ms": each.window_ms,
        "application": each.application,
        "role": each.role,
        "published": each.published,
        "counted": each.counted,
        "missing": each.missing,
        "failed": each.failed,
        "verdict": each.verdict.value,
    }
