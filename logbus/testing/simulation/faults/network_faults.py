"""Faults of the network: links between brokers and to clients are cut, slow and reset."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import define

from logbus.testing.simulation.environment.broker_node import host_of
from logbus.testing.simulation.environment.network import Network
from logbus.testing.simulation.faults.fault_log import FaultLog


@define(eq=False)
class NetworkFaults:
    """
    Hits links. A method returns whether it has an effect; None: that shows later.

    :ivar brokers: their ids.
    :ivar clients: the addresses of clients.
    """

    network: Network
    brokers: Collection[int]
    clients: Sequence[str]
    log: FaultLog

    def cut_links(self, kind: str, links: Sequence[tuple[str, str]], seconds: float) -> None:
        before = sum(self.network.links.between(*link).stopped for link in links)
        for link in links:
            self.network.cut(*link)

        def mend() -> None:
            self.log.count(kind, sum(self.network.links.between(*link).stopped for link in links) > before)
            for link in links:
                self.network.mend(*link)

        self.log.end_after(seconds, mend, f"{kind} of {len(links)} links")

    def cut(self, source: int, to: int, seconds: float) -> None:
        one, other = host_of(source), host_of(to)
        self.cut_links("cut", [(one, other), (other, one)], seconds)

    def one_way_cut(self, source: int, to: int, seconds: float) -> None:
        self.cut_links("one-way-cut", [(host_of(source), host_of(to))], seconds)

    def isolate(self, broker: int, seconds: float) -> None:
        """Cut a broker off from the other brokers; clients still reach it."""
        me = host_of(broker)
        others = [host_of(each) for each in self.brokers if each != broker]
        self.cut_links("isolate", [link for each in others for link in ((me, each), (each, me))], seconds)

    def cut_off(self, broker: int, seconds: float) -> None:
        """Cut a broker off from clients; brokers still reach it."""
        me = host_of(broker)
        self.cut_links("cut-off", [link for each in self.clients for link in ((me, each), (each, me))], seconds)

    def lose_answers(self, broker: int, seconds: float) -> None:
        """Deliver clients' requests to a broker, and lose its answers."""
        self.cut_links("lose-answers", [(host_of(broker), each) for each in self.clients], seconds)

    def slow_link(self, source: int, to: int, seconds: float, latency: float) -> bool:
        link = self.network.links.between(host_of(source), host_of(to))
        before = (link.latency, link.jitter)
        if link.latency > self.network.links.latency:
            return False
        link.latency, link.jitter = latency, latency / 2

        def mend() -> None:
            link.latency, link.jitter = before

        self.log.end_after(seconds, mend, f"slow link {source} to {to}")
        return True

    def reset(self, broker: int) -> bool:
        others = [*self.clients, *(host_of(each) for each in self.brokers if each != broker)]
        return sum(self.network.reset(host_of(broker), each) for each in others) > 0
