"""
Administration: topics, partitions, records to delete, settings, the cluster; of groups see
:mod:`~logbus.client.groups`.

.. code-block:: python

    admin = AdminClient(cluster)
    answers = await admin.create_topics([NewTopic("orders", partitions=3)])
    for name, error in answers.items(): ...

What concerns several things is answered for each: with what was asked for, or with the error as a value.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from attrs import field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from logbus.client.cluster import Cluster, Node, Topic
from logbus.client.groups import GroupAdmin
from logbus.client.offsets import list_offsets
from logbus.client.retry import api_error
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TimestampOffset, TopicPartition
from logbus.net.channel import Channel
from logbus.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from logbus.wire.messages.metadata import DescribeClusterRequest, DescribeClusterResponse
from logbus.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_DESCRIBE_CLUSTER = 60
_ATTEMPTS = 5


class ResourceType(IntEnum):
    """What has settings."""

    TOPIC = 2
    BROKER = 4


class Resource(NamedTuple):
    """A topic by its name, or a broker by its id; the name ``""`` stands for all brokers."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        if self.type is ResourceType.BROKER and not self.name:
            return "brokers"
        return f"{self.type.name.lower()} {self.name}"


class ConfigSource(IntEnum):
    """Where the value of a setting comes from."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


@frozen
class ConfigEntry:
    """
    One setting.

    :ivar value: None where it is secret or has none.
    """

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    documentation: str | None = None


@frozen
class NewTopic:
    """
    A topic to be.

    :ivar partitions: −1: the broker's default.
    :ivar replication_factor: −1: the broker's default.
    :ivar assignment: broker ids of the replicas of each partition, instead of the two numbers.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(factory=dict)
    assignment: Sequence[Sequence[int]] | None = None


@frozen
class ClusterDescription:
    """
    The brokers.

    :ivar controller_id: −1 without one.
    """

    cluster_id: str | None
    controller_id: int
    nodes: tuple[Node, ...]


