"""
Looks every few seconds for what is wrong with the broker, and tells the log when it begins and when it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from logbus.broker.condition_sources import Source
from logbus.conditions import KINDS, Changes, Condition, ConditionKind, Conditions, Finding, Severity
from logbus.metrics import Family, Registry, Sample
from logbus.services import PeriodicTask

SECONDS = 5.0
"""Between two checks."""

LINES = 5
"""Conditions of a kind that are logged one by one at a check; the others are counted."""


@define(eq=False)
class ConditionMonitor:
    """
    Keeps the conditions of a broker.

    :ivar conditions: what is wrong.
    :param wall_clock: seconds since 1970.
    """

    _clock: IReactorTime
    _wall_clock: Callable[[], float]
    _sources: Mapping[ConditionKind, Source]
    conditions: Conditions = field(factory=Conditions, init=False)
    _task: PeriodicTask = field(init=False)
    _log = Logger()

    @_task.default
    def _make_task(self) -> PeriodicTask:
        return PeriodicTask(self._clock, SECONDS, self.check, "looking for what is wrong", now=True)

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metric of conditions."""
        registry.add_source(self._families)

    def _families(self) -> Iterator[Family]:
        name = "logbus_conditions"
        counts = self.conditions.counts()
        yield Family(
            name,
            "What is wrong with the broker, by kind of condition: the number of directories, topics and so on.",
            "gauge",
            (Sample(name, (("condition", kind.name),), counts.get(kind.name, 0)) for kind in KINDS),
        )

    def start(self) -> None:
        """Begin to check."""
        self._task.startService()

    def stop(self) -> Deferred[None]:
        """End it."""
        return self._task.stopService()

    async def check(self) -> None:
        """Check all sources; other work has its turns in between."""
        for kind, source in self._sources.items():
            findings: list[Finding] = []
            for finding in source():
                if finding is None:
                    await deferLater(self._clock, 0)
                else:
                    findings.append(finding)
            self._log_changes(kind, self.conditions.found(kind, findings, self._wall_clock()))

    def _log_changes(self, kind: ConditionKind, changes: Changes) -> None:
        if not kind.is_logged:
            return
        critical = kind.severity is Severity.CRITICAL
        for condition in changes.began[:LINES]:
            say = self._log.error if critical else self._log.warn
            say("{condition}: {advice}", condition=sentence(condition), advice=condition.advice, kind=kind.name)
        for condition in changes.ended[:LINES]:
            self._log.info("over: {condition}", condition=sentence(condition), kind=kind.name)
        for verb, some in (("began", changes.began), ("are over", changes.ended)):
            if len(some) > LINES:
                self._log.warn("{count} more of {kind} {verb}", count=len(some) - LINES, kind=kind.name, verb=verb)


def sentence(condition: Condition) -> str:
    """Return a condition as the log tells it."""
    return f"{condition.kind.name} ({condition.subject}): {condition.message}"
