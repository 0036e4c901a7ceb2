"""
Requests about very many topics, partitions, groups, ids and users that exist, for :mod:`benchmarks.longest_events`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from logbus.wire.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlteredEntity,
    AlteredEntry,
    DescribeClientQuotasRequest,
    OpData,
)
from logbus.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)
from logbus.wire.messages.consumer_groups import ConsumerGroupDescribeRequest
from logbus.wire.messages.elections import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from logbus.wire.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from logbus.wire.messages.log_dirs import DescribeLogDirsRequest
from logbus.wire.messages.metadata import DescribeTopicPartitionsRequest, MetadataRequest, TopicRequest
from logbus.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from logbus.wire.messages.partitions import TopicPartitionIndexes, TopicPartitions
from logbus.wire.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
)
from logbus.wire.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from logbus.wire.messages.user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)

TIMEOUT_MS = 300_000
USERS = 3000

Named = tuple[str, Any, int]
"""A name, the message and its version."""


def about_partitions(topic: str, partitions: int) -> Iterator[Named]:
    """Requests about a topic of very many partitions, and about all there are."""
    numbers = list(range(partitions))
    yield "Metadata of everything", MetadataRequest(topics=None), 9
    yield (
        "DescribeTopicPartitions",
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)], response_partition_limit=partitions),
        0,
    )
    yield "DescribeLogDirs of everything", DescribeLogDirsRequest(topics=None), 4
    yield "DescribeLogDirs", DescribeLogDirsRequest(topics=[TopicPartitions(topic=topic, partitions=numbers)]), 4
    named = [TopicPartitionIndexes(name=topic, partition_indexes=numbers)]
    yield "DescribeProducers", DescribeProducersRequest(topics=named), 0
    yield "ElectLeaders of all", ElectLeadersRequest(topic_partitions=None, timeout_ms=TIMEOUT_MS), 2
    some = [TopicPartitions(topic=topic, partitions=numbers)]
    yield "ElectLeaders", ElectLeadersRequest(topic_partitions=some, timeout_ms=TIMEOUT_MS), 2
    moved = [ReassignablePartition(partition_index=n, replicas=[0]) for n in numbers]
    yield (
        "AlterPartitionReassignments",
        AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, topics=[ReassignableTopic(name=topic, partitions=moved)]
        ),
        0,
    )
    yield "ListPartitionReassignments", ListPartitionReassignmentsRequest(topics=None), 0
    before = [DeleteRecordsPartition(partition_index=n, offset=-1) for n in numbers]
    yield (
        "DeleteRecords",
        DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=before)], timeout_ms=TIMEOUT_MS),
        1,
    )
    yield (
        "CreatePartitions, twice as many",
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=2 * partitions)], timeout_ms=TIMEOUT_MS
        ),
        1,
    )
    setting = [IncrementalAlterableConfig(name="retention.ms", config_operation=0, value="100000")]
    resource = IncrementalAlterConfigsResource(resource_type=2, resource_name=topic, configs=setting)
    yield "IncrementalAlterConfigs of one topic", IncrementalAlterConfigsRequest(resources=[resource]), 1


def about_topics(names: list[str]) -> Iterator[Named]:
    """Requests about very many topics."""
    yield "Metadata of everything, topics", MetadataRequest(topics=None), 9
    asked = [DescribeConfigsResource(resource_type=2, resource_name=name) for name in names]
    yield "DescribeConfigs of topics", DescribeConfigsRequest(resources=asked), 4
    setting = [IncrementalAlterableConfig(name="retention.ms", config_operation=0, value="100000")]
    changed = [IncrementalAlterConfigsResource(resource_type=2, resource_name=n, configs=setting) for n in names]
    yield "IncrementalAlterConfigs of topics", IncrementalAlterConfigsRequest(resources=changed), 1
    yield "ListConfigResources", ListConfigResourcesRequest(resource_types=[2]), 1
    grown = [CreatePartitionsTopic(name=name, count=2) for name in names]
    yield "CreatePartitions of topics", CreatePartitionsRequest(topics=grown, timeout_ms=TIMEOUT_MS), 1


def about_groups(names: list[str]) -> Iterator[Named]:
    """Requests about very many groups."""
    yield "ListGroups", ListGroupsRequest(), 5
    yield "DescribeGroups", DescribeGroupsRequest(groups=names), 5
    yield "ConsumerGroupDescribe", ConsumerGroupDescribeRequest(group_ids=names), 0
    asked = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    yield "OffsetFetch of groups", OffsetFetchRequest(groups=asked), 8
    settings = [IncrementalAlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value="50000")]
    changed = [
        IncrementalAlterConfigsResource(resource_type=32, resource_name=n, configs=settings) for n in names[:5000]
    ]
    yield "IncrementalAlterConfigs of groups", IncrementalAlterConfigsRequest(resources=changed), 1


def deleted_groups(names: list[str]) -> Named:
    """A request that deletes groups."""
    return "DeleteGroups", DeleteGroupsRequest(groups_names=names), 2


def deleted_topics(names: list[str]) -> Named:
    """A request that deletes topics."""
    return "DeleteTopics", DeleteTopicsRequest(topic_names=names, timeout_ms=TIMEOUT_MS), 3


def about_ids(names: list[str]) -> Iterator[Named]:
    """Requests about very many transactional ids."""
    yield "ListTransactions", ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 1
    yield "DescribeTransactions", DescribeTransactionsRequest(transactional_ids=names), 0


def about_users() -> Iterator[Named]:
    """Requests about very many users and their quotas."""
    users = [f"u{n}" for n in range(USERS)]
    salted = [
        ScramCredentialUpsertion(name=u, mechanism=1, iterations=4096, salt=b"salt" * 4, salted_password=bytes(32))
        for u in users
    ]
    yield "AlterUserScramCredentials", AlterUserScramCredentialsRequest(deletions=[], upsertions=salted), 0
    yield "DescribeUserScramCredentials", DescribeUserScramCredentialsRequest(users=None), 0
    entries = [
        AlteredEntry(
            entity=[AlteredEntity(entity_type="user", entity_name=u)],
            ops=[OpData(key="producer_byte_rate", value=1e6, remove=False)],
        )
        for u in users
    ]
    yield "AlterClientQuotas", AlterClientQuotasRequest(entries=entries, validate_only=False), 1
    yield "DescribeClientQuotas", DescribeClientQuotasRequest(components=[], strict=False), 1
