"""
The roles of a cluster's brokers, as its metadata store has them, and the waits for changes of these.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from logbus.client import validators as check
from logbus.metastore.cluster_znodes import ControllerZnode
from logbus.metastore.znodes import BROKER_IDS, CONTROLLER, TOPICS, BrokerIdZnode, StateZnode, TopicZnode
from logbus.model import LeaderAndIsr
from logbus.testing.store_view import StoreView
from logbus.testing.waiting import WaitTimedOut, wait_until

if TYPE_CHECKING:
    from logbus.testing.admin import Admin

T = TypeVar("T")

CREATION_SECONDS = 10.0
"""So long a partition is waited for that does not exist, and may be about to be created."""


class NumberedBroker(Protocol):
    """A broker of a cluster."""

    id: int
    data_dir: Path

    @property
    def bootstrap(self) -> str: ...
    @property
    def running(self) -> bool: ...
    @property
    def started(self) -> bool: ...


B = TypeVar("B", bound=NumberedBroker)


class ClusterRoles(Generic[B]):
    """
    Base of the clusters.

    :ivar brokers: in the order of their ids, which count from 0.
    :ivar tree: the content of the metadata store.
    :ivar timeout: seconds to wait for a change.
    """

    brokers: list[B]
    timeout: float

    if TYPE_CHECKING:

        @property
        def admin(self) -> Admin: ...
        @property
        def tree(self) -> StoreView: ...
        def _require_started(self, what: str = "") -> None: ...

    @property
    def bootstrap(self) -> str:
        """
        HOST:PORT of all brokers that were started, for Kafka clients.

        :raise BrokerFailed: none was, or the cluster is closed.
        """
        self._require_started()
        return ",".join(broker.bootstrap for broker in self.brokers if broker.started)

    @property
    def running(self) -> list[B]:
        """The brokers that were started and not stopped; frozen ones are among them."""
        return [broker for broker in self.brokers if broker.running]

    # Roles.

    def state(self, topic: str, partition: int = 0) -> LeaderAndIsr | None:
        """Leader and in-sync replicas as the metadata store has them now; None: there is no such partition."""
        found = self.tree.read(StateZnode.path(topic, partition))
        return None if found is None else StateZnode.decode(topic, partition, found[0], found[1].version)

    def leader(self, topic: str, partition: int = 0, *, other_than: B | None = None) -> B:
        """
        The leader of a partition, as soon as a live broker leads it.

        :param other_than: wait until it is not this one.
        :raise WaitTimedOut: there was none in time; or for some seconds no such partition.
        """
        self._replicas(topic, partition)

        def find() -> B | None:
            state = self.state(topic, partition)
            alive = state is not None and str(state.leader) in self.tree.children(BROKER_IDS)
            found = self.brokers[state.leader] if state is not None and alive else None
            return None if found is other_than else found

        return self.tree.wait_for(find, f"a{' new' if other_than else ''} leader of {topic}-{partition}")

    def followers(self, topic: str, partition: int = 0) -> list[B]:
        """The other replicas of a partition, in the order of its assignment."""
        leader, replicas = self.leader(topic, partition), self._replicas(topic, partition)
        return [self.brokers[number] for number in replicas if number != leader.id]

    def move_leader(self, topic: str, partition: int = 0, *, to: B | None = None) -> B:
        """
        Have another replica lead a partition.

        :param to: a broker that has a replica; None: the next one of the assignment.
        :returns: the broker that leads it now.
        :raise ValueError: ``to`` has no replica; there is no other one.
        :raise ApiError: the controller refused it.
        :raise WaitTimedOut: it did not come to lead in time.
        """
        from logbus.model import TopicPartition

        led, which = self.leader(topic, partition), TopicPartition(topic, partition)
        replicas = self._replicas(topic, partition)
        others = [number for number in replicas if number != led.id]
        chosen = to.id if to is not None else next(iter(others), -1)
        if chosen not in replicas:
            raise ValueError(f"move_leader: {which} has replicas on {list(replicas)} only; move it to one of these")
        if chosen != led.id:
            order = [chosen, *(number for number in replicas if number != chosen)]
            self.admin.run(lambda client: client.alter_reassignments({which: order}))
            self.admin.run(lambda client: client.elect_leaders([which]))
            self.tree.wait_for(lambda: self.leader(topic, partition).id == chosen, f"{chosen} to lead {which}")
        return self.brokers[chosen]

    def _replicas(self, topic: str, partition: int) -> Sequence[int]:
        """
        The brokers with a replica of a partition; one that does not exist may be about to be created.

        :raise WaitTimedOut: it was not; says what there is.
        """
        check.text("topic", topic)
        check.integer("partition", partition, 0)

        def find() -> Sequence[int] | None:
            data = self.tree.get(TopicZnode.path(topic))
            found = () if data is None else TopicZnode.decode(topic, data).partitions
            return found[partition] if partition < len(found) else None

        try:
            return self.tree.wait_for(find, "", min(CREATION_SECONDS, self.timeout))
        except WaitTimedOut:
            data = self.tree.get(TopicZnode.path(topic))
            if data is None:
                raise WaitTimedOut(f"there is no topic {topic!r}") from None
            count = len(TopicZnode.decode(topic, data).partitions)
            raise WaitTimedOut(f"there is no partition {partition} of topic {topic!r}, which has {count}") from None

    def controller(self, *, other_than: B | None = None) -> B:
        """
        The controller, as soon as there is one.

        :param other_than: wait until it is not this one.
        :raise WaitTimedOut: none was elected in time.
        """

        def find() -> B | None:
            data = self.tree.get(CONTROLLER)
            found = None if data is None else self.brokers[ControllerZnode.decode(data).broker_id]
            return None if found is other_than else found

        return self.tree.wait_for(find, f"a{' new' if other_than else ''} controller")

    def epoch(self, broker: B) -> int:
        """The broker epoch: of its registration; −1 while there is none."""
        found = self.tree.read(BrokerIdZnode.path(broker.id))
        return -1 if found is None else int(found[1].czxid)

    # Waiting.

    def wait_in_sync(self, *topics: str, timeout: float | None = None) -> None:
        """
        Wait until all replicas of all partitions are in sync, and have a leader.

        :param topics: only these; without any: all topics.
        :raise WaitTimedOut: they are not.
        """

        def check() -> bool:
            return all(self._in_sync(topic) for topic in topics or self.tree.children(TOPICS))

        self.tree.wait_for(check, "all replicas in sync", timeout)

    def _in_sync(self, topic: str) -> bool:
        data = self.tree.get(TopicZnode.path(topic))
        if data is None:
            return False
        for partition, replicas in enumerate(TopicZnode.decode(topic, data).partitions):
            state = self.state(topic, partition)
            if state is None or state.leader < 0 or set(state.isr) != set(replicas):
                return False
        return True

    def wait_gone(self, broker: B) -> None:
        """Wait until a broker is not registered (its session has ended)."""
        path = BrokerIdZnode.path(broker.id)
        self.tree.wait_for(lambda: self.tree.get(path) is None, f"the end of broker {broker.id}'s registration")

    def wait_back(self, broker: B, *, after: int = -1) -> int:
        """Wait until a broker is registered, with an epoch above ``after``; that epoch."""

        def find() -> int | None:
            epoch = self.epoch(broker)
            return epoch if epoch > after else None

        return self.tree.wait_for(find, f"the registration of broker {broker.id}")

    def wait_known(self) -> None:
        """Wait until every running broker tells its clients of all that run."""
        self._require_started()
        wanted = len(self.running)
        for broker in self.running:
            self.wait_until(lambda broker=broker: known_brokers(broker.bootstrap) == wanted, "a full list of brokers")  # type: ignore[misc]

    def wait_until(self, condition: Callable[[], T | None], what: str, timeout: float | None = None) -> T:
        """
        The result of ``condition`` once it is true, polled every 20 ms: for conditions without an event.

        :raise WaitTimedOut: it did not become true.
        """
        return wait_until(condition, what, self.timeout if timeout is None else timeout)


_METADATA_V1 = struct.pack(">ihhihi", 14, 3, 1, 1, 0, 0)
"""A request without a client id, for no topics."""


def known_brokers(address: str) -> int:
    """The number of brokers in the metadata of the one at ``HOST:PORT``; 0 while it does not answer."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(_METADATA_V1)
            answer = b""
            while len(answer) < 12:
                more = connection.recv(4096)
                if not more:
                    return 0
                answer += more
    except OSError:
        return 0
    return int(struct.unpack_from(">i", answer, 8)[0])
