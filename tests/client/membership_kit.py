"""Group members and whole brokers in memory, on one virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.client.cluster.cluster import Cluster
from logbus.client.membership import GroupListener, GroupOptions, Membership, Subscription, membership_of
from logbus.errors import LogbusError
from logbus.model import TopicPartition
from tests.cluster.memory_cluster import ClusterCase, host_of

CLIENTS = 100
"""Where the first client is, among the brokers' numbers; the others follow."""
Places = frozenset[TopicPartition]


def places(topic: str, *numbers: int) -> Places:
    """Some partitions of a topic."""
    return frozenset(TopicPartition(topic, number) for number in numbers)


@define(eq=False)
class RecordingListener(GroupListener):
    """
    A listener that records its calls.

    :ivar news: what it was told, in order.
    :ivar waits: what it is told of that is not done until the test says so.
    :ivar held: fire to go on.
    """

    news: list[tuple[str, Places]] = field(factory=list)
    errors: list[LogbusError] = field(factory=list)
    waits: set[str] = field(factory=set)
    held: list[Deferred[None]] = field(factory=list)
    does: dict[str, Callable[[Places], Any]] = field(factory=dict)

    def _hear(self, word: str, partitions: Places) -> Any:
        self.news.append((word, partitions))
        if word in self.does:
            return self.does[word](partitions)
        if word not in self.waits:
            return None
        held: Deferred[None] = Deferred()
        self.held.append(held)
        return held

    def on_assigned(self, partitions: Places) -> Any:
        return self._hear("assigned", partitions)

    def on_revoked(self, partitions: Places) -> Any:
        return self._hear("revoked", partitions)

    def on_lost(self, partitions: Places) -> Any:
        return self._hear("lost", partitions)

    def on_failed(self, error: LogbusError) -> Any:
        self.errors.append(error)

    def heard(self, word: str) -> Places:
        """All partitions of calls of this kind."""
        return frozenset(each for said, partitions in self.news for each in partitions if said == word)

    def release(self) -> None:
        held, self.held = self.held, []
        for each in held:
            each.callback(None)


class MembershipCase(ClusterCase):
    """A broker with a topic ``t`` of six partitions, and members of the group ``g``."""

    brokers = 1
    config: Mapping[str, str] = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}
    protocol = "classic"

    def setUp(self) -> None:
        super().setUp()
        self.cluster[0].create("t", 6)
        self.members: list[Membership] = []
        self.hears: list[RecordingListener] = []
        self.clients = CLIENTS
        self.quiet: set[int] = set()

    def a_client(self, bootstrap: int = 0, **options: Any) -> Cluster:
        """A client on the brokers' network; closed at the end."""
        self.clients += 1
        client = Cluster(
            self.cluster.clock,
            f"{host_of(bootstrap)}:9092",
            endpoint=self.cluster.network.from_machine(self.clients - 1),
            **options,
        )

        def close() -> None:
            self.cluster.now(client.close())

        self.addCleanup(close)
        return client

    def member(
        self, *topics: str, listener: RecordingListener | None = None, client: Any = None, **options: Any
    ) -> Membership:
        """One more member; it subscribes to topics if some are given."""
        hears = listener or RecordingListener()
        settings = {"group_id": "g", "group_protocol": self.protocol, "request_timeout": 5.0, **options}
        membership = membership_of(client or self.a_client(), GroupOptions(**settings), hears)
        self.members.append(membership)
        self.hears.append(hears)
        if topics:
            membership.subscribe(Subscription.of(topics))

        def close() -> None:
            for each in self.hears:
                each.waits.clear()
                each.release()
            membership.close()
            self.cluster.settle(6)

        self.addCleanup(close)
        return membership

    def lose(self, number: int) -> None:
        """The machine of a member is gone: nothing of it gets through any more."""
        self.quiet.add(number)
        for broker_id in self.cluster.alive:
            self.cluster.cut(CLIENTS + number, broker_id)

    def until(self, condition: Callable[[], bool], seconds: float = 30.0) -> None:
        """Let time pass until something is so."""
        for _ in range(round(seconds / 0.05)):
            if condition():
                return
            for number, each in enumerate(self.members):
                if number not in self.quiet:
                    each.polled()
            self.cluster.settle(0.05)
        raise AssertionError([(each.state, sorted(each.assignment)) for each in self.members])

    def balanced(self, *members: Membership, everything: Places | None = None) -> bool:
        """Whether members are settled, and share everything, each having something."""
        wanted = places("t", *range(6)) if everything is None else everything
        shares = [each.assignment for each in members]
        together = [each for share in shares for each in share]
        settled = all(each.state == "stable" for each in members)
        return settled and all(shares) and sorted(together) == sorted(wanted)
