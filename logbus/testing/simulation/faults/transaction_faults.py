"""Faults of transactions' participants: coordinators, leaders of their partitions, clients."""

from __future__ import annotations

from attrs import define

from logbus.model import TRANSACTIONS_TOPIC
from logbus.testing.simulation.environment.broker_node import BrokerNode
from logbus.testing.simulation.faults.broker_faults import BrokerFaults
from logbus.testing.simulation.workloads.transactions_workload import TOPICS, TransactionsWorkload


@define(eq=False)
class TransactionFaults:
    """
    Hits participants. A method returns whether it has an effect; None: that shows later.

    :ivar transactions: the workload whose clients are killed.
    """

    brokers: BrokerFaults
    transactions: TransactionsWorkload

    def _leader(self, topics: tuple[str, ...], number: int) -> BrokerNode | None:
        """A leader of a partition of these topics; None: there is none to strike."""
        led = sorted(
            (replica.topic_partition, node.broker_id)
            for node in self.brokers.nodes.values()
            if node.ready and not node.reactor.frozen
            for replica in node.broker.replication.replicas
            if replica.partition.is_leader and replica.topic_partition.topic in topics
        )
        return self.brokers.nodes[led[number % len(led)][1]] if led else None

    def kill_coordinator(self, number: int, down: float, steps: int) -> bool | None:
        node = self._leader((TRANSACTIONS_TOPIC,), number)
        if node is None:
            return False
        brokers, broker = self.brokers, node.broker_id
        return brokers.at_step("kill-coordinator", broker, steps, lambda: brokers.kill(broker, down))

    def power_cut_coordinator(self, number: int, down: float, steps: int, mode: str) -> bool | None:
        node = self._leader((TRANSACTIONS_TOPIC,), number)
        if node is None:
            return False
        broker = node.broker_id
        return self.brokers.at_step(
            "power-cut-coordinator", broker, steps, lambda: self.brokers.power_cut(broker, down, mode)
        )

    def kill_participant(self, number: int, down: float) -> bool:
        node = self._leader(TOPICS, number)
        return node is not None and self.brokers.kill(node.broker_id, down)

    def kill_client(self, number: int, down: float) -> bool:
        return self.transactions.kill_client(number, down)
