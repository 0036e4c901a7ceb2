"""Faults of tiered storage: the object store is away, fails, is slow; brokers die in the middle of a copy."""

from __future__ import annotations

from attrs import define

from logbus.testing.simulation.environment.remote_objects import REMOTE_SECONDS, RemoteObjects
from logbus.testing.simulation.faults.broker_faults import BrokerFaults
from logbus.testing.simulation.faults.fault_log import FaultLog
from logbus.testing.simulation.workloads.tiered_workload import TieredWorkload

EVERYTHING = ("read", "write", "delete", "list")


@define(eq=False)
class RemoteFaults:
    """Hits the object store, and those that copy to it. A method returns whether it has an effect; None: that shows."""

    objects: RemoteObjects
    brokers: BrokerFaults
    workload: TieredWorkload
    log: FaultLog

    def remote_outage(self, seconds: float, op: str) -> None:
        """All operations fail, or all of one kind."""
        before = self.objects.failed
        self.objects.refused = frozenset(EVERYTHING if op == "all" else (op,))

        def mend() -> None:
            self.objects.refused = frozenset()
            self.log.count("remote-outage", self.objects.failed > before)

        self.log.end_after(seconds, mend, f"the object store refusing: {op}")

    def remote_errors(self, seconds: float, share: float) -> None:
        """A share of the operations fails."""
        before = self.objects.failed
        self.objects.failing = share

        def mend() -> None:
            self.objects.failing = 0.0
            self.log.count("remote-errors", self.objects.failed > before)

        self.log.end_after(seconds, mend, "errors of the object store")

    def slow_remote(self, seconds: float, latency: float) -> bool:
        """Operations take long."""
        self.objects.seconds = latency

        def mend() -> None:
            self.objects.seconds = REMOTE_SECONDS

        self.log.end_after(seconds, mend, "the object store being slow")
        return True

    def kill_copier(self, down: float, steps: int, how: str) -> None:
        """Whoever copies next dies, or is frozen, while it writes an object."""
        left = steps

        def strike(broker: int) -> None:
            self.log.tell(f"broker {broker} copies: {how}")
            if how == "freeze":
                self.log.count("kill-copier", self.brokers.freeze(broker, down) is None)
            elif how == "power-cut":
                self.log.count("kill-copier", self.brokers.power_cut(broker, down, "lose"))
            else:
                self.log.count("kill-copier", self.brokers.kill(broker, down))

        def count(broker: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                self.objects.on_write = lambda broker_id: None
                # The thread of the copy is running now.
                self.brokers.clock.at(self.brokers.clock.now, None, strike, broker)

        self.objects.on_write = count

        def disarm() -> None:
            self.objects.on_write = lambda broker_id: None

        self.log.end_after(30.0, disarm, "the wait for a copy")

    def passing_archive(self, name: str, seconds: float) -> None:
        """A topic with remote storage comes, is written to, and goes."""
        self.workload.come_and_go(name, seconds).addCallback(
            lambda effect: self.log.count("passing-archive", bool(effect))
        )
