"""Faults of the supervisor of workers, which has their metadata store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define

from logbus.testing.simulation.environment.broker_node import BrokerNode
from logbus.testing.simulation.environment.worker_store import WorkerStoreHost
from logbus.testing.simulation.faults.fault_log import FaultLog


@define(eq=False)
class WorkerFaults:
    """Hits the supervisor. A method returns whether it has an effect."""

    nodes: Mapping[int, BrokerNode]
    host: WorkerStoreHost
    log: FaultLog

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
