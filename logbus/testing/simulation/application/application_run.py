"""One run of a simulated application: brokers, its processes, faults, and then the checks."""

from __future__ import annotations

import gc
import time
import traceback
import zlib
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import globalLogPublisher
from twisted.python.failure import Failure

from logbus.errors import ConfigError
from logbus.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from logbus.testing.simulation.application.application_process import ApplicationProcess
from logbus.testing.simulation.application.refusals import NotSimulated, Refusals
from logbus.testing.simulation.application.run_context import close_coroutines, collected_at_the_end, logged_to, silence
from logbus.testing.simulation.application.simulated_application import SimulatedApplication, name_of
from logbus.testing.simulation.application.supervisor import Supervisor
from logbus.testing.simulation.application.virtual_modules import virtual_modules
from logbus.testing.simulation.checks.durability_oracle import DurabilityOracle
from logbus.testing.simulation.checks.error_log import ErrorLog
from logbus.testing.simulation.checks.history import Anomaly
from logbus.testing.simulation.environment.garbage_collector_watch import GarbageCollectorWatch
from logbus.testing.simulation.environment.simulated_cluster import SimulatedCluster
from logbus.testing.simulation.environment.virtual_clock import VirtualClock
from logbus.testing.simulation.nemesis import Nemesis
from logbus.testing.simulation.schedule import Fault, draw_schedule
from logbus.testing.simulation.settings import Settings
from logbus.testing.simulation.totals import RunOutcome
from logbus.testing.simulation.workloads.cluster_client import ClusterClient
from logbus.testing.simulation.workloads.cluster_operator import ClusterOperator

START_S = 60.0
SETTLE_S = 120.0
"""Seconds after the last fault in which the input must be written, and the checks must hold."""
QUIET_S = 15.0
"""Seconds after which the checks must hold still: what comes twice often comes late."""
COLLECT_S = 600
"""Seconds between collections of garbage."""
_INPUT_HOST = "10.0.3.1"
_OPERATOR_HOST = "10.0.3.2"
_INTERNAL = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)


