"""Guards of what concerns the whole cluster, and of requests between brokers (Kafka: KafkaApis, ControllerApis)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logbus.errors import ErrorCode
from logbus.handlers.authorization.access import Access
from logbus.handlers.authorization.guard import Serve, guards, needs
from logbus.security.acl.acls import CLUSTER_NAME, AclOperation, ResourceType
from logbus.wire.connection import Request
from logbus.wire.messages.acls import (
    AclCreationResult,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsResponse,
    DescribeAclsResponse,
)
from logbus.wire.messages.api_versions import UpdateFeaturesResponse
from logbus.wire.messages.client_quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasResponse,
    DescribeClientQuotasResponse,
)
from logbus.wire.messages.elections import (
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from logbus.wire.messages.log_dirs import (
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsResponse,
)
from logbus.wire.messages.metadata import DescribeClusterRequest, DescribeClusterResponse
from logbus.wire.messages.partitions import PartitionErrorCode
from logbus.wire.messages.user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    DescribeUserScramCredentialsResponse,
)

FORBIDDEN = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def cluster_needs(operation: AclOperation, refused: Callable[[Any, ErrorCode], Any]) -> Any:
    """The guard of an API that needs a right to the cluster."""
    return needs(operation, ResourceType.CLUSTER, refused, lambda message: CLUSTER_NAME, FORBIDDEN)


def _with_message(response: Callable[..., Any]) -> Callable[[Any, ErrorCode], Any]:
    return lambda message, code: response(error_code=code, error_message=code.sentence)


describe_acls = guards(29)(cluster_needs(AclOperation.DESCRIBE, _with_message(DescribeAclsResponse)))
create_acls = guards(30)(
    cluster_needs(
        AclOperation.ALTER,
        lambda message, code: CreateAclsResponse(
            results=[AclCreationResult(error_code=code, error_message=code.sentence) for _ in message.creations]
        ),
    )
)
delete_acls = guards(31)(
    cluster_needs(
        AclOperation.ALTER,
        lambda message, code: DeleteAclsResponse(
            filter_results=[
                DeleteAclsFilterResult(error_code=code, error_message=code.sentence) for _ in message.filters
            ]
        ),
    )
)
alter_replica_log_dirs = guards(34)(
    cluster_needs(
        AclOperation.ALTER,
        lambda message, code: AlterReplicaLogDirsResponse(
            results=[
                AlterReplicaLogDirTopicResult(
                    topic_name=topic.name,
                    partitions=[
                        PartitionErrorCode(partition_index=number, error_code=code) for number in topic.partitions
                    ],
                )
                for directory in message.dirs
                for topic in directory.topics
            ]
        ),
    )
)
describe_log_dirs = guards(35)(
    cluster_needs(AclOperation.DESCRIBE, lambda message, code: DescribeLogDirsResponse(error_code=code))
)


@guards(43)
async def elect_leaders(access: Access, request: Request, serve: Serve) -> Any:
    """ElectLeaders: Alter on the cluster; version 0 has room for errors at the partitions only."""
    if access.allows(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return await serve()
    message: ElectLeadersRequest = request.message
    return ElectLeadersResponse(
        error_code=FORBIDDEN if request.api_version >= 1 else 0,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=number, error_code=FORBIDDEN, error_message=FORBIDDEN.sentence)
                    for number in topic.partitions
                ],
            )
            for topic in message.topic_partitions or ()
        ],
    )


alter_partition_reassignments = guards(45)(
    cluster_needs(AclOperation.ALTER, _with_message(AlterPartitionReassignmentsResponse))
)
list_partition_reassignments = guards(46)(
    cluster_needs(AclOperation.DESCRIBE, _with_message(ListPartitionReassignmentsResponse))
)
describe_client_quotas = guards(48)(
    cluster_needs(
        AclOperation.DESCRIBE_CONFIGS,
        lambda message, code: DescribeClientQuotasResponse(error_code=code, error_message=code.sentence, entries=None),
    )
)
alter_client_quotas = guards(49)(
    cluster_needs(
        AclOperation.ALTER_CONFIGS,
        lambda message, code: AlterClientQuotasResponse(
            entries=[
                AlterClientQuotasEntry(error_code=code, error_message=code.sentence, entity=entry.entity)
                for entry in message.entries
            ]
        ),
    )
)
describe_user_scram_credentials = guards(50)(
    cluster_needs(
        AclOperation.DESCRIBE,
        lambda message, code: DescribeUserScramCredentialsResponse(
            error_code=code, error_message=code.sentence, results=[]
        ),
    )
)
alter_user_scram_credentials = guards(51)(
    cluster_needs(
        AclOperation.ALTER,
        lambda message, code: AlterUserScramCredentialsResponse(
            results=[
                AlterUserScramCredentialsResult(user=name, error_code=code, error_message=code.sentence)
                for name in dict.fromkeys(each.name for each in (*message.deletions, *message.upsertions))
            ]
        ),
    )
)
update_features = guards(57)(cluster_needs(AclOperation.ALTER, _with_message(UpdateFeaturesResponse)))


@guards(60)
async def describe_cluster(access: Access, request: Request, serve: Serve) -> Any:
    """DescribeCluster: for everybody."""
    message: DescribeClusterRequest = request.message
    answer: DescribeClusterResponse = await serve()
    if message.include_cluster_authorized_operations and not answer.error_code:
        answer.cluster_authorized_operations = access.operations(ResourceType.CLUSTER, CLUSTER_NAME)
    return answer


@guards(17, 18, 36, *range(1000, 1010))
async def open_to_all(access: Access, request: Request, serve: Serve) -> Any:
    """ApiVersions, logins, and requests between brokers, whose handlers check that the peer has proved to be one."""
    return await serve()
