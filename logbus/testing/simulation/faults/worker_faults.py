"""Faults of workers: of their supervisor, which has the metadata store, of its disk, and of their machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred

from logbus.metastore.operations import DatabaseFull, StoreUnusable
from logbus.testing.simulation.environment.broker_node import BrokerNode, World
from logbus.testing.simulation.environment.inodes import PowerCutOutcome
from logbus.testing.simulation.environment.worker_store import WorkerStoreHost, no_fault
from logbus.testing.simulation.faults.fault_log import FaultLog
from logbus.testing.simulation.workloads.cluster_operator import ClusterOperator

RESTART_SECONDS = 1.0
MOVE_SECONDS = 5.0
"""For how long a move may take that is to count."""


@define(eq=False)
class WorkerFaults:
    """
    Hits the supervisor and the machine. A method returns whether it has an effect; None: that shows later.

    :ivar operator: the client that sends administrative requests.
    """

    world: World
    nodes: Mapping[int, BrokerNode]
    host: WorkerStoreHost
    operator: ClusterOperator
    log: FaultLog

    def __attrs_post_init__(self) -> None:
        self.host.failed = self._failed

    def supervisor_kill(self, down: float) -> bool:
        """Its workers stop in order, as soon as they notice; the next supervisor starts them when they have."""
        host = self.host
        if not host.up:
            return False
        host.kill()
        for node in self.nodes.values():
            if node.up:
                self._orphan(node)
        self.log.end_after(down, self._start, "the supervisor being down")
        return True

    def _failed(self) -> None:
        """A supervisor ends if its metadata store failed; systemd starts it again."""
        self.log.tell("the metadata store failed")
        self.supervisor_kill(RESTART_SECONDS)

    def supervisor_freeze(self, seconds: float) -> bool | None:
        """It answers nothing for a while; workers end their sessions then, and begin others when it is back."""
        reactor = self.host.reactor
        if not self.host.up or reactor.frozen:
            return False
        reactor.freeze()

        def thaw() -> None:
            self.log.count("supervisor-freeze", bool(reactor.missed))
            if not reactor.dead:
                reactor.thaw()

        self.log.end_after(seconds, thaw, "the supervisor being frozen")
        return None

    def machine_power_cut(self, down: float, mode: str) -> bool:
        """All of them lose power, with the disk that they share."""
        world = self.world
        disk = world.worker_disk
        if not self.host.up or disk is None:
            return False
        self.host.kill(silently=True)
        for node in self.nodes.values():
            node.go_dark()
        world.worker_disk = disk.after_power_cut(PowerCutOutcome(mode, world.generator()))
        self.log.end_after(down, self._start, "the machine being without power")
        return True

    def rebalance(self, by: int) -> None:
        """Move each partition to other workers; it has an effect if a log moves by links."""
        before = self._adopted()

        async def move() -> bool:
            if not await self.operator.move_all(by):
                return False
            await self.operator.view.sleep(MOVE_SECONDS)
            return self._adopted() > before

        Deferred.fromCoroutine(move()).addCallback(lambda effect: self.log.count("rebalance", effect))

    def _adopted(self) -> int:
        return sum(node.adopted for node in self.nodes.values())

    def _orphan(self, node: BrokerNode) -> None:
        life = node.lives

        def ended(_: Any) -> None:
            if node.lives == life and self.host.up:
                node.start_again()

        def stop() -> None:
            if not node.up or node.lives != life:
                return
            if not node.ready:
                node.kill()
                ended(None)
                return
            node.orphan().addCallback(lambda _: node.world.clock.at(node.world.clock.now + 0.05, None, ended, None))

        node.world.clock.at(node.world.clock.now, node.reactor, stop)

    def _start(self) -> None:
        if not self.host.up:
            self.host.start()
        for node in self.nodes.values():
            node.start_again()

    def slow_metadata_disk(self, seconds: float, latency: float) -> bool:
        """Commits take longer."""
        before = self.host.seconds
        if before > 0.005:
            return False
        self.host.seconds = latency

        def mend() -> None:
            self.host.seconds = before

        self.log.end_after(seconds, mend, "the disk of the metadata store being slow")
        return True

    def metadata_disk_error(self, down: float, written: bool) -> bool | None:
        """Commits fail, and may be made all the same; no supervisor stays up until the disk is replaced."""
        error = StoreUnusable("metadata.db cannot be used: Input/output error")
        return self._fail_commits("metadata-disk-error", down, error, written)

    def metadata_no_space(self, seconds: float) -> bool | None:
        """Commits are refused for a while."""
        return self._fail_commits("metadata-no-space", seconds, DatabaseFull("metadata.db: there is no room"), False)

    def _fail_commits(self, kind: str, seconds: float, error: StoreUnusable, is_made: bool) -> bool | None:
        host = self.host
        if host.fault is not no_fault:
            return False
        failed = 0

        def fault() -> tuple[StoreUnusable, bool]:
            nonlocal failed
            failed += 1
            return error, is_made

        def mend() -> None:
            host.fault = no_fault
            self.log.count(kind, bool(failed))
            self._start()

        host.fault = fault
        self.log.end_after(seconds, mend, kind)
        return None
