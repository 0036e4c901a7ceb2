"""Tests of :mod:`logbus.broker.condition_monitor`."""

from __future__ import annotations

from collections.abc import Iterator

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from logbus.broker.condition_monitor import LINES, SECONDS, ConditionMonitor
from logbus.conditions import LOG_DIRECTORY_FULL, PARTITIONS_OFFLINE, REACTOR_LATE, Finding
from logbus.metrics import Registry
from tests.admin.harness import Turning


class MonitorTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.late: list[Finding | None] = []
        self.full: list[Finding | None] = []
        self.offline: list[Finding | None] = []
        self.logged: list[tuple[str, str]] = []
        globalLogPublisher.addObserver(self._hear)
        self.addCleanup(globalLogPublisher.removeObserver, self._hear)
        self.monitor = ConditionMonitor(
            self.clock,
            lambda: 1000 + self.clock.seconds(),
            {
                REACTOR_LATE: lambda: iter(self.late),
                LOG_DIRECTORY_FULL: lambda: iter(self.full),
                PARTITIONS_OFFLINE: lambda: iter(self.offline),
            },
        )
        self.monitor.start()
        self.addCleanup(lambda: self.successResultOf(self.monitor.stop()))

    def _hear(self, event: dict[str, object]) -> None:
        if "condition_monitor" in str(event.get("log_namespace")):
            self.logged.append((event["log_level"].name, str(event["log_format"]).format(**event)))  # type: ignore[attr-defined]

    def check(self) -> list[tuple[str, str]]:
        """The next look; what it logs."""
        del self.logged[:]
        self.clock.advance(SECONDS)
        return self.logged

    def test_told_once(self) -> None:
        """A line when it begins, with what to do; none while it holds; one when it is over."""
        self.assertEqual(self.check(), [])
        self.late = [Finding("reactor", "it was blocked for 2.0 s")]
        told = self.check()
        self.assertEqual(told, [("warn", f"reactor-late (reactor): it was blocked for 2.0 s: {REACTOR_LATE.advice}")])
        self.late = [Finding("reactor", "it was blocked for 3.0 s")]
        self.assertEqual(self.check(), [])
        [condition] = self.monitor.conditions
        self.assertEqual((condition.message, condition.since), ("it was blocked for 3.0 s", 1000 + 2 * SECONDS))
        self.late = []
        self.assertEqual(self.check(), [("info", "over: reactor-late (reactor): it was blocked for 3.0 s")])

    def test_logged_elsewhere(self) -> None:
        """What its subsystem logs has no second line."""
        self.full = [Finding("/d", "0 of 10 bytes are free")]
        self.assertEqual(self.check(), [])
        self.assertEqual([each.subject for each in self.monitor.conditions], ["/d"])

    def test_many(self) -> None:
        """Many at once have some lines, and a number."""
        self.offline = [Finding(f"t{number}", "without a leader: partition 0") for number in range(20)]
        told = self.check()
        self.assertEqual(len(told), LINES + 1)
        self.assertEqual(told[0][0], "error")
        self.assertIn(f"{20 - LINES} more of partitions-offline began", told[-1][1])

    def test_turns(self) -> None:
        """A long look lets others have their turns."""
        clock = Turning()
        self.offline = [None, Finding("t", "without a leader: partition 0"), None]
        monitor = ConditionMonitor(clock, lambda: 0.0, {PARTITIONS_OFFLINE: lambda: iter(self.offline)})
        checking = Deferred.fromCoroutine(monitor.check())
        for _ in range(2):
            self.assertNoResult(checking)
            clock.turn()
        self.successResultOf(checking)
        self.assertEqual(len(list(monitor.conditions)), 1)

    def test_failing_source(self) -> None:
        """A source that fails is in the log; the next look is made all the same."""

        def fails() -> Iterator[Finding | None]:
            raise ValueError("planted")
            yield None

        before = self.monitor._sources
        self.monitor._sources = {REACTOR_LATE: fails}
        self.check()
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.monitor._sources = before
        self.late = [Finding("reactor", "late")]
        self.check()
        self.assertEqual(len(list(self.monitor.conditions)), 1)

    def test_metric(self) -> None:
        """Each kind has its series, also with nothing wrong."""
        registry = Registry()
        self.monitor.register_metrics(registry)
        self.full = [Finding("/a", "full"), Finding("/b", "full")]
        self.check()
        [family] = registry.collect()
        values = {dict(sample.labels)["condition"]: sample.value for sample in family.samples if sample is not None}
        self.assertEqual((values["log-directory-full"], values["reactor-late"]), (2, 0))