@define(eq=False)
class ApplicationRun:
    """
    A run from a seed; its schedule of faults can be replaced.

    :ivar database: see :class:`.BaseSimulation`; so are ``mended`` and ``now``.
    """

    application: SimulatedApplication
    settings: Settings
    seed: int
    schedule: Sequence[Fault] | None = None
    clock: VirtualClock = field(factory=VirtualClock, init=False)
    database: dict[Any, Any] = field(factory=dict, init=False)
    mended: bool = field(default=False, init=False)
    anomalies: list[Anomaly] = field(factory=list, init=False)
    _cluster: SimulatedCluster = field(init=False)
    _supervisor: Supervisor = field(init=False)
    _input: ApplicationProcess = field(init=False)
    _nemesis: Nemesis = field(init=False)
    _losses: list[DurabilityOracle] = field(factory=list, init=False)
    _refusals: Refusals = field(factory=Refusals, init=False)
    _collector: GarbageCollectorWatch = field(factory=GarbageCollectorWatch, init=False)
    _kept: list[object] = field(factory=list, init=False)
    _trace: int = field(default=0, init=False)

    def run(self) -> RunOutcome:
        """
        Run it, from the start of the brokers to the last check.

        :raises NotSimulated: the application did what is not simulated.
        :raises ConfigError: it is no application.
        """
        began = time.perf_counter()
        with collected_at_the_end(), self._collector:
            try:
                random = Random(self.seed)
                self._cluster = SimulatedCluster(self.settings, self.clock, random, self._segment)
                schedule = self._prepare(random)
                self._observed(schedule)
                outcome = self._outcome(schedule)
                defect = self._supervisor.defect
            finally:
                self._end()
        if self._refusals.first is not None:
            raise NotSimulated(self._refusals.first)
        if defect is not None:
            raise defect
        outcome.real_seconds = time.perf_counter() - began
        return outcome

    def _observed(self, schedule: list[Fault]) -> None:
        """Run it with what it sees of the world, and what is seen of it."""
        observer = ErrorLog(self._collector, lambda text: self.violated("error-logged", text))
        world = self._cluster.world
        globalLogPublisher.addObserver(observer)
        try:
            with (
                virtual_modules(world.generator(), lambda: self.clock.now, self._cluster.wall_clock, self._refusals),
                logged_to(lambda name, line: self.tell(f"{name} {line}".lstrip())),
            ):
                self._run(schedule)
        finally:
            globalLogPublisher.removeObserver(observer)

    def _prepare(self, random: Random) -> list[Fault]:
        settings, cluster, world = self.settings, self._cluster, self._cluster.world
        topics = self.application.topics
        for topic in (*sorted(topics), *_INTERNAL):
            self._losses.append(DurabilityOracle(topic, world.ensemble.tree, lambda: self.clock.now))
        world.ensemble.clients += self._losses
        drawn = draw_schedule(
            Random(random.getrandbits(64)), cluster.broker_ids, settings.seconds, settings.kinds, settings.between
        )
        bootstrap = ",".join(f"{host}:{port}" for host, port in cluster.addresses.values())
        self._supervisor = Supervisor(self.application, world, self, bootstrap, self._refusals)
        self._input = ApplicationProcess(
            world, self, bootstrap, _INPUT_HOST, 0, "input", self._refusals, lambda process, error: None
        )
        first = min(topics, default="")
        view = ClusterClient(cluster.client(_OPERATOR_HOST), cluster.addresses, first, world.generator())
        operator = ClusterOperator(view, topics.get(first, 1), settings.replication)
        self._nemesis = Nemesis(
            world, cluster.nodes, self._supervisor.hosts, self._note, operator, self._losses, None, self._supervisor
        )
        return drawn if self.schedule is None else list(self.schedule)

    # The story.

    def _run(self, schedule: list[Fault]) -> None:
        clock, log = self.clock, self._nemesis.log
        self._cluster.start(power_lost=self._power_went)
        if missing := self._cluster.wait_until_ready(START_S):
            self.violated("no-start", f"brokers {missing} were not ready {START_S:g} s after the start")
            return
        self._input.begin()
        created = self._input.toolbox.create_topics(self.application.topics, self.settings.replication)
        if not self._wait_for(created, START_S):
            self.violated("no-topic", f"the topics could not be created in {START_S:g} s")
            return
        log.origin = start = clock.now
        writing = self._begin_input()
        self._supervisor.start()
        for fault in schedule:
            clock.at(start + fault.at, None, self._nemesis.do, fault)
        if self._advance(start + self.settings.seconds):
            self.mended = True
            self._nemesis.mend_all()
            self._supervisor.mend()
            self._settle(writing)

    def _begin_input(self) -> Deferred[Any] | None:
        source = self.application.source
        if source is None:
            return None
        return self._input.call(source).addErrback(self._function_failed, "input", name_of(source))

    def _settle(self, writing: Deferred[Any] | None) -> None:
        if missing := self._cluster.wait_until_ready(SETTLE_S):
            self.violated("not-back", f"brokers {missing} were not ready {SETTLE_S:g} s after all was mended")
        if writing is not None and not self._wait_for(writing, SETTLE_S) and not self._is_over:
            self.violated("input", f"the input was not written {SETTLE_S:g} s after all faults had ended")
        deadline, pause = self.clock.now + SETTLE_S, 1.0
        while (failing := self._check()) and self.clock.now < deadline and not self._is_over:
            self._advance(self.clock.now + pause)
            pause = min(2 * pause, 16.0)
        if not failing and self._advance(self.clock.now + QUIET_S):
            failing = self._check()
        for name, failure in failing.items():
            self.violated(f"check {name}", _shown(failure))

    def _check(self) -> dict[str, Failure]:
        """The checks that fail now."""
        failing: dict[str, Failure] = {}
        for check in self.application.checks if not self._is_over else ():
            checking = self._input.call(check).addErrback(partial(failing.__setitem__, name_of(check)))
            if not self._wait_for(checking, SETTLE_S):
                failing[name_of(check)] = Failure(TimeoutError(f"it took more than {SETTLE_S:g} s"))
        return failing

    def _function_failed(self, failure: Failure, kind: str, name: str) -> None:
        if isinstance(failure.value, ConfigError):
            self._supervisor.defect = failure.value
        elif failure.check(NotSimulated) is None:
            self.violated(kind, f"{name} failed: {_shown(failure)}")

    def _wait_for(self, result: Deferred[Any], seconds: float) -> bool:
        """Advance time until a Deferred has fired; return whether it has."""
        return self._cluster.wait(lambda: result.called or self._is_over, seconds) and not self._is_over

    def _advance(self, end: float) -> bool:
        """Advance time, until something is wrong; return whether nothing is."""
        while self.clock.now < end and not self._is_over:
            self.clock.run_until(min(self.clock.now + 1, end))
            if int(self.clock.now) % COLLECT_S == 0:
                gc.collect()
        return not self._is_over

    @property
    def _is_over(self) -> bool:
        return bool(self.anomalies) or self._refusals.first is not None or self._supervisor.defect is not None

    def _end(self) -> None:
        """End all processes, and let go of what they had, without a sound."""
        self._cluster.end()
        for each in (self._input, *self._supervisor.processes, *self._supervisor.extra):
            each.kill()
        refused = self._refusals.first
        with silence():
            close_coroutines()
            self._refusals.first = refused
            self._kept.clear()
            self._losses.clear()
            del each, self._cluster, self._nemesis, self._supervisor, self._input
            # What coroutines do when they are closed is collected in the next round.
            for _ in range(8):
                self.clock.clear()
                if not gc.collect():
                    break

    # What processes know and tell.

    @property
    def now(self) -> float:
        """Seconds since the application was started."""
        return self.clock.now - self._nemesis.log.origin

    def tell(self, line: str) -> None:
        """Add a line to the history."""
        self._nemesis.log.tell(line)

    def violated(self, kind: str, what: str) -> None:
        """Something is not as it must be: the run ends soon."""
        self.anomalies.append(Anomaly(kind, what.rstrip()))

    def keep(self, thing: object) -> None:
        """Keep something to the end of the run."""
        self._kept.append(thing)

    def _segment(self, line: str) -> None:
        """A segment arrives; the line begins with its source and its target."""
        self._note(line)
        if self._supervisor.victims:
            source, target, _ = line.split(" ", 2)
            for host in (source, target):
                self._supervisor.stepped(host)

    def _note(self, line: str) -> None:
        self._trace = zlib.crc32(f"{self.clock.now:.9f} {line}".encode(), self._trace)

    def _power_went(self, broker_id: int) -> None:
        for each in self._losses:
            each.power_lost(broker_id)

    def _outcome(self, schedule: list[Fault]) -> RunOutcome:
        log = self._nemesis.log
        gave_up = [Anomaly("gave-up", what) for node in self._cluster.nodes.values() for what in node.trouble]
        return RunOutcome(
            seed=self.seed,
            schedule=schedule,
            anomalies=[*self.anomalies, *gave_up],
            trace=self._trace,
            events=self.clock.events,
            told=log.told,
            effects=log.effects,
            moot=log.moot,
            virtual_seconds=self.clock.now,
        )


def _shown(failure: Failure) -> str:
    """An error in a line, if it is that of an assert; otherwise with the traceback."""
    error: Any = failure.value
    if isinstance(error, AssertionError):
        if str(error):
            return str(error)
        last = traceback.extract_tb(error.__traceback__)[-1:]
        return f"{last[0].line} ({last[0].filename}:{last[0].lineno})" if last else "an assertion failed"
    return str(failure.getTraceback())
