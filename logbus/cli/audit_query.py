"""The query of an audit, its options and its table: for ``logbus audit`` and ``logbus pipeline audit``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from attrs import frozen

from logbus.cli.number_types import FloatRange
from logbus.cli.options import max_share_option, parse_pairs, timestamp_ms
from logbus.cli.output import print_table
from logbus.pipeline.jobs.audit_limits import AuditLimits

if TYPE_CHECKING:
    from logbus.client.audit.audit_comparison import AuditComparison

F = TypeVar("F", bound=Callable[..., Any])


@frozen
class AuditQuery:
    """
    The windows, roles and applications to audit.

    :ivar topic: the topic of the monitoring events.
    :ivar since_ms, until_ms: limits of the windows' begin, in milliseconds since 1970.
    :ivar grace: seconds after the end of a window before it is judged.
    :ivar measure: the role whose counts the others must reach.
    :ivar expected: pairs of an application and a topic that it must have consumed.
    :ivar limits: the shares of unreadable events and of duplicates that are accepted.
    """

    topic: str
    since_ms: int | None
    until_ms: int | None
    grace: float
    measure: str
    expected: tuple[tuple[str, str], ...]
    limits: AuditLimits


def audit_options(command: F) -> F:
    """Add the options of an audit; passes the command a :class:`AuditQuery` as ``query``."""

    @wraps(command)
    def bound(
        topic: str,
        since: str | None,
        until: str | None,
        grace: float,
        measure: str,
        expected: tuple[str, ...],
        max_unreadable_share: float,
        max_duplicate_share: float,
        **given: Any,
    ) -> Any:
        query = AuditQuery(
            topic=topic,
            since_ms=None if since is None else timestamp_ms(since, "--since"),
            until_ms=None if until is None else timestamp_ms(until, "--until"),
            grace=grace,
            measure=measure,
            expected=tuple(
                pair for each in expected for pair in parse_pairs([each], "--expect", "warehouse=orders").items()
            ),
            limits=AuditLimits(max_unreadable_share, max_duplicate_share),
        )
        return command(query=query, **given)

    for option in (
        max_share_option("--max-duplicate-share", 0.0, "of the counted records is there more than once"),
        max_share_option("--max-unreadable-share", 0.0, "of the records in the topic are no monitoring events"),
        click.option(
            "--expect",
            "expected",
            multiple=True,
            metavar="APPLICATION=TOPIC",
            help="An application that must have consumed a topic, even if it reports nothing; may be repeated.",
        ),
        click.option(
            "--measure", default="producer", show_default=True, help="The role whose counts the others must reach."
        ),
        click.option(
            "--grace",
            type=FloatRange(min=0),
            default=120.0,
            show_default=True,
            help="Seconds after the end of a window before it is judged: records and events may still arrive.",
        ),
        click.option("--until", metavar="WHEN", help="Windows that begin before this time."),
        click.option(
            "--since",
            metavar="WHEN",
            help="Windows that begin at this time or later: as for 'logbus consume --timestamp'.",
        ),
        click.option("--topic", default="logbus-audit", show_default=True, help="The topic of the monitoring events."),
    ):
        bound = option(bound)
    return cast(F, bound)


def print_comparisons(found: Iterable[AuditComparison]) -> None:
    """Print the comparisons as a table."""
    from logbus.pipeline.jobs.time_text import time_text

    print_table(
        ["topic", "window", "application", "role", "published", "counted", "missing", "failed", "verdict"],
        [
            (
                each.topic,
                time_text(each.window_start),
                each.application,
                each.role,
                each.published,
                each.counted,
                each.missing,
                each.failed,
                each.verdict.value,
            )
            for each in found
        ],
    )
