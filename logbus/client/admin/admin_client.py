"""
The admin client (Kafka: AdminClient): topics, partitions, records to delete, and the cluster. Its other parts are
:mod:`~logbus.client.admin.config_admin`, :mod:`~logbus.client.admin.replica_admin`,
:mod:`~logbus.client.admin.group_admin`, :mod:`~logbus.client.admin.log_dir_admin`,
:mod:`~logbus.client.admin.user_admin`, :mod:`~logbus.client.admin.quota_admin`,
:mod:`~logbus.client.admin.acl_admin`, :mod:`~logbus.client.admin.token_admin` and
:mod:`~logbus.client.admin.transaction_admin`.

.. code-block:: python

    admin = AdminClient(cluster)
    answers = await admin.create_topics([NewTopic("orders", partitions=3)])
    for name, error in answers.items(): ...

A request about several things returns a result for each of them: a value, or the error as a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from attrs import field, frozen
from twisted.internet.defer import Deferred

from logbus.client.admin.acl_admin import AclAdmin
from logbus.client.admin.config_admin import ConfigAdmin, response_error
from logbus.client.admin.group_admin import GroupAdmin
from logbus.client.admin.log_dir_admin import LogDirAdmin
from logbus.client.admin.quota_admin import QuotaAdmin
from logbus.client.admin.replica_admin import ReplicaAdmin
from logbus.client.admin.token_admin import TokenAdmin
from logbus.client.admin.transaction_admin import TransactionAdmin
from logbus.client.admin.user_admin import UserAdmin
from logbus.client.cluster.cluster import Cluster, Node, TopicMetadata
from logbus.client.list_offsets import list_offsets
from logbus.client.retry import api_error
from logbus.client.validators import InvalidOption, checked, integer, names_options, seconds, shown, text, texts
from logbus.client.validators import cluster as is_cluster
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, ErrorCode
from logbus.model import TimestampOffset, TopicPartition, group_by_topic
from logbus.wire.messages.metadata import DescribeClusterRequest, DescribeClusterResponse
from logbus.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
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
from logbus.wire.negotiation import NEWEST, api_versions_request, served

_DESCRIBE_CLUSTER = 60


def _number_or_default(name: str, value: object) -> None:
    if value == 0 and not isinstance(value, bool):
        raise InvalidOption(f"{name} is 0; it is 1 or more, or -1 for the broker's default")
    integer(name, value, -1)


@frozen
class NewTopic:
    """
    A topic to create.

    :ivar partitions: −1: the broker's default.
    :ivar replication_factor: −1: the broker's default.
    :ivar assignment: broker ids of the replicas of each partition, instead of the two numbers.
    """

    name: str = field(validator=checked(text))
    partitions: int = field(default=-1, validator=checked(_number_or_default))
    replication_factor: int = field(default=-1, validator=checked(_number_or_default))
    configs: Mapping[str, str] = field(factory=dict)
    assignment: Sequence[Sequence[int]] | None = None


@frozen
class ClusterDescription:
    """
    The brokers of a cluster.

    :ivar controller_id: −1 without one.
    """

    cluster_id: str | None
    controller_id: int
    nodes: tuple[Node, ...]


class AdminClient(
    AclAdmin, ConfigAdmin, GroupAdmin, LogDirAdmin, QuotaAdmin, ReplicaAdmin, TokenAdmin, TransactionAdmin, UserAdmin
):
    """
    Sends administrative requests to the brokers concerned.

    :param cluster: its owner closes it, not the client.
    :param timeout: seconds the brokers may take for a request.
    """

    @names_options("an admin client")
    def __init__(self, cluster: Cluster, *, timeout: float = 30.0) -> None:
        is_cluster(cluster)
        seconds("timeout", timeout, positive=True, is_sent=True)
        self._cluster = cluster
        self._timeout = timeout

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> Deferred[dict[str, ApiError | None]]:
        """
        Create topics.

        :param validate_only: only check whether it would succeed.
        """
        if isinstance(topics, NewTopic):
            raise InvalidOption(f"topics is {shown(topics)}; it is a list of NewTopic")
        topics = list(topics)
        for each in topics:
            if not isinstance(each, NewTopic):
                raise InvalidOption(f"{shown(each)} is no topic to create; give NewTopic('orders', partitions=3)")
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
            return {each.name: self._topic_changed(each.name, each) for each in response.topics}

        return self._at_controller(request, read)

    def delete_topics(self, names: Iterable[str]) -> Deferred[dict[str, ApiError | None]]:
        """Delete topics."""
        wanted = texts("names", names)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in wanted], topic_names=wanted, timeout_ms=self._timeout_ms
        )

        def read(response: DeleteTopicsResponse) -> dict[str, ApiError | None]:
            answers: dict[str, ApiError | None] = {}
            for each in response.responses:
                name = each.name or ""
                answers[name] = self._topic_changed(name, each)
                if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    answers[name] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
            return answers

        return self._at_controller(request, read)

    def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] = MappingProxyType({}),
        validate_only: bool = False,
    ) -> Deferred[dict[str, ApiError | None]]:
        """
        Add partitions to topics.

        :param counts: the total number of partitions of each topic.
        :param assignments: broker ids of the replicas of each new partition, by topic; default: the brokers choose.
        :param validate_only: only check whether it would succeed.
        """
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name=name,
                    count=count,
                    assignments=[CreatePartitionsAssignment(broker_ids=list(ids)) for ids in assignments[name]]
                    if name in assignments
                    else None,
                )
                for name, count in counts.items()
            ],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )

        def read(response: CreatePartitionsResponse) -> dict[str, ApiError | None]:
            return {each.name: self._topic_changed(each.name, each) for each in response.results}

        return self._at_controller(request, read)

    @returns_deferred
    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | ApiError]:
        """
        Delete the oldest records of partitions.

        :param before: the first offset to keep in each partition; −1: delete all current records.
        :returns: the first offset of each partition afterwards.
        """
        answers: dict[TopicPartition, int | ApiError] = {}
        by_leader: dict[int, list[tuple[TopicPartition, DeleteRecordsPartition]]] = {}
        for partition, offset in before.items():
            await self._cluster.topic(partition.topic)
            leader = self._cluster.leader(partition)
            if leader is None:
                answers[partition] = ApiError(
                    ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} is not there, or has no leader"
                )
                continue
            asked = DeleteRecordsPartition(partition_index=partition.partition, offset=offset)
            by_leader.setdefault(leader, []).append((partition, asked))
        for leader, theirs in by_leader.items():
            topics = [DeleteRecordsTopic(name=name, partitions=each) for name, each in group_by_topic(theirs).items()]
            channel = await self._cluster.channel(leader)
            request = DeleteRecordsRequest(topics=topics, timeout_ms=self._timeout_ms)
            response: DeleteRecordsResponse = await channel.request(
                request, None, self._timeout + self._cluster.timeout
            )
            for topic in response.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    answers[partition] = response_error(each.error_code, str(partition), None) or each.low_watermark
        return answers

    @returns_deferred
    async def list_topics(self, *, internal: bool = False) -> list[TopicMetadata]:
        """All topics, by name; with ``internal`` also internal ones."""
        return [topic for topic in await self._cluster.topics() if internal or not topic.internal]

    @returns_deferred
    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicMetadata | ApiError]:
        """Topics by name, with fresh metadata."""
        answers: dict[str, TopicMetadata | ApiError] = {}
        for name, error in (await self._cluster.refresh_topics(dict.fromkeys(texts("names", names)))).items():
            if error is not None:
                # A broker may not have heard yet of a topic that another one has created; the only one has.
                if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and len(self._cluster.nodes) == 1:
                    answers[name] = error
                    continue
                self._cluster.forget(name)
            try:
                answers[name] = await self._cluster.topic(name)
            except ApiError as e:
                answers[name] = e
        return answers

    @returns_deferred
    async def describe_cluster(self) -> ClusterDescription:
        """The brokers, and which of them is the controller."""
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

    @returns_deferred
    async def features(self) -> dict[str, int]:
        """The levels of the finalized features (KIP-584), by name."""
        channel = await self._cluster.any_channel()
        return served(await channel.request(api_versions_request(NEWEST)))[1]

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> Deferred[dict[TopicPartition, TimestampOffset | ApiError]]:
        """
        The first offset at or after a time, for each partition: see :func:`logbus.client.list_offsets.list_offsets`.
        """
        return Deferred.fromCoroutine(list_offsets(self._cluster, wanted))

    # Internals.

    @property
    def _timeout_ms(self) -> int:
        return int(self._timeout * 1000)

    def _topic_changed(self, name: str, answer: Any) -> ApiError | None:
        """The error of a topic in a response, if there is one; its metadata is looked up again."""
        self._cluster.forget(name)
        return response_error(answer.error_code, f"topic {name}", answer.error_message)
