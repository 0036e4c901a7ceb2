"""Describes topics as ``kafka-topics --describe`` does: reads them, and makes the lines."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence

from attrs import field, frozen

from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.config_admin import ConfigSource, Resource, ResourceType
from logbus.client.admin.replica_admin import Reassignment
from logbus.client.cluster.cluster import Cluster, PartitionMetadata, TopicMetadata
from logbus.errors import ApiError
from logbus.model import TopicPartition
from logbus.wire.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)

_DESCRIBE_TOPIC_PARTITIONS = 75


@frozen
class EligibleReplicas:
    """The replicas of a partition that may lead without being in sync (KIP-966)."""

    eligible: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()


@frozen
class DescribedTopic:
    """
    A topic to describe.

    :ivar configs: the settings that are not defaults.
    :ivar live: the ids of the brokers that are there.
    :ivar eligible: of each partition; a partition that is not there: brokers do not report it.
    :ivar reassignments: those in progress, by partition.
    """

    topic: TopicMetadata
    configs: Mapping[str, str] = field(factory=dict)
    min_isr: int = 1
    live: frozenset[int] = frozenset()
    eligible: Mapping[int, EligibleReplicas] = field(factory=dict)
    reassignments: Mapping[int, Reassignment] = field(factory=dict)


@frozen
class DescribeFilter:
    """Which partitions are shown: all, or those to which one of the options applies."""

    options: frozenset[str] = frozenset()

    @classmethod
    def of(cls, options: Collection[str]) -> DescribeFilter:
        return cls(frozenset(options))

    def shows(self, described: DescribedTopic, partition: PartitionMetadata) -> bool:
        """Whether a partition is shown."""
        if not self.options:
            return True
        moving = described.reassignments.get(partition.index)
        added = 0 if moving is None else len(moving.adding)
        held, wanted = len(partition.isr), described.min_isr
        applies = {
            "under-replicated-partitions": held < len(partition.replicas) - added,
            "unavailable-partitions": partition.leader < 0 or partition.leader not in described.live,
            "under-min-isr-partitions": held < wanted,
            "at-min-isr-partitions": held == wanted,
        }
        return any(applies[option] for option in self.options)


async def described_topics(
    cluster: Cluster, admin: AdminClient, topics: Sequence[TopicMetadata]
) -> list[DescribedTopic]:
    """
    Read what is described of topics.

    :raise ApiError: the settings of one cannot be read.
    """
    resources = [Resource(ResourceType.TOPIC, topic.name) for topic in topics]
    configs = await admin.describe_configs(resources)
    moving = await _reassignments(admin)
    eligible = await _eligible_replicas(cluster, [topic.name for topic in topics])
    live = frozenset(cluster.nodes)
    found = []
    for topic, resource in zip(topics, resources, strict=True):
        entries = configs[resource]
        if isinstance(entries, ApiError):
            raise entries
        values = {each.name: each.value or "" for each in entries}
        found.append(
            DescribedTopic(
                topic,
                {each.name: each.value or "" for each in entries if each.source is not ConfigSource.DEFAULT},
                int(values.get("min.insync.replicas") or 1),
                live,
                {name.partition: each for name, each in eligible.items() if name.topic == topic.name},
                {name.partition: each for name, each in moving.items() if name.topic == topic.name},
            )
        )
    return found


def topic_lines(described: DescribedTopic, wanted: DescribeFilter, *, only_overrides: bool = False) -> Iterator[str]:
    """
    The lines about a topic.

    :param only_overrides: only its first line, if it has settings.
    """
    topic = described.topic
    configs = ",".join(f"{name}={value}" for name, value in described.configs.items())
    if not wanted.options and (configs or not only_overrides):
        first = next(iter(topic.partitions.values()), None)
        factor = 0 if first is None else len(first.replicas)
        if first is not None and first.index in described.reassignments:
            factor -= len(described.reassignments[first.index].adding)
        yield (
            f"Topic: {topic.name}\tTopicId: {topic_id(topic.topic_id)}\tPartitionCount: {len(topic.partitions)}\t"
            f"ReplicationFactor: {factor}\tConfigs: {configs}"
        )
    if only_overrides:
        return
    for partition in topic.partitions.values():
        if wanted.shows(described, partition):
            yield _partition_line(described, partition)


def topic_id(identity: uuid.UUID) -> str:
    """An id as Kafka writes it: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(identity.bytes).decode().rstrip("=")


def _partition_line(described: DescribedTopic, partition: PartitionMetadata) -> str:
    leader = "none" if partition.leader < 0 else partition.leader
    line = (
        f"\tTopic: {described.topic.name}\tPartition: {partition.index}\tLeader: {leader}"
        f"\tReplicas: {_joined(partition.replicas)}\tIsr: {_joined(partition.isr)}"
    )
    moving = described.reassignments.get(partition.index)
    if moving is not None:
        line += f"\tAdding Replicas: {_joined(moving.adding)}\tRemoving Replicas: {_joined(moving.removing)}"
    eligible = described.eligible.get(partition.index)
    if eligible is None:
        return f"{line}\tElr: N/A\tLastKnownElr: N/A"
    return f"{line}\tElr: {_joined(eligible.eligible)}\tLastKnownElr: {_joined(eligible.last_known)}"


def _joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


async def _reassignments(admin: AdminClient) -> Mapping[TopicPartition, Reassignment]:
    """Those in progress; none if the user may not see them, as Kafka's command has it."""
    try:
        return await admin.list_reassignments()
    except ApiError:
        return {}


async def _eligible_replicas(cluster: Cluster, names: Sequence[str]) -> dict[TopicPartition, EligibleReplicas]:
    """Of each partition, if brokers report it."""
    channel = await cluster.any_channel()
    found: dict[TopicPartition, EligibleReplicas] = {}
    if _DESCRIBE_TOPIC_PARTITIONS not in channel.versions:
        return found
    cursor: Cursor | None = None
    wanted = sorted(names)
    while wanted:
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in wanted], cursor=cursor)
        response: DescribeTopicPartitionsResponse = await channel.request(request)
        for topic in response.topics:
            for each in topic.partitions:
                found[TopicPartition(topic.name or "", each.partition_index)] = EligibleReplicas(
                    tuple(each.eligible_leader_replicas or ()), tuple(each.last_known_elr or ())
                )
        cursor = response.next_cursor
        if cursor is None:
            break
        wanted = [name for name in wanted if name >= cursor.topic_name]
    return found
