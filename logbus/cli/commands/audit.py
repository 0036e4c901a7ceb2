"""
The ``logbus audit`` command: compares published with consumed counts of monitoring events;
:mod:`logbus.cli.commands.audit_mirror` compares topics with their copies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from logbus.cli.app import LazyGroup
from logbus.cli.audit_query import AuditQuery, audit_options, print_comparisons
from logbus.cli.options import bootstrap_options, json_option
from logbus.cli.output import print_json

if TYPE_CHECKING:
    from logbus.client.audit.audit_comparison import AuditComparison
    from logbus.client.audit.audit_topic import AuditRead
    from logbus.client.cluster.cluster import Cluster

# Clocks differ: an event may be published a little before its window begins.
_CLOCKS_MS = 3_600_000


def _unless_subcommand(command: Callable[..., None]) -> Callable[..., None]:
    """Leave the rest to a subcommand, if there is one: it connects in its own way."""

    @wraps(command)
    def run(**given: Any) -> None:
        if click.get_current_context().invoked_subcommand is None:
            command(**given)

    return run


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    lazy={
        "mirror": (
            "logbus.cli.commands.audit_mirror:audit_mirror",
            "Compare topics with their copies in another cluster.",
        )
    },
)
@_unless_subcommand
@audit_options
@click.option(
    "--schema-registry",
    "registries",
    multiple=True,
    metavar="URL",
    help="Schema registry for events in framed Avro; may be repeated, to name others to try if the first fails.",
)
@json_option
@bootstrap_options
def audit(
    query: AuditQuery,
    registries: tuple[str, ...],
    as_json: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Compare the records that applications consumed with those published, by topic and time window, using their
    monitoring events. The exit status is 1 if records are missing, or if that is unknown, and if more monitoring events
    are unreadable or more records duplicated than allowed.

    \b
    Example:
      logbus audit
      logbus audit --since 2024-05-01T00:00 --until 2024-05-02T00:00
      logbus audit --expect warehouse=orders --json
      logbus audit mirror --from paris:9092 --to rome:9092

    Events may be JSON or Avro.
    """
    from logbus.cli.app import print_error
    from logbus.cli.runner import CommandFailed, with_cluster
    from logbus.client.audit.audit_comparison import AuditTotals
    from logbus.client.audit.audit_topic import read_audit
    from logbus.client.audit.event_decoder import EventDecoder
    from logbus.client.schema.schema_registry import SchemaRegistry

    async def work(cluster: Cluster) -> AuditRead:
        read_from = None if query.since_ms is None else max(query.since_ms - _CLOCKS_MS, 0)
        if not registries:
            return await read_audit(cluster, AuditTotals(query.measure), query.topic, since_ms=read_from)
        registry = SchemaRegistry(cluster.reactor, registries, timeout=timeout)
        try:
            return await read_audit(
                cluster, AuditTotals(query.measure), query.topic, since_ms=read_from, decode=EventDecoder(registry)
            )
        finally:
            await registry.close()

    read = with_cluster(bootstrap, timeout, work)
    if read.unreadable:
        print_error(f"ignored {read.unreadable} records that are no monitoring events; the first: {read.problem}")
    try:
        compared = read.totals.compare(settled_ms=int((time.time() - query.grace) * 1000), expected=query.expected)
    except ValueError as e:
        raise CommandFailed(str(e)) from None
    found = [
        each
        for each in compared
        if each.window_start >= (query.since_ms or 0) and (query.until_ms is None or each.window_start < query.until_ms)
    ]
    if as_json:
        print_json([_as_json(each) for each in found])
    elif found:
        print_comparisons(found)
    if problems := _problems(query, read, found):
        raise CommandFailed("; ".join(problems))
    if not found:
        print_error(
            "nothing to compare: in that time no application reported records that it consumed; "
            "--expect APPLICATION=TOPIC takes that for a loss"
        )


def _problems(query: AuditQuery, read: AuditRead, found: Sequence[AuditComparison]) -> list[str]:
    """Sentences about all for which the audit fails."""
    from logbus.client.audit.audit_comparison import AuditVerdict, loss_sentences

    problems = [] if read.events else ["there are no monitoring events"]
    silent = {topic for _, topic in query.expected} - {each.topic for each in found}
    if read.events and silent:
        problems.append(f"no monitoring event is about topic {', '.join(map(repr, sorted(silent)))}")
    problems += loss_sentences(found)
    return problems + query.limits.exceeded(
        events=read.events,
        unreadable=read.unreadable,
        counted=sum(each.counted for each in found),
        surplus=-sum(each.missing for each in found if each.verdict is AuditVerdict.DUPLICATED),
    )


def _as_json(each: AuditComparison) -> dict[str, object]:
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