class AdminClient(GroupAdmin):
    """
    :param cluster: closed by its owner, not by the client.
    :param timeout: seconds the brokers may take to do what is asked.
    """

    def __init__(self, cluster: Cluster, *, timeout: float = 30.0) -> None:
        self._cluster = cluster
        self._timeout = timeout

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> Deferred[dict[str, ApiError | None]]:
        """
        Create topics.

        :param validate_only: only say whether it would work.
        """
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=new.name,
                    num_partitions=-1 if new.assignment is not None else new.partitions,
                    replication_factor=-1 if new.assignment is not None else new.replication_factor,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
                        for index, brokers in enumerate(new.assignment or ())
                    ],
                    configs=[CreatableTopicConfig(name=name, value=value) for name, value in new.configs.items()],
                )
                for new in topics
            ],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )

        def read(response: CreateTopicsResponse) -> dict[str, ApiError | None]:
            for each in response.topics:
                self._cluster.forget(each.name)
            return {
                each.name: problem(each.error_code, f"topic {each.name}", each.error_message)
                for each in response.topics
            }

        return self._at_controller(request, read)

    def delete_topics(self, names: Iterable[str]) -> Deferred[dict[str, ApiError | None]]:
        """Delete topics."""
        wanted = list(names)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in wanted], topic_names=wanted, timeout_ms=self._timeout_ms
        )

        def read(response: DeleteTopicsResponse) -> dict[str, ApiError | None]:
            answers: dict[str, ApiError | None] = {}
            for each in response.responses:
                name = each.name or ""
                self._cluster.forget(name)
                answers[name] = problem(each.error_code, f"topic {name}", each.error_message)
                if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    answers[name] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
            return answers

        return self._at_controller(request, read)

    def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool = False
    ) -> Deferred[dict[str, ApiError | None]]:
        """
        Give topics more partitions.

        :param counts: how many each is to have in all.
        :param validate_only: only say whether it would work.
        """
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=count) for name, count in counts.items()],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )

        def read(response: CreatePartitionsResponse) -> dict[str, ApiError | None]:
            for each in response.results:
                self._cluster.forget(each.name)
            return {
                each.name: problem(each.error_code, f"topic {each.name}", each.error_message)
                for each in response.results
            }

        return self._at_controller(request, read)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> Deferred[dict[TopicPartition, int | ApiError]]:
        """
        Delete the oldest records of partitions.

        :param before: the first offset to keep of each; −1: none of what is there now.
        :returns: where each partition begins now.
        """
        return Deferred.fromCoroutine(self._delete_records(before))

    def list_topics(self, *, internal: bool = False) -> Deferred[list[Topic]]:
        """All topics, by name; with ``internal`` also those that the brokers keep for themselves."""

        async def ask() -> list[Topic]:
            return [topic for topic in await self._cluster.topics() if internal or not topic.internal]

        return Deferred.fromCoroutine(ask())

    def describe_topics(self, names: Iterable[str]) -> Deferred[dict[str, Topic | ApiError]]:
        """The topics of these names, asked for anew."""

        async def ask() -> dict[str, Topic | ApiError]:
            answers: dict[str, Topic | ApiError] = {}
            for name in names:
                self._cluster.forget(name)
                try:
                    answers[name] = await self._cluster.topic(name)
                except ApiError as e:
                    answers[name] = e
            return answers

        return Deferred.fromCoroutine(ask())

    def describe_cluster(self) -> Deferred[ClusterDescription]:
        """The brokers, and which of them is the controller."""
        return Deferred.fromCoroutine(self._describe_cluster())

    def describe_configs(self, resources: Iterable[Resource]) -> Deferred[dict[Resource, list[ConfigEntry] | ApiError]]:
        """The settings of topics and brokers."""
        return Deferred.fromCoroutine(self._describe_configs(list(resources)))

    def alter_configs(
        self, changes: Mapping[Resource, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> Deferred[dict[Resource, ApiError | None]]:
        """
        Change some settings and leave the others (KIP-339).

        :param changes: the new values; None returns a setting to its default.
        :param validate_only: only say whether it would work.
        """
        return Deferred.fromCoroutine(self._alter_configs(changes, validate_only))

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> Deferred[dict[TopicPartition, TimestampOffset | ApiError]]:
        """The first offset at or after a time, for each partition: see :func:`logbus.client.offsets.list_offsets`."""
        return Deferred.fromCoroutine(list_offsets(self._cluster, wanted))

    # How it works.

    @property
    def _timeout_ms(self) -> int:
        return int(self._timeout * 1000)

    def _at_controller(
        self, request: Any, read: Callable[[Any], dict[str, ApiError | None]]
    ) -> Deferred[dict[str, ApiError | None]]:
        async def ask() -> dict[str, ApiError | None]:
            attempt = 0
            while True:
                channel = await self._cluster.controller()
                answers = read(await channel.request(request, None, self._timeout + self._cluster.timeout))
                moved = any(each is not None and each.code is ErrorCode.NOT_CONTROLLER for each in answers.values())
                attempt += 1
                if not moved or attempt == _ATTEMPTS:
                    return answers
                await deferLater(self._cluster.reactor, self._cluster.backoff.before(attempt))

        return Deferred.fromCoroutine(ask())

    async def _delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | ApiError]:
        answers: dict[TopicPartition, int | ApiError] = {}
        by_leader: dict[int, dict[str, DeleteRecordsTopic]] = {}
        for partition, offset in before.items():
            await self._cluster.topic(partition.topic)
            leader = self._cluster.leader(partition)
            if leader is None:
                answers[partition] = ApiError(
                    ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} is not there, or has no leader"
                )
                continue
            topics = by_leader.setdefault(leader, {})
            topics.setdefault(
                partition.topic, DeleteRecordsTopic(name=partition.topic, partitions=[])
            ).partitions.append(DeleteRecordsPartition(partition_index=partition.partition, offset=offset))
        for leader, topics in by_leader.items():
            channel = await self._cluster.channel(leader)
            request = DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=self._timeout_ms)
            response: DeleteRecordsResponse = await channel.request(
                request, None, self._timeout + self._cluster.timeout
            )
            for topic in response.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    answers[partition] = problem(each.error_code, str(partition), None) or each.low_watermark
        return answers

    async def _describe_cluster(self) -> ClusterDescription:
        channel = await self._cluster.any_channel()
        if _DESCRIBE_CLUSTER not in channel.versions:
            await self._cluster.refresh()
            nodes = tuple(sorted(self._cluster.nodes.values(), key=lambda node: node.node_id))
            return ClusterDescription(self._cluster.cluster_id, self._cluster.controller_id, nodes)
        response: DescribeClusterResponse = await channel.request(DescribeClusterRequest())
        if response.error_code:
            raise api_error(response.error_code, "the cluster", response.error_message)
        nodes = tuple(
            Node(each.broker_id, each.host, each.port, each.rack)
            for each in sorted(response.brokers, key=lambda each: each.broker_id)
        )
        return ClusterDescription(response.cluster_id, response.controller_id, nodes)

    async def _describe_configs(self, resources: list[Resource]) -> dict[Resource, list[ConfigEntry] | ApiError]:
        answers: dict[Resource, list[ConfigEntry] | ApiError] = {}
        for node_id, group in self._by_broker(resources).items():
            channel = await self._channel_to(node_id)
            request = DescribeConfigsRequest(
                resources=[DescribeConfigsResource(resource_type=each.type, resource_name=each.name) for each in group],
                include_documentation=True,
            )
            response: DescribeConfigsResponse = await channel.request(request)
            for each in response.results:
                resource = Resource(ResourceType(each.resource_type), each.resource_name)
                answers[resource] = problem(each.error_code, str(resource), each.error_message) or [
                    ConfigEntry(
                        entry.name,
                        entry.value,
                        _source(entry.config_source, entry.is_default),
                        entry.read_only,
                        entry.is_sensitive,
                        entry.documentation,
                    )
                    for entry in each.configs
                ]
        return answers

    async def _alter_configs(
        self, changes: Mapping[Resource, Mapping[str, str | None]], validate_only: bool
    ) -> dict[Resource, ApiError | None]:
        answers: dict[Resource, ApiError | None] = {}
        for node_id, group in self._by_broker(list(changes)).items():
            channel = await (self._cluster.controller() if node_id is None else self._cluster.channel(node_id))
            request = IncrementalAlterConfigsRequest(
                resources=[
                    IncrementalAlterConfigsResource(
                        resource_type=each.type,
                        resource_name=each.name,
                        configs=[
                            IncrementalAlterableConfig(name=name, config_operation=value is None, value=value)
                            for name, value in changes[each].items()
                        ],
                    )
                    for each in group
                ],
                validate_only=validate_only,
            )
            response: IncrementalAlterConfigsResponse = await channel.request(request)
            for each in response.responses:
                resource = Resource(ResourceType(each.resource_type), each.resource_name)
                answers[resource] = problem(each.error_code, str(resource), each.error_message)
        return answers

    @staticmethod
    def _by_broker(resources: Sequence[Resource]) -> dict[int | None, list[Resource]]:
        """A broker's own settings are its own affair; anyone knows the others."""
        groups: dict[int | None, list[Resource]] = {}
        for each in resources:
            node_id = None
            if each.type is ResourceType.BROKER and each.name:
                if not each.name.isdigit():
                    raise LogbusError(f"{each.name!r} is not a broker's id; it is a number, such as 0")
                node_id = int(each.name)
            groups.setdefault(node_id, []).append(each)
        return groups

    def _channel_to(self, node_id: int | None) -> Awaitable[Channel]:
        return self._cluster.any_channel() if node_id is None else self._cluster.channel(node_id)


def problem(code: int, what: str, message: str | None) -> ApiError | None:
    """The error that a response's code stands for; None if it stands for none."""
    return api_error(code, what, message) if code else None


def _source(number: int, is_default: bool) -> ConfigSource:
    """Version 0 has only whether it is the default."""
    if number < 0:
        return ConfigSource.DEFAULT if is_default else ConfigSource.UNKNOWN
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN
