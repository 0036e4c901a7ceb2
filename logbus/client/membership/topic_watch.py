"""Which topics a member of the classic protocol wants, how many partitions they have, and whether that has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.internet.interfaces import IDelayedCall

from logbus.client.cluster.cluster import Cluster
from logbus.client.membership.subscription import Subscription
from logbus.model import TopicPartition

MISSING_AGE = 1.0
"""Seconds after which topics are looked for again that are subscribed to and not there."""


class TopicWatch:
    """
    :param max_age: seconds between two looks.
    :param look: called when it is time for :meth:`change`.

    :ivar counts: the partitions of the topics of all members, as the leader last assigned them; empty: another leads.
    :ivar racks: where these have replicas, as far as it was known; empty: nobody wants to know.
    """

    def __init__(self, cluster: Cluster, max_age: float, look: Callable[[], object]) -> None:
        self.counts: dict[str, int] = {}
        self.racks: dict[TopicPartition, frozenset[str]] = {}
        self._cluster = cluster
        self._max_age = max_age
        self._look = look
        self._timer: IDelayedCall | None = None

    async def wanted(self, subscription: Subscription) -> tuple[str, ...]:
        """The names of the topics to read."""
        if subscription.pattern is None:
            return subscription.topics
        return subscription.among(each.name for each in await self._cluster.topics() if not each.internal)

    async def count(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions topics have; 0: there is no such topic."""
        names = sorted(set(topics))
        errors = await self._cluster.refresh_topics(names) if names else {}
        known = {name: self._cluster.known(name) for name in names if errors.get(name) is None}
        return {name: 0 if (topic := known.get(name)) is None else len(topic.partitions) for name in names}

    def find_racks(self, topics: Iterable[str]) -> dict[TopicPartition, frozenset[str]]:
        """
        Where partitions of topics have replicas, by what was asked last.

        A broker that is away tells no rack; of its partitions what was known before counts.
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
        What has changed, if anything: the leader looks for all, everybody for the pattern it has.

        :param read: what the group was told that we want.
        """
        if subscription.pattern is not None and frozenset(await self.wanted(subscription)) != read:
            return "other topics match the pattern"
        if self.counts and await self.count(self.counts) != self.counts:
            return "topics have other partitions"
        if self.counts and self.racks and self.find_racks(self.counts) != self.racks:
            return "partitions have replicas in other racks"
        return None

    def schedule_check(self) -> None:
        """Look again after a while, sooner if something is missing."""
        self.stop()
        seconds = self._max_age if all(self.counts.values()) else min(MISSING_AGE, self._max_age)
        self._timer = self._cluster.reactor.callLater(seconds, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
