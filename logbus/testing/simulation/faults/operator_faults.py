"""Changes by operators while things go wrong: elections, reassignments, settings, topics."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred

from logbus.testing.simulation.faults.fault_log import FaultLog
from logbus.testing.simulation.workloads.cluster_operator import ClusterOperator


@define(eq=False)
class OperatorFaults:
    """
    Changes the cluster; whether a change had an effect shows later.

    :ivar operator: the client that sends administrative requests.
    """

    operator: ClusterOperator
    log: FaultLog

    def elect(self) -> None:
        self._run("elect", self.operator.elect())

    def reassign(self, order: Sequence[int]) -> None:
        self._run("reassign", self.operator.reassign(order))

    def configure(self, name: str, value: str) -> None:
        self._run("configure", self.operator.configure(name, value))

    def topic(self, name: str, seconds: float) -> None:
        self._run("topic", self.operator.come_and_go(name, seconds))

    def _run(self, kind: str, work: Coroutine[Any, Any, bool]) -> None:
        Deferred.fromCoroutine(work).addCallback(lambda effect: self.log.count(kind, effect))
