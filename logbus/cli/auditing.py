"""What ``logbus audit`` and ``logbus pipeline audit`` share: what is asked, and how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from attrs import frozen

from logbus.cli.options import pairs, when
from logbus.cli.output import print_table

if TYPE_CHECKING:
    from logbus.client.audit_check import Comparison

F = TypeVar("F", bound=Callable[..., Any])


@frozen
class Question:
    """
    What to audit.

    :ivar topic: where the monitoring events are.
    :ivar since_ms, until_ms: windows that begin in between, in milliseconds since 1970.
    :ivar grace: seconds after the end of a window for which it is not judged.
    :ivar measure: the role whose counts the others must reach.
    :ivar expected: application and topic: who must have consumed what.
    """

    topic: str
    since_ms: int | None
    until_ms: int | None
    grace: float
    measure: str
    expected: tuple[tuple[str, str], ...]


def audit_options(command: F) -> F:
    """The options of an audit. The command gets a :class:`Question`, as ``asked``."""

    @wraps(command)
    def bound(
        topic: str,
        since: str | None,
        until: str | None,
        grace: float,
        measure: str,
        expected: tuple[str, ...],
        **given: Any,
    ) -> Any:
        asked = Question(
            topic=topic,
            since_ms=None if since is None else when(since, "--since"),
            until_ms=None if until is None else when(until, "--until"),
            grace=grace,
            measure=measure,
            expected=tuple(pair for each in expected for pair in pairs([each], "--expect", "warehouse=orders").items()),
        )
        return command(asked=asked, **given)

    for option in (
        click.option(
            "--expect",
            "expected",
            multiple=True,
            metavar="APPLICATION=TOPIC",
            help="An application that must have consumed a topic, also if it reports nothing; may be repeated.",
        ),
        click.option(
            "--measure", default="producer", show_default=True, help="The role whose counts the others must reach."
        ),
        click.option(
            "--grace",
            type=click.FloatRange(min=0),
            default=120.0,
            show_default=True,
            help="Seconds after the end of a window for which it is not judged: records and events may be under way.",
        ),
        click.option("--until", metavar="WHEN", help="Windows that begin before this time."),
        click.option(
            "--since",
            metavar="WHEN",
            help="Windows that begin at this time or later: as for 'logbus consume --timestamp'.",
        ),
        click.option("--topic", default="logbus-audit", show_default=True, help="Where the monitoring events are."),
    ):
        bound = option(bound)
    return cast(F, bound)


def print_comparisons(found: Iterable[Comparison]) -> None:
    """A table of what was found."""
    from logbus.pipeline.jobs.times import time_text

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
