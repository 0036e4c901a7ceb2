"""Troubles of the brokers of a test server that are not of single requests. All methods block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define

from logbus.testing.cluster import ClusterBroker
from logbus.testing.local_cluster import LocalBroker
from logbus.testing.server.brokers_under_test import BrokersUnderTest, NoSuchThing, NotPossible

STORE = "store"
"""The metadata store among those that a broker is cut off from: in memory, or a ZooKeeper."""
_OF_PROCESSES = "zookeeper"


@define(eq=False)
class BrokersInTrouble:
    """
    :ivar brokers: the brokers.
    """

    brokers: BrokersUnderTest

    def cut_off(self, number: int, others: Sequence[int | str], way: str = "both") -> None:
        """Let nothing through between a broker and others, or the store; nobody named: all of them."""
        broker = self._running_one(number)
        named: list[Any] = [
            self._store(broker) if other == STORE else self._other(broker, int(other)) for other in others
        ]
        try:
            broker.cut_off(*named, way=way)
        except ValueError as e:
            raise NotPossible(str(e)) from None

    def reconnect(self, number: int) -> None:
        """End all cuts of a broker."""
        self._of_cluster(number).reconnect()

    def expire_session(self, number: int) -> None:
        """Have the store end a broker's session."""
        self._running_one(number).expire_session()

    def move_leader(self, topic: str, partition: int, to: int | None) -> int:
        """Have another replica lead a partition: the broker that leads it then."""
        cluster: Any = self.brokers.cluster
        if cluster is None:
            raise NotPossible("a single broker leads all partitions; start the server with --brokers 3")
        chosen = None if to is None else self.brokers.of(to)
        try:
            return int(cluster.move_leader(topic, partition, to=chosen).id)
        except ValueError as e:
            raise NotPossible(str(e)) from None

    def force_rebalance(self, group_id: str) -> None:
        """Have the members of a group join again, wherever its coordinator is."""
        from logbus.testing.errors import BrokerFailed

        failure: BrokerFailed | None = None
        for broker in self._running():
            try:
                broker.force_rebalance(group_id)
            except BrokerFailed as e:
                failure = e
            else:
                return
        raise NotPossible(str(failure))

    def fence_producer(self, transactional_id: str) -> None:
        """Abort the transaction of an id, and fence its producer."""
        self._running()[0].fence_producer(transactional_id)

    def hang_transaction(self, topic: str, partition: int, transactional_id: str | None, timeout: float) -> str:
        """Leave a transaction open: its transactional id."""
        server: Any = self.brokers.cluster or self._running()[0]
        return str(
            server.hang_transaction(topic, partition, transactional_id=transactional_id, transaction_timeout=timeout)
        )

    def _running(self) -> list[Any]:
        found = [broker for broker in self.brokers.numbered().values() if broker.running]
        if not found:
            raise NotPossible("no broker runs")
        return found

    def _of_cluster(self, number: int) -> ClusterBroker | LocalBroker:
        broker = self.brokers.of(number)
        if not isinstance(broker, ClusterBroker | LocalBroker):
            raise NotPossible("a single broker has no others; start the server with --brokers 3")
        return broker

    def _running_one(self, number: int) -> ClusterBroker | LocalBroker:
        broker = self._of_cluster(number)
        if not broker.running:
            raise NotPossible(f"broker {number} does not run; start it first")
        return broker

    def _other(self, broker: object, number: int) -> Any:
        other = self.brokers.of(number)
        if other is broker:
            raise NoSuchThing(f"broker {number} cannot be cut off from itself; name others")
        return other

    @staticmethod
    def _store(broker: object) -> str:
        return _OF_PROCESSES if isinstance(broker, ClusterBroker) else STORE
