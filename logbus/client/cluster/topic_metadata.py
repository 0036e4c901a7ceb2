"""Metadata of brokers, topics and partitions, as values. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from attrs import evolve, frozen

from logbus.errors import ApiError, ErrorCode
from logbus.wire.messages.metadata import MetadataResponseTopic


@frozen
class Node:
    """A broker and its advertised address."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@frozen
class PartitionMetadata:
    """
    A partition's leader and replicas.

    :ivar leader: broker id, −1 without a leader.
    """

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()


@frozen
class TopicMetadata:
    """
    A topic and its partitions.

    :ivar topic_id: zero if brokers do not support ids.
    :ivar partitions: by number, in order.
    """

    name: str
    topic_id: uuid.UUID
    internal: bool
    partitions: Mapping[int, PartitionMetadata]

    def has_no(self, partition: int) -> ApiError:
        """The error for a partition that the topic does not have."""
        what = f"topic {self.name!r} has no partition {partition}; it has 0 to {len(self.partitions) - 1}"
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what)


def decode_topic(answer: MetadataResponseTopic) -> TopicMetadata:
    """Decode a topic of a Metadata response."""
    assert answer.name is not None
    partitions = {
        each.partition_index: PartitionMetadata(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.offline_replicas),
        )
        for each in sorted(answer.partitions, key=lambda each: each.partition_index)
    }
    return TopicMetadata(answer.name, uuid.UUID(bytes=answer.topic_id), answer.is_internal, partitions)


def merge_topic(known: TopicMetadata | None, received: TopicMetadata) -> TopicMetadata:
    """
    Merge a response into the cache: per partition the higher leader epoch wins, since a broker may not know of the last
    election yet (KIP-320).
    """
    if known is None or known.topic_id != received.topic_id or not received.topic_id.int:
        # A topic was created anew under its name (or that cannot be told): its epochs start again.
        return received
    partitions = dict(received.partitions)
    for index, ours in known.partitions.items():
        theirs = partitions.get(index)
        if theirs is not None and -1 < theirs.leader_epoch < ours.leader_epoch:
            partitions[index] = ours
    return evolve(received, partitions=partitions)
