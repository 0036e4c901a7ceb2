"""Cached metadata of a cluster's brokers and topics (Kafka: MetadataCache). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import evolve

from logbus.client.cluster.topic_metadata import Node, TopicMetadata, decode_topic, merge_topic
from logbus.model import TopicPartition
from logbus.wire.messages.metadata import MetadataResponse


class MetadataCache:
    """
    The brokers, and topics that were requested and have not proved wrong since.

    :ivar nodes: the brokers, by id; empty before the first metadata response.
    :ivar cluster_id: None before that.
    :ivar controller_id: −1 before that.
    """

    def __init__(self) -> None:
        self.nodes: Mapping[int, Node] = {}
        self.cluster_id: str | None = None
        self.controller_id = -1
        self._topics: dict[str, TopicMetadata] = {}

    def update_leader(
        self, partition: TopicPartition, leader: int, leader_epoch: int, nodes: Iterable[Node] = ()
    ) -> bool:
        """
        Update the leader of a partition, as named by a broker that is not the leader (KIP-951).

        :param nodes: the addresses of brokers in that response.
        :returns: whether this is newer than the cache; if not, request metadata.
        """
        topic = self._topics.get(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        if topic is None or known is None or leader < 0 or leader_epoch <= known.leader_epoch:
            return False
        found = {each.node_id: each for each in nodes}
        if leader not in found and leader not in self.nodes:
            return False
        self.nodes = {**self.nodes, **found}
        changed = evolve(known, leader=leader, leader_epoch=leader_epoch)
        self._topics[topic.name] = evolve(topic, partitions={**topic.partitions, known.index: changed})
        return True

    def update_address(self, node_id: int, host: str, port: int) -> Node:
        """Take over a broker's address from another response than one with metadata; its rack stays what it was."""
        known = self.nodes.get(node_id)
        node = Node(node_id, host, port, None if known is None else known.rack)
        self.nodes = {**self.nodes, node_id: node}
        return node

    def _update(self, response: MetadataResponse) -> dict[str, TopicMetadata]:
        """Take a response over; topics with an error in it are dropped. Returns the others, by name."""
        self.nodes = {each.node_id: Node(each.node_id, each.host, each.port, each.rack) for each in response.brokers}
        self.controller_id, self.cluster_id = response.controller_id, response.cluster_id
        found = {}
        for each in response.topics:
            name = each.name or ""
            if each.error_code:
                self._topics.pop(name, None)
            elif name:
                found[name] = self._topics[name] = merge_topic(self._topics.get(name), decode_topic(each))
        return found
