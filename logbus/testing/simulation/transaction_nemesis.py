"""Faults of transactions' participants: coordinators, leaders of their partitions, clients."""

from __future__ import annotations

from attrs import define, field

from logbus.testing.simulation.environment.broker_node import BrokerNode, host_of
from logbus.testing.simulation.nemesis import Nemesis
from logbus.testing.simulation.workloads.transactions_workload import STATE_TOPIC, TOPICS, TransactionsWorkload


@define(eq=False)
class TransactionNemesis(Nemesis):
    """
    :ivar transactions: the workload whose clients are killed.
    """

    transactions: TransactionsWorkload = field(kw_only=True)

    def _leader(self, topics: tuple[str, ...], number: int) -> BrokerNode | None:
        """A leader of a partition of these topics; None: there is none to strike."""
        led = sorted(
            (replica.topic_partition, node.broker_id)
            for node in self.nodes.values()
            if node.ready and not node.reactor.frozen
            for replica in node.broker.replicas
            if replica.partition.is_leader and replica.topic_partition.topic in topics
        )
        return self.nodes[led[number % len(led)][1]] if led else None

    def _kill_coordinator(self, number: int, down: float, steps: int) -> bool | None:
        node = self._leader((STATE_TOPIC,), number)
        if node is None:
            return False
        broker = node.broker_id
        return self._at_step("kill-coordinator", broker, steps, lambda: self._kill(broker, down))

    def _power_cut_coordinator(self, number: int, down: float, steps: int, mode: str) -> bool | None:
        node = self._leader((STATE_TOPIC,), number)
        if node is None:
            return False
        broker = node.broker_id
        return self._at_step("power-cut-coordinator", broker, steps, lambda: self._power_cut(broker, down, mode))

    def _kill_participant(self, number: int, down: float) -> bool:
        node = self._leader(TOPICS, number)
        return node is not None and self._kill(node.broker_id, down)

    def _kill_client(self, number: int, down: float) -> bool:
        return self.transactions.kill_client(number, down)

    def _lose_answers(self, broker: int, seconds: float) -> None:
        """Deliver clients' requests to a broker, and lose its answers."""
        self._cut_links("lose-answers", [(host_of(broker), each) for each in self.clients], seconds)
