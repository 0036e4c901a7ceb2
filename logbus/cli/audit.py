"""``logbus audit``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from logbus.cli.auditing import Question, audit_options, print_comparisons
from logbus.cli.options import bootstrap_options, json_option
from logbus.cli.output import print_json

if TYPE_CHECKING:
    from logbus.client.audit_check import Comparison
    from logbus.client.audit_reading import AuditRead
    from logbus.client.cluster import Cluster

# An event may be published a little before its window begins, if clocks differ.
_CLOCKS_MS = 3_600_000


@click.command()
@audit_options
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
    asked: Question,
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

    async def work(cluster: Cluster) -> AuditRead:
        read_from = None if asked.since_ms is None else max(asked.since_ms - _CLOCKS_MS, 0)
        if not registries:
            return await read_audit(cluster, Ledger(asked.measure), asked.topic, since_ms=read_from)
        registry = SchemaRegistry(cluster.reactor, registries, timeout=timeout)
        try:
            return await read_audit(
                cluster, Ledger(asked.measure), asked.topic, since_ms=read_from, decode=EventReader(registry)
            )
        finally:
            await registry.close()

    read = with_cluster(bootstrap, timeout, work)
    if read.unreadable:
        complain(f"left out what is no monitoring event ({read.unreadable} of the records); the first: {read.problem}")
    try:
        compared = read.ledger.compare(settled_ms=int((time.time() - asked.grace) * 1000), expected=asked.expected)
    except ValueError as e:
        raise CommandFailed(str(e)) from None
    found = [
        each
        for each in compared
        if each.window_start >= (asked.since_ms or 0) and (asked.until_ms is None or each.window_start < asked.until_ms)
    ]
    if as_json:
        print_json([_as_json(each) for each in found])
    elif found:
        print_comparisons(found)
    lost = [each for each in found if each.verdict is Verdict.MISSING]
    if lost:
        topics = ", ".join(sorted({each.topic for each in lost}))
        raise CommandFailed(f"{sum(each.missing for each in lost)} records are missing, of {topics}")


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
