"""Watches for topic and partition changes that require a rebalance in the classic protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.internet.interfaces import IDelayedCall

from logbus.client.cluster.cluster import Cluster
from logbus.client.membership.subscription import Subscription
from logbus.model import TopicPartition

MISSING_AGE = 1.0
"""Seconds between checks while subscribed topics are missing."""


class TopicWatch:
    """
    The topics of a member's subscription, and the partition counts that the leader has assigned.

    :param max_age: seconds between two checks.
    :param check: called when :meth:`change` is due.

    :ivar counts: partition counts of the topics of all members, as the leader last assigned them; empty: another member
        leads.
    :ivar racks: the racks of these partitions' replicas; empty: no member has a rack.
    """

    def __init__(self, cluster: Cluster, max_age: float, check: Callable[[], object]) -> None:
        self.counts: dict[str, int] = {}
        self.racks: dict[TopicPartition, frozenset[str]] = {}
        self._cluster = cluster
        self._max_age = max_age
        self._check = check
        self._timer: IDelayedCall | None = None

    async def wanted(self, subscription: Subscription) -> tuple[str, ...]:
        """The names of the topics to read."""
        if subscription.pattern is None:
            return subscription.topics
        return subscription.among(each.name for each in await self._cluster.topics() if not each.internal)

    async def count(self, topics: Iterable[str]) -> dict[str, int]:
        """The partition counts of topics; 0: the topic does not exist."""
        names = sorted(set(topics))
        errors = await self._cluster.refresh_topics(names) if names else {}
        known = {name: self._cluster.known(name) for name in names if errors.get(name) is None}
        return {name: 0 if (topic := known.get(name)) is None else len(topic.partitions) for name in names}

    def find_racks(self, topics: Iterable[str]) -> dict[TopicPartition, frozenset[str]]:
        """
        The racks of partitions' replicas, from cached metadata.

        For a broker that is down the rack is not known; its partitions keep their previous racks.
        """
        found = {}
        nodes = self._cluster.nodes
        for name in set(topics):
            topic = self._cluster.known(name)
            for index, each in {} if topic is None else topic.partitions.items():
                partition = TopicPartition(name, index)
                racks = frozenset(node.rack for node_id in each.replicas if (node := nodes.get(node_id)) and node.rack)
                is_whole = all(node_id in nodes for node_id in each.replicas)
                found[partition] = racks if is_whole else self.racks.get(partition, racks)
        return found

    async def change(self, subscription: Subscription, read: frozenset[str]) -> str | None:
        """
        A description of what has changed, or None. The leader checks all topics; each member checks its pattern.

        :param read: the topics in this member's subscription.
        """
        if subscription.pattern is not None and frozenset(await self.wanted(subscription)) != read:
            return "other topics match the pattern"
        if self.counts and await self.count(self.counts) != self.counts:
            return "topics have other partitions"
        if self.counts and self.racks and self.find_racks(self.counts) != self.racks:
            return "partitions have replicas in other racks"
        return None

    def schedule_check(self) -> None:
        """Schedule the next check, earlier if topics are missing."""
        self.stop()
        seconds = self._max_age if all(self.counts.values()) else min(MISSING_AGE, self._max_age)
        self._timer = self._cluster.reactor.callLater(seconds, self._check)

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
