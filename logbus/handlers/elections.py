"""
ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from attrs import define

from logbus.cluster.controller.partition_admin import ElectionType, Outcomes, PartitionAdmin
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.named_partitions import named_partitions
from logbus.handlers.request_router import serves, task
from logbus.model import TopicPartition
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import TimeSlice
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
    """Elects leaders, and reassigns replicas."""

    _partitions: PartitionAdmin

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.partition_admin)

    @serves(43, 0, 2, forwarded=True)
    @task
    async def elect_leaders(self, context: RequestContext, request: Request) -> ElectLeadersResponse:
        message: ElectLeadersRequest = request.message
        time_slice = context.time_slice(request)
        names = None
        if message.topic_partitions is not None:
            names = await named_partitions(
                ((one.topic, one.partitions) for one in message.topic_partitions), time_slice
            )
        try:
            if message.election_type not in (0, 1):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, f"{message.election_type} is no type of election; 0 and 1 are"
                )
            outcomes = await self._partitions.elect_leaders(
                ElectionType(message.election_type),
                names,
                timeout_ms=message.timeout_ms,
                validate_only=context.terms.validate_only,
            )
        except ApiError as error:
            # The error of the whole request has no message and, before version 1, no field of its own.
            return ElectLeadersResponse(
                error_code=error.code if request.api_version >= 1 else 0,
                replica_election_results=await _results(dict.fromkeys(names or (), error), time_slice),
            )
        return ElectLeadersResponse(replica_election_results=await _results(outcomes, time_slice))

    @serves(45, 0, 1, forwarded=True)
    @task
    async def alter_partition_reassignments(
        self, context: RequestContext, request: Request
    ) -> AlterPartitionReassignmentsResponse:
        message: AlterPartitionReassignmentsRequest = request.message
        time_slice = context.time_slice(request)
        wanted: dict[TopicPartition, Sequence[int] | None] = {}
        outcomes: Outcomes = {}
        async for topic in time_slice.over(message.topics):
            async for one in time_slice.over(topic.partitions):
                name = TopicPartition(topic.name, one.partition_index)
                if name in wanted:
                    del wanted[name]
                    outcomes[name] = ApiError(ErrorCode.INVALID_REQUEST, f"the request names {name} twice")
                elif name not in outcomes:
                    wanted[name] = one.replicas
        allowed = message.allow_replication_factor_change
        try:
            outcomes |= await self._partitions.alter_reassignments(
                wanted,
                factor_may_change=allowed,
                timeout_ms=message.timeout_ms,
                validate_only=context.terms.validate_only,
            )
        except ApiError as error:
            return AlterPartitionReassignmentsResponse(
                allow_replication_factor_change=allowed, error_code=error.code, error_message=error.message
            )
        answers: dict[str, list[ReassignablePartitionResponse]] = {}
        async for name, refused in time_slice.over(outcomes.items()):
            answers.setdefault(name.topic, []).append(
                ReassignablePartitionResponse(
                    partition_index=name.partition,
                    error_code=0 if refused is None else refused.code,
                    error_message=None if refused is None else refused.message,
                )
            )
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=allowed,
            responses=[ReassignableTopicResponse(name=topic, partitions=found) for topic, found in answers.items()],
        )

    @serves(46, 0, 0, forwarded=True)
    @task
    async def list_partition_reassignments(
        self, context: RequestContext, request: Request
    ) -> ListPartitionReassignmentsResponse:
        message: ListPartitionReassignmentsRequest = request.message
        time_slice = context.time_slice(request)
        names = None
        if message.topics is not None:
            asked = ((topic.name, topic.partition_indexes) for topic in message.topics)
            names = await named_partitions(asked, time_slice)
        try:
            found = await self._partitions.reassignments(names)
        except ApiError as error:
            return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
        topics: dict[str, list[OngoingPartitionReassignment]] = {}
        async for name, one in time_slice.over(found.items()):
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


async def _results(
    outcomes: Mapping[TopicPartition, ApiError | None], time_slice: TimeSlice
) -> list[ReplicaElectionResult]:
    found: dict[str, list[PartitionResult]] = {}
    async for name, error in time_slice.over(outcomes.items()):
        found.setdefault(name.topic, []).append(
            PartitionResult(
                partition_id=name.partition,
                error_code=0 if error is None else error.code,
                error_message=None if error is None else error.message,
            )
        )
    return [ReplicaElectionResult(topic=topic, partition_result=results) for topic, results in found.items()]
