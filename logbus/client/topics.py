"""Brokers, topics and partitions, as the brokers describe them. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from attrs import evolve, frozen

from logbus.wire.messages.metadata import MetadataResponseTopic


@frozen
class Node:
    """A broker, where it says that it can be reached."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@frozen
class Partition:
    """
    One partition's state.

    :ivar leader: broker id, −1 without a leader.
    """

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()


@frozen
class Topic:
    """
    One topic.

    :ivar topic_id: zero where brokers know no ids.
    :ivar partitions: by number, in order.
    """

    name: str
    topic_id: uuid.UUID
    internal: bool
    partitions: Mapping[int, Partition]


def topic_of(answer: MetadataResponseTopic) -> Topic:
    """What a broker says of a topic, as a value."""
    assert answer.name is not None
    partitions = {
        each.partition_index: Partition(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.offline_replicas),
        )
        for each in sorted(answer.partitions, key=lambda each: each.partition_index)
    }
    return Topic(answer.name, uuid.UUID(bytes=answer.topic_id), answer.is_internal, partitions)


def newest(known: Topic | None, said: Topic) -> Topic:
    """
    What to believe of a topic: a broker that has not heard of an election yet names the leader before it (KIP-320).
    """
    if known is None or known.topic_id != said.topic_id or not said.topic_id.int:
        # Another topic of that name, or perhaps one: epochs begin anew.
        return said
    partitions = dict(said.partitions)
    for index, ours in known.partitions.items():
        theirs = partitions.get(index)
        if theirs is not None and -1 < theirs.leader_epoch < ours.leader_epoch:
            partitions[index] = ours
    return evolve(said, partitions=partitions)
