"""Faults of leaders: the current leader is hit, again and again."""

from __future__ import annotations

from attrs import define

from logbus.testing.simulation.environment.broker_node import host_of
from logbus.testing.simulation.environment.virtual_clock import VirtualClock
from logbus.testing.simulation.faults.broker_faults import BrokerFaults
from logbus.testing.simulation.faults.fault_log import FaultLog
from logbus.testing.simulation.faults.network_faults import NetworkFaults
from logbus.testing.simulation.faults.store_faults import StoreFaults


@define(eq=False)
class LeaderFaults:
    """Hits the current leader by faults of brokers, links and sessions."""

    brokers: BrokerFaults
    network: NetworkFaults
    store: StoreFaults
    clock: VirtualClock
    log: FaultLog

    def flap(self, times: int, seconds: float, how: str) -> bool | None:
        """Strike the current leader, again and again."""
        leaders = [
            node for node in self.brokers.nodes.values() if node.ready and not node.reactor.frozen and node.leads
        ]
        struck = False
        if leaders:
            broker = leaders[0].broker_id
            self.log.tell(f"broker {broker} leads: {how}")
            if how == "expire":
                struck = self.store.expire(broker)
            elif how == "kill":
                struck = self.brokers.kill(broker, seconds / 2)
            elif how == "power-cut":
                struck = self.brokers.power_cut(broker, seconds / 2, "lose")
            else:
                self.network.isolate(broker, seconds)
                struck = True
        if times > 1:
            self.clock.at(self.clock.now + seconds, None, self._strike_again, times - 1, seconds, how)
        return struck

    def islands(self, seconds: float, times: int, how: str) -> None:
        """Cut all links between brokers, and strike leaders; the metadata store and clients still reach all."""
        hosts = [host_of(each) for each in self.brokers.nodes]
        self.network.cut_links("islands", [(one, other) for one in hosts for other in hosts if one != other], seconds)
        gap = seconds / (times + 1)
        self.clock.at(self.clock.now + gap, None, self._strike_again, times, gap, how)

    def _strike_again(self, times: int, seconds: float, how: str) -> None:
        if not self.log.ended:
            self.flap(times, seconds, how)
