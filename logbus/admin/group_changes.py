"""
Views that change groups: reset and delete committed offsets, delete a group.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin.authorization import HttpAccess, Right
from logbus.admin.change_terms import IN_QUERY, VALIDATE_ONLY, terms_of
from logbus.admin.groups import GROUP_ID, GroupViews
from logbus.admin.json_schema import array, boolean, integer, nullable, object_schema, string
from logbus.admin.kafka_requests import KafkaRequests
from logbus.admin.partitions import OFFSET
from logbus.admin.problem_details import HttpProblem
from logbus.admin.record_reader import EARLIEST, LATEST, RecordReader
from logbus.admin.records import PARTITION_NUMBER, existing_partition
from logbus.admin.relay import Relay, leader_of
from logbus.admin.routing import ViewRequest, route
from logbus.admin.topics import DESCRIBES_TOPIC, TOPIC_NAME, existing_topic
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.coordination.offset_target import (
    OffsetChange,
    OffsetTarget,
    PartitionBounds,
    TargetKind,
    resolve_target,
)
from logbus.errors import ApiError, ErrorCode, error_of
from logbus.model import TopicPartition
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.wire.messages.groups import DeleteGroupsRequest, DeleteGroupsResponse
from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

COMMIT_VERSION = 8
MAX_PARTITIONS = 1000
"""Partitions whose offsets are reset at once."""

TARGETS: Mapping[str, TargetKind] = {
    "earliest": TargetKind.EARLIEST,
    "latest": TargetKind.LATEST,
    "current": TargetKind.CURRENT,
    "offset": TargetKind.OFFSET,
    "shift": TargetKind.SHIFT,
    "timestamp": TargetKind.TIME,
}
WITH_VALUE = frozenset({"offset", "shift", "timestamp"})
BOUNDS = object_schema(
    "Offsets of a partition.",
    topic=TOPIC_NAME,
    partition=PARTITION_NUMBER,
    earliest=integer("The first offset."),
    latest=integer("The offset of the next record."),
    at_timestamp=nullable(integer("The first offset at or after the time asked for; null: none is so late, or asked.")),
)
RESET = object_schema(
    "Where a group is to go on.",
    to=string(
        "earliest, latest; current: only into the bounds of the partition; offset, shift, timestamp: by 'value'.",
        enum=list(TARGETS),
    ),
    value=integer(
        "The offset, the number of records to shift by (negative: back), or the time in ms since 1970.",
        minimum=-(2**63),
        maximum=2**63 - 1,
    ),
    topics=array(
        "Which partitions; none given: all with a committed offset.",
        object_schema(
            "A topic.",
            topic=TOPIC_NAME,
            partitions=array("None given: all.", PARTITION_NUMBER, maxItems=MAX_PARTITIONS),
            optional=("partitions",),
        ),
        minItems=1,
        maxItems=100,
    ),
    validate_only=VALIDATE_ONLY,
    optional=("value", "topics", "validate_only"),
)
CHANGES = object_schema(
    "What was changed, or would be.",
    group=GROUP_ID,
    validate_only=boolean("Whether nothing was changed."),
    items=array(
        "By topic and partition.",
        object_schema(
            "A committed offset.",
            topic=TOPIC_NAME,
            partition=PARTITION_NUMBER,
            old=nullable({**OFFSET, "description": "The committed offset before; null: there was none."}),
            new=OFFSET,
            note=string("Why it is not the one asked for; empty: it is."),
            error=nullable(string("The name of Kafka's error, if it was not changed.")),
        ),
    ),
)


@frozen
class GroupChangeViews:
    """Changes groups, on the broker that coordinates them."""

    metadata: ClusterMetadata
    groups: GroupViews
    requests: KafkaRequests
    reader: RecordReader
    relay: Relay

    @route(
        "GET",
        "/api/v1/topics/{topic}/partitions/{partition}/offsets",
        "The first and the next offset of a partition, and the one of a time",
        answer=BOUNDS,
        parameters={
            "topic": TOPIC_NAME,
            "partition": PARTITION_NUMBER,
            "timestamp": {**integer("A time in ms since 1970.", minimum=0, maximum=2**63 - 1), "default": None},
        },
        right=DESCRIBES_TOPIC,
        served_by=lambda self, call: leader_of(
            self.metadata, TopicPartition(call.path["topic"], call.path["partition"])
        ),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def offsets(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        topic, partition = call.path["topic"], call.path["partition"]
        existing_partition(self.metadata, topic, partition)
        return Deferred.fromCoroutine(self._offsets(call.access, topic, partition, call.query["timestamp"]))

    async def _offsets(self, access: HttpAccess, topic: str, partition: int, timestamp: int | None) -> dict[str, Any]:
        found = -1 if timestamp is None else await self.reader.offset(access, topic, partition, timestamp, False)
        return {
            "topic": topic,
            "partition": partition,
            "earliest": await self.reader.offset(access, topic, partition, EARLIEST, False),
            "latest": await self.reader.offset(access, topic, partition, LATEST, False),
            "at_timestamp": None if found < 0 else found,
        }

    @route(
        "POST",
        "/api/v1/groups/{group}/offsets",
        "Reset where a group without members goes on, or say what that would change",
        answer=CHANGES,
        body=RESET,
        parameters={"group": GROUP_ID},
        right=Right(AclOperation.READ, ResourceType.GROUP, "group"),
        rights="Needs Read on the Group, and on the topics.",
        served_by=lambda self, call: self.groups.coordinator_of(call.path["group"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def reset(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        body = call.body
        if (body["to"] in WITH_VALUE) != ("value" in body):
            need = "needs" if body["to"] in WITH_VALUE else "takes no"
            raise HttpProblem(HTTPStatus.BAD_REQUEST, f"The body.to is {body['to']!r}, which {need} body.value.")
        if body["to"] != "shift" and body.get("value", 0) < 0:
            raise HttpProblem(HTTPStatus.BAD_REQUEST, f"The body.value is {body['value']}; only a shift is negative.")
        return Deferred.fromCoroutine(self._reset(call.access, call.path["group"], body))

    async def _reset(self, access: HttpAccess, group_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self._require_groups(group_id)
        coordinator, validate_only = self.groups.lags.coordinator, body.get("validate_only", False)
        group, committed = coordinator.group(group_id), dict(coordinator.offsets(group_id).committed)
        if group is None and not committed and "topics" not in body:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no group {group_id[:200]!r}.")
        if group is not None and group.size and not validate_only:
            raise ApiError(
                ErrorCode.NON_EMPTY_GROUP,
                f"The group has {group.size} members, which would go on committing; stop them first.",
            )
        for one in body.get("topics", ()):
            # Before it is looked up: who may not read a topic does not learn whether it is there.
            access.require(AclOperation.READ, ResourceType.TOPIC, one["topic"])
        partitions = self._chosen(body.get("topics"), committed.keys())
        for topic in {partition.topic for partition in partitions}:
            access.require(AclOperation.READ, ResourceType.TOPIC, topic)
        target = OffsetTarget(TARGETS[body["to"]], body.get("value", 0))
        changes = []
        for partition in partitions:
            old = committed.get(partition)
            bounds = await self._bounds(access, partition, target)
            if old is None and target.kind is TargetKind.SHIFT:
                raise HttpProblem(
                    HTTPStatus.BAD_REQUEST,
                    f"Nothing is committed for {partition} that could be shifted; leave it out of body.topics, or set "
                    "it to an offset.",
                )
            changes.append(resolve_target(partition, target, None if old is None else old.offset, bounds))
        errors = {} if validate_only else await self._commit(access, group_id, changes)
        return {
            "group": group_id,
            "validate_only": validate_only,
            "items": [
                {
                    "topic": change.partition.topic,
                    "partition": change.partition.partition,
                    "old": change.old,
                    "new": change.new,
                    "note": change.note,
                    "error": errors.get(change.partition),
                }
                for change in changes
            ],
        }

    def _chosen(self, topics: Sequence[Mapping[str, Any]] | None, committed: Any) -> list[TopicPartition]:
        """
        Return the partitions of a reset, in order.

        :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION.
        :raise HttpProblem: they are too many.
        """
        chosen: set[TopicPartition] = set()
        if topics is None:
            chosen = {partition for partition in committed if self.metadata.partition(partition) is not None}
        for one in topics or ():
            count = len(existing_topic(self.metadata, one["topic"]).partitions)
            for number in one.get("partitions", range(count)):
                existing_partition(self.metadata, one["topic"], number)
                chosen.add(TopicPartition(one["topic"], number))
        if len(chosen) > MAX_PARTITIONS:
            raise HttpProblem(
                HTTPStatus.BAD_REQUEST,
                f"These are {len(chosen)} partitions; at most {MAX_PARTITIONS} are reset at once: name some in "
                "body.topics.",
            )
        return sorted(chosen)

    async def _bounds(self, access: HttpAccess, partition: TopicPartition, target: OffsetTarget) -> PartitionBounds:
        """Ask a partition's leader for its offsets."""
        timestamp = target.value if target.kind is TargetKind.TIME else None
        leader = leader_of(self.metadata, partition)
        if leader in (None, self.relay.broker_id):
            told = await self._offsets(access, partition.topic, partition.partition, timestamp)
        else:
            assert leader is not None
            query = "" if timestamp is None else f"?timestamp={timestamp}"
            path = f"/api/v1/topics/{quote(partition.topic)}/partitions/{partition.partition}/offsets{query}"
            response = await self.relay.send(leader, "GET", path, {}, b"", access)
            assert isinstance(response.body, bytes)
            told = json.loads(response.body)
            if response.status is not HTTPStatus.OK:
                code = ErrorCode.__members__.get(told.get("error", ""), ErrorCode.UNKNOWN_SERVER_ERROR)
                raise ApiError(code, told["detail"])
        at_time = told["at_timestamp"]
        return PartitionBounds(told["earliest"], told["latest"], -1 if at_time is None else at_time)

    async def _commit(
        self, access: HttpAccess, group_id: str, changes: Sequence[OffsetChange]
    ) -> dict[TopicPartition, str]:
        """
        Commit offsets, and return the errors of those that were refused.

        :raise ApiError: all were.
        """
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
        for change in changes:
            by_topic[change.partition.topic].append(
                OffsetCommitRequestPartition(
                    partition_index=change.partition.partition, committed_offset=change.new, committed_metadata=""
                )
            )
        topics = [OffsetCommitRequestTopic(name=name, partitions=some) for name, some in by_topic.items()]
        request = OffsetCommitRequest(group_id=group_id, topics=topics)
        response: OffsetCommitResponse = await self.requests.send(access, request, COMMIT_VERSION)
        errors = {
            TopicPartition(topic.name, one.partition_index): one.error_code
            for topic in response.topics
            for one in topic.partitions
            if one.error_code
        }
        if errors and len(errors) == len(changes):
            raise _group_error(group_id, next(iter(errors.values())))
        return {partition: error_of(code).code.name for partition, code in errors.items()}

    @route(
        "DELETE",
        "/api/v1/groups/{group}/offsets",
        "Delete committed offsets of topics that a group does not consume",
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        parameters={
            "group": GROUP_ID,
            "topic": TOPIC_NAME,
            "partition": {
                **integer("The partition; none: all of the topic.", minimum=0, maximum=2**31 - 1),
                "default": None,
            },
            **IN_QUERY,
        },
        right=Right(AclOperation.DELETE, ResourceType.GROUP, "group"),
        rights="Needs Delete on the Group, and Read on the Topic.",
        served_by=lambda self, call: self.groups.coordinator_of(call.path["group"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def delete_offsets(self, call: ViewRequest) -> Deferred[None]:
        topic, partition = call.query["topic"], call.query["partition"]
        if topic is None:
            raise HttpProblem(HTTPStatus.BAD_REQUEST, "Say whose offsets are to be deleted: add ?topic=.")
        self._require_groups(call.path["group"])
        call.access.require(AclOperation.READ, ResourceType.TOPIC, topic)
        return Deferred.fromCoroutine(self._delete_offsets(call, call.path["group"], topic, partition))

    async def _delete_offsets(self, call: ViewRequest, group_id: str, topic: str, partition: int | None) -> None:
        if partition is None:
            numbers = list(range(len(existing_topic(self.metadata, topic).partitions)))
        else:
            existing_partition(self.metadata, topic, partition)
            numbers = [partition]
        partitions = [OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
        asked = OffsetDeleteRequestTopic(name=topic, partitions=partitions)
        request = OffsetDeleteRequest(group_id=group_id, topics=[asked])
        response: OffsetDeleteResponse = await self.requests.send(call.access, request, 0, terms_of(call))
        codes = [response.error_code, *(one.error_code for each in response.topics for one in each.partitions)]
        for code in filter(None, codes):
            raise _group_error(group_id, code)

    @route(
        "DELETE",
        "/api/v1/groups/{group}",
        "Delete a group without members, with its committed offsets",
        parameters={
            "group": GROUP_ID,
            "confirm": string("The group's id again, without which nothing is deleted."),
            **IN_QUERY,
        },
        right=Right(AclOperation.DELETE, ResourceType.GROUP, "group"),
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        served_by=lambda self, call: self.groups.coordinator_of(call.path["group"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def delete(self, call: ViewRequest) -> Deferred[None]:
        group_id = call.path["group"]
        if call.query["confirm"] != group_id:
            raise HttpProblem(
                HTTPStatus.BAD_REQUEST,
                f"This deletes {group_id[:200]!r} with its committed offsets; to confirm, add ?confirm= with its id.",
            )
        self._require_groups(group_id)
        return Deferred.fromCoroutine(self._delete(call, group_id))

    def _require_groups(self, group_id: str) -> None:
        """
        Check that the cluster has had groups: otherwise nobody coordinates any.

        :raise ApiError: GROUP_ID_NOT_FOUND.
        """
        if self.groups.coordinator_of(group_id) is None:
            raise _group_error(group_id, ErrorCode.GROUP_ID_NOT_FOUND)

    async def _delete(self, call: ViewRequest, group_id: str) -> None:
        request = DeleteGroupsRequest(groups_names=[group_id])
        response: DeleteGroupsResponse = await self.requests.send(call.access, request, 2, terms_of(call))
        (result,) = response.results
        if result.error_code:
            raise _group_error(group_id, result.error_code)


def _group_error(group_id: str, code: int) -> ApiError:
    """Return an error that says what can be done."""
    shown = repr(group_id[:200])
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no group {shown}.")
    if code in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH):
        return ApiError(ErrorCode.NON_EMPTY_GROUP, f"The group {shown} has members; stop them first.")
    if code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        return ApiError(
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            f"Members of the group {shown} are subscribed to the topic; its offsets can be deleted when they are not.",
        )
    error = error_of(code)
    return ApiError(error.code, f"The group {shown}: {error.message}")
