"""
Members of groups as JSON, in one form for groups of all types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from logbus.coordination.classic.classic_group import ClassicGroup
from logbus.coordination.consumer.consumer_group import ConsumerGroup
from logbus.coordination.group import Group
from logbus.coordination.share.share_group import ShareGroup
from logbus.coordination.streams.configured_topology import ConfiguredTopology
from logbus.coordination.streams.endpoints import partitions_read
from logbus.coordination.streams.sticky_assignor import NAME as STICKY
from logbus.coordination.streams.streams_group import StreamsGroup
from logbus.coordination.streams.tasks import Tasks
from logbus.model import TopicPartition
from logbus.wire.member_metadata import read_assignment
from logbus.wire.messages.consumer_protocol import PROTOCOL_TYPE

TopicName = Callable[[bytes], str | None]
"""Returns the name of a topic id; None: it is deleted."""


def assignor_of(group: Group) -> str:
    """Return the assignor of a group; empty until one is chosen."""
    if isinstance(group, ClassicGroup):
        return group.describe().protocol
    if isinstance(group, StreamsGroup):
        return STICKY
    return group.describe().assignor if isinstance(group, (ConsumerGroup, ShareGroup)) else ""


def members_of(group: Group, name_of: TopicName) -> Iterator[dict[str, Any]]:
    """Yield the members of a group."""
    if isinstance(group, ClassicGroup):
        description = group.describe()
        is_consumer = description.protocol_type == PROTOCOL_TYPE
        for each in description.members:
            assigned = read_assignment(each.assignment) if is_consumer else ()
            yield _member(each.member_id, each.instance_id, each.client_id, each.client_host, None, assigned)
    elif isinstance(group, ConsumerGroup):
        for member, position, _ in group.describe().members:
            yield _member(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                position.epoch,
                _with_names(position.assigned, name_of),
            )
    elif isinstance(group, ShareGroup):
        for one, told in group.describe().members:
            assigned = _with_names(told.assigned, name_of)
            yield _member(one.member_id, None, one.client_id, one.client_host, told.epoch, assigned)
    elif isinstance(group, StreamsGroup):
        streams = group.describe()
        topology = streams.configured
        for thread, its, _ in streams.members:
            assigned = () if topology is None else _read_by(its.assigned.active, topology, group.targets.partitions_of)
            yield _member(thread.member_id, None, thread.client_id, thread.client_host, its.epoch, assigned)


def _member(
    member_id: str,
    instance_id: str | None,
    client_id: str,
    host: str,
    epoch: int | None,
    assigned: tuple[TopicPartition, ...],
) -> dict[str, Any]:
    topics: dict[str, list[int]] = {}
    for topic, partition in assigned:
        topics.setdefault(topic, []).append(partition)
    return {
        "id": member_id,
        "instance": instance_id,
        "client": client_id,
        # Kafka writes addresses like Java: an (empty) name, a slash, the address.
        "host": host.rpartition("/")[2],
        "epoch": epoch,
        "assignment": topics,
    }


def _read_by(
    tasks: Tasks, topology: ConfiguredTopology, partitions_of: Callable[[str], int | None]
) -> tuple[TopicPartition, ...]:
    read = partitions_read(tasks, topology, partitions_of)
    return tuple(sorted(TopicPartition(topic, number) for topic, numbers in read for number in numbers))


def _with_names(partitions: Mapping[bytes, frozenset[int]], name_of: TopicName) -> tuple[TopicPartition, ...]:
    found = []
    for topic_id, numbers in partitions.items():
        name = name_of(topic_id)
        if name is not None:
            found += [TopicPartition(name, number) for number in numbers]
    return tuple(sorted(found))
