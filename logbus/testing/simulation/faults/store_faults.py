"""Faults of the metadata store and of time: outages, lost sessions, wrong clocks."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define

from logbus.testing.simulation.environment.broker_node import BrokerNode
from logbus.testing.simulation.environment.simulated_store import Ensemble
from logbus.testing.simulation.faults.fault_log import FaultLog


@define(eq=False)
class StoreFaults:
    """Hits the store, and brokers' sessions and clocks. A method returns whether it has an effect."""

    nodes: Mapping[int, BrokerNode]
    ensemble: Ensemble
    log: FaultLog

    def store_cut(self, broker: int, seconds: float, noticed: bool) -> bool:
        node = self.nodes[broker]
        store = node.store
        if not node.up or not store.reachable:
            return False
        store.cut(noticed=noticed)
        self.log.end_after(seconds, store.mend, f"broker {broker} being cut off the store")
        return True

    def store_outage(self, seconds: float) -> bool:
        if not self.ensemble.available:
            return False
        self.ensemble.available = False
        cut = []
        for node in self.nodes.values():
            if node.up and node.store.reachable:
                node.store.cut(noticed=self.ensemble.random.random() < 0.5, expires=False)
                cut.append(node.store)

        def mend() -> None:
            self.ensemble.available = True
            for node in self.nodes.values():
                # Also sessions that began meanwhile.
                if node.up and node.store not in cut and node.store.reachable:
                    node.store.cut(noticed=True)
                    cut.append(node.store)
            for store in cut:
                store.mend()

        self.log.end_after(seconds, mend, "the store's outage")
        return True

    def slow_store(self, seconds: float, latency: float) -> bool:
        before = self.ensemble.seconds
        if before > 0.005:
            return False
        self.ensemble.seconds = latency

        def mend() -> None:
            self.ensemble.seconds = before

        self.log.end_after(seconds, mend, "the store being slow")
        return True

    def expire(self, broker: int) -> bool:
        node = self.nodes[broker]
        if not node.up or not self.ensemble.alive(node.store.session_id):
            return False
        before = self.ensemble.expired
        node.store.expire()
        return self.ensemble.expired > before

    def clock_jump(self, broker: int | None, by: float) -> bool:
        for node in self.nodes.values():
            if broker is None or node.broker_id == broker:
                node.clock_offset += by
        return bool(by)
