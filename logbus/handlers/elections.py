"""
Leaders elected and replicas reassigned: ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import define

from logbus.cluster.elections import ElectionType, Outcomes, PartitionAdmin
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.routing import serves, task
from logbus.model import TopicPartition
from logbus.net.context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.elections import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    PartitionResult,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)


@define(eq=False)
class ElectionHandlers:
    """Serves what operators do to leaders and replicas."""

    _partitions: PartitionAdmin

    @serves(43, 0, 2)
    @task
    async def elect_leaders(self, context: RequestContext, request: Request) -> ElectLeadersResponse:
        message: ElectLeadersRequest = request.message
        names = None
        if message.topic_partitions is not None:
            names = _named((one.topic, one.partitions) for one in message.topic_partitions)
        try:
            if message.election_type not in (0, 1):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, f"{message.election_type} is no type of election; 0 and 1 are"
                )
            outcomes = await self._partitions.elect_leaders(
                ElectionType(message.election_type), names, timeout_ms=message.timeout_ms
            )
        except ApiError as error:
            # The error of the whole request has no message and, before version 1, no field of its own.
            return ElectLeadersResponse(
                error_code=error.code if request.api_version >= 1 else 0,
                replica_election_results=_results(dict.fromkeys(names or (), error)),
            )
        return ElectLeadersResponse(replica_election_results=_results(outcomes))

    @serves(45, 0, 1)
    @task
    async def alter_partition_reassignments(
        self, context: RequestContext, request: Request
    ) -> AlterPartitionReassignmentsResponse:
        message: AlterPartitionReassignmentsRequest = request.message
        given = [
            (TopicPartition(topic.name, one.partition_index), one.replicas)
            for topic in message.topics
            for one in topic.partitions
        ]
        times = Counter(name for name, _ in given)
        wanted = {name: replicas for name, replicas in given if times[name] == 1}
        outcomes: Outcomes = {
            name: ApiError(ErrorCode.INVALID_REQUEST, f"the request names {name} twice")
            for name, count in times.items()
            if count > 1
        }
        allowed = message.allow_replication_factor_change
        try:
            outcomes |= await self._partitions.alter_reassignments(
                wanted, factor_may_change=allowed, timeout_ms=message.timeout_ms
            )
        except ApiError as error:
            return AlterPartitionReassignmentsResponse(
                allow_replication_factor_change=allowed, error_code=error.code, error_message=error.message
            )
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=allowed,
            responses=[
                ReassignableTopicResponse(
                    name=topic,
                    partitions=[
                        ReassignablePartitionResponse(
                            partition_index=name.partition,
                            error_code=0 if error is None else error.code,
                            error_message=None if error is None else error.message,
                        )
                        for name, error in found
                    ],
                )
                for topic, found in _by_topic(outcomes).items()
            ],
        )

    @serves(46, 0, 0)
    @task
    async def list_partition_reassignments(
        self, context: RequestContext, request: Request
    ) -> ListPartitionReassignmentsResponse:
        message: ListPartitionReassignmentsRequest = request.message
        names = None
        if message.topics is not None:
            names = _named((one.name, one.partition_indexes) for one in message.topics)
        try:
            found = await self._partitions.reassignments(names)
        except ApiError as error:
            return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
        topics: dict[str, list[OngoingPartitionReassignment]] = {}
        for name, one in found.items():
            topics.setdefault(name.topic, []).append(
                OngoingPartitionReassignment(
                    partition_index=name.partition,
                    replicas=list(one.replicas),
                    adding_replicas=list(one.adding),
                    removing_replicas=list(one.removing),
                )
            )
        return ListPartitionReassignmentsResponse(
            topics=[OngoingTopicReassignment(name=name, partitions=ongoing) for name, ongoing in topics.items()]
        )


def _named(topics: Iterable[tuple[str, Sequence[int]]]) -> list[TopicPartition]:
    return list(dict.fromkeys(TopicPartition(topic, number) for topic, numbers in topics for number in numbers))


def _by_topic(
    outcomes: Mapping[TopicPartition, ApiError | None],
) -> dict[str, list[tuple[TopicPartition, ApiError | None]]]:
    found: dict[str, list[tuple[TopicPartition, ApiError | None]]] = {}
    for name, error in outcomes.items():
        found.setdefault(name.topic, []).append((name, error))
    return found


def _results(outcomes: Mapping[TopicPartition, ApiError | None]) -> list[ReplicaElectionResult]:
    return [
        ReplicaElectionResult(
            topic=topic,
            partition_result=[
                PartitionResult(
                    partition_id=name.partition,
                    error_code=0 if error is None else error.code,
                    error_message=None if error is None else error.message,
                )
                for name, error in found
            ],
        )
        for topic, found in _by_topic(outcomes).items()
    ]
