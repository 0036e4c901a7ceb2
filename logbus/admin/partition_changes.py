"""
Views that change partitions: add some, delete records, elect leaders, move replicas to other brokers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin.authorization import HttpAccess, Right
from logbus.admin.change_terms import IN_QUERY, VALIDATE_ONLY, controller_of_terms, terms_of
from logbus.admin.cluster import BROKER_ID
from logbus.admin.json_schema import array, boolean, integer, nullable, object_schema, string
from logbus.admin.kafka_requests import KafkaRequests
from logbus.admin.problem_details import HttpProblem
from logbus.admin.records import PARTITION_NUMBER, existing_partition
from logbus.admin.relay import leader_of
from logbus.admin.routing import ViewRequest, route
from logbus.admin.topics import CHANGE_TIMEOUT_MS, CONFIRM, TOPIC_NAME, existing_topic, refuse_internal
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.errors import ApiError, ErrorCode, error_of
from logbus.model import TopicPartition
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.wire.messages.elections import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from logbus.wire.messages.partitions import TopicPartitions
from logbus.wire.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

MAX_PARTITIONS = 1000
"""Partitions that one request may name."""

PREFERRED, UNCLEAN = "preferred", "unclean"
ELECTION_TYPES: Mapping[str, int] = {PREFERRED: 0, UNCLEAN: 1}

MORE_PARTITIONS = object_schema(
    "How many partitions a topic is to have.",
    count=integer("The number of partitions, more than now.", minimum=1, maximum=100_000),
    validate_only=VALIDATE_ONLY,
    optional=("validate_only",),
)
PARTITIONS_ADDED = object_schema(
    "A topic with more partitions.",
    topic=TOPIC_NAME,
    before=integer("The number of partitions before."),
    count=integer("The number of partitions now, or as it would be."),
    validate_only=boolean("Whether nothing was changed."),
)
RECORDS_DELETED = object_schema(
    "A partition without its oldest records.",
    topic=TOPIC_NAME,
    partition=PARTITION_NUMBER,
    log_start_offset=integer("The first offset now, or as it would be."),
)
ONE_PARTITION: Mapping[str, Any] = {"topic": TOPIC_NAME, "partition": PARTITION_NUMBER}
OUTCOME = object_schema(
    "What became of a partition.",
    **ONE_PARTITION,
    error=nullable(string("The name of Kafka's error; null: it was done, or could be.")),
    detail=string("Why not; empty: it was done, or could be."),
)
OUTCOMES = object_schema("What became of each partition.", items=array("By topic and partition.", OUTCOME))
ELECTION = object_schema(
    "An election of leaders.",
    type=string(
        "preferred: the first replica becomes the leader, if it is in sync; unclean: any live replica, where there is "
        "no leader, though acknowledged records may be lost.",
        enum=list(ELECTION_TYPES),
    ),
    partitions=array(
        "The partitions; none given: all that need it (preferred only).",
        object_schema("A partition.", **ONE_PARTITION),
        minItems=1,
        maxItems=MAX_PARTITIONS,
    ),
    validate_only=VALIDATE_ONLY,
    optional=("partitions", "validate_only"),
)
MOVES = object_schema(
    "Partitions to move.",
    partitions=array(
        "The partitions, with the brokers that are to have them.",
        object_schema(
            "A partition.",
            **ONE_PARTITION,
            replicas=nullable(
                array(
                    "The brokers, the preferred leader first; null: cancel the present move.", BROKER_ID, maxItems=100
                )
            ),
        ),
        minItems=1,
        maxItems=MAX_PARTITIONS,
    ),
    validate_only=VALIDATE_ONLY,
    optional=("validate_only",),
)
MOVING = object_schema(
    "Partitions that are being moved.",
    items=array(
        "By topic and partition.",
        object_schema(
            "A partition.",
            **ONE_PARTITION,
            replicas=array("All brokers that have or get it.", BROKER_ID),
            adding=array("Those that get it.", BROKER_ID),
            removing=array("Those that lose it.", BROKER_ID),
        ),
    ),
)


@frozen
class PartitionChangeViews:
    """
    Changes partitions, by the requests of Kafka's administrators.

    :ivar internal: names of topics that only brokers write to.
    """

    metadata: ClusterMetadata
    requests: KafkaRequests
    internal: Collection[str]

    @route(
        "POST",
        "/api/v1/topics/{topic}/partitions",
        "Add partitions to a topic, or say whether that could be done",
        answer=PARTITIONS_ADDED,
        body=MORE_PARTITIONS,
        parameters={"topic": TOPIC_NAME},
        right=Right(AclOperation.ALTER, ResourceType.TOPIC, "topic"),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def add(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        before = len(existing_topic(self.metadata, call.path["topic"]).partitions)
        return Deferred.fromCoroutine(self._add(call.access, call.path["topic"], before, call.body))

    async def _add(self, access: HttpAccess, topic: str, before: int, body: Mapping[str, Any]) -> dict[str, Any]:
        count, validate_only = body["count"], body.get("validate_only", False)
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=count)],
            timeout_ms=CHANGE_TIMEOUT_MS,
            validate_only=validate_only,
        )
        response: CreatePartitionsResponse = await self.requests.send(access, request, 3)
        (result,) = response.results
        if result.error_code:
            raise error_of(result.error_code, result.error_message)
        return {"topic": topic, "before": before, "count": count, "validate_only": validate_only}

    @route(
        "DELETE",
        "/api/v1/topics/{topic}/partitions/{partition}/records",
        "Delete the oldest records of a partition",
        answer=RECORDS_DELETED,
        parameters={
            "topic": TOPIC_NAME,
            "partition": PARTITION_NUMBER,
            "before": {
                **integer("Delete the records before this offset.", minimum=0, maximum=2**63 - 1),
                "default": None,
            },
            "confirm": CONFIRM,
            **IN_QUERY,
        },
        right=Right(AclOperation.DELETE, ResourceType.TOPIC, "topic"),
        served_by=lambda self, call: leader_of(
            self.metadata, TopicPartition(call.path["topic"], call.path["partition"])
        ),
        errors=(HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def delete_records(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        topic, partition, before = call.path["topic"], call.path["partition"], call.query["before"]
        existing_partition(self.metadata, topic, partition)
        if before is None or call.query["confirm"] != topic:
            raise HttpProblem(
                HTTPStatus.BAD_REQUEST,
                f"This deletes the oldest records of a partition of {topic}; say which by ?before=OFFSET, and add "
                f"confirm={topic}.",
            )
        refuse_internal(self.internal, topic, "loses no records on request")
        return Deferred.fromCoroutine(self._delete_records(call, topic, partition, before))

    async def _delete_records(self, call: ViewRequest, topic: str, partition: int, before: int) -> dict[str, Any]:
        asked = DeleteRecordsTopic(
            name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=before)]
        )
        request = DeleteRecordsRequest(topics=[asked], timeout_ms=CHANGE_TIMEOUT_MS)
        response: DeleteRecordsResponse = await self.requests.send(call.access, request, 2, terms_of(call))
        ((result,),) = (one.partitions for one in response.topics)
        if result.error_code:
            error = error_of(result.error_code)
            raise ApiError(error.code, f"Partition {partition} of {topic}, offset {before}: {error.message}")
        return {"topic": topic, "partition": partition, "log_start_offset": result.low_watermark}

    @route(
        "POST",
        "/api/v1/elections",
        "Elect leaders",
        answer=OUTCOMES,
        body=ELECTION,
        right=Right(AclOperation.ALTER),
        served_by=lambda self, call: controller_of_terms(self.metadata, call),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def elect(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        partitions = call.body.get("partitions")
        if partitions is None and call.body["type"] == UNCLEAN:
            raise HttpProblem(
                HTTPStatus.BAD_REQUEST, "An unclean election may lose records; name the partitions in body.partitions."
            )
        self._check(partitions or ())
        return Deferred.fromCoroutine(self._elect(call, call.body["type"], partitions))

    async def _elect(
        self, call: ViewRequest, kind: str, partitions: Sequence[Mapping[str, Any]] | None
    ) -> dict[str, Any]:
        named = None
        if partitions is not None:
            by_topic: dict[str, list[int]] = defaultdict(list)
            for one in partitions:
                by_topic[one["topic"]].append(one["partition"])
            named = [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]
        request = ElectLeadersRequest(
            election_type=ELECTION_TYPES[kind], topic_partitions=named, timeout_ms=CHANGE_TIMEOUT_MS
        )
        response: ElectLeadersResponse = await self.requests.send(call.access, request, 2, terms_of(call))
        if response.error_code:
            raise error_of(response.error_code)
        return _outcomes(
            (topic.topic, one.partition_id, one.error_code, one.error_message)
            for topic in response.replica_election_results
            for one in topic.partition_result
        )

    @route(
        "GET",
        "/api/v1/reassignments",
        "Partitions that are being moved to other brokers",
        answer=MOVING,
        right=Right(AclOperation.DESCRIBE),
        errors=(HTTPStatus.SERVICE_UNAVAILABLE,),
    )
    def moving(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return Deferred.fromCoroutine(self._moving(call.access))

    async def _moving(self, access: HttpAccess) -> dict[str, Any]:
        request = ListPartitionReassignmentsRequest(timeout_ms=CHANGE_TIMEOUT_MS)
        response: ListPartitionReassignmentsResponse = await self.requests.send(access, request, 0)
        if response.error_code:
            raise error_of(response.error_code, response.error_message)
        rows = [
            {
                "topic": topic.name,
                "partition": one.partition_index,
                "replicas": list(one.replicas),
                "adding": list(one.adding_replicas),
                "removing": list(one.removing_replicas),
            }
            for topic in response.topics
            for one in topic.partitions
        ]
        return {"items": sorted(rows, key=lambda row: (row["topic"], row["partition"]))}

    @route(
        "POST",
        "/api/v1/reassignments",
        "Move partitions to other brokers, or cancel that",
        answer=OUTCOMES,
        body=MOVES,
        right=Right(AclOperation.ALTER),
        served_by=lambda self, call: controller_of_terms(self.metadata, call),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def move(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        partitions = call.body["partitions"]
        self._check(partitions)
        return Deferred.fromCoroutine(self._move(call, partitions))

    async def _move(self, call: ViewRequest, partitions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        by_topic: dict[str, list[ReassignablePartition]] = defaultdict(list)
        for one in partitions:
            by_topic[one["topic"]].append(
                ReassignablePartition(partition_index=one["partition"], replicas=one["replicas"])
            )
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=CHANGE_TIMEOUT_MS,
            topics=[ReassignableTopic(name=topic, partitions=some) for topic, some in by_topic.items()],
        )
        terms = terms_of(call)
        response: AlterPartitionReassignmentsResponse = await self.requests.send(call.access, request, 1, terms)
        if response.error_code:
            raise error_of(response.error_code, response.error_message)
        return _outcomes(
            (topic.name, one.partition_index, one.error_code, one.error_message)
            for topic in response.responses
            for one in topic.partitions
        )

    def _check(self, partitions: Sequence[Mapping[str, Any]]) -> None:
        """
        Check that partitions exist, and are named once.

        :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION.
        :raise HttpProblem: one is named twice.
        """
        seen: set[tuple[str, int]] = set()
        for number, one in enumerate(partitions):
            existing_partition(self.metadata, one["topic"], one["partition"])
            if (one["topic"], one["partition"]) in seen:
                raise HttpProblem(HTTPStatus.BAD_REQUEST, f"The body.partitions[{number}] is there twice.")
            seen.add((one["topic"], one["partition"]))


def _outcomes(results: Iterable[tuple[str, int, int, str | None]]) -> dict[str, Any]:
    """
    Return what became of partitions.

    :raise ApiError: one partition was asked for, and it failed.
    """
    rows = []
    last = None
    for topic, partition, code, message in results:
        error = error_of(code, message) if code else None
        if error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED:
            last = ApiError(error.code, f"Partition {partition} of {topic}: {error.message}")
        rows.append(
            {
                "topic": topic,
                "partition": partition,
                "error": None if error is None else error.code.name,
                "detail": "" if error is None else error.message,
            }
        )
    if last is not None and len(rows) == 1:
        raise last
    return {"items": sorted(rows, key=lambda row: (row["topic"], row["partition"]))}
