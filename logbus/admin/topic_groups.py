"""
The view of the groups that have committed offsets of a topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from logbus.admin import strict_json
from logbus.admin.groups import GROUP_ID
from logbus.admin.json_schema import boolean, integer, nullable, object_schema, string
from logbus.admin.pagination import UNANSWERED, page, paged
from logbus.admin.routing import JSON, ViewRequest, ViewResponse, route
from logbus.admin.topics import DESCRIBES_TOPIC, TOPIC_NAME, existing_topic
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.coordination.committed_offset import CommittedOffset
from logbus.coordination.group import Group
from logbus.coordination.group_lags import GroupLags
from logbus.errors import ApiError
from logbus.model import TopicPartition
from logbus.security.acl.acls import AclOperation, ResourceType

READER = object_schema(
    "A group, as a reader of a topic.",
    id=GROUP_ID,
    state=string("Its state, such as 'Stable' or 'Empty'."),
    members=integer("Number of members."),
    partitions=integer("Partitions of the topic with a committed offset."),
    lag=nullable(
        integer("Records of these still to read, as far as the broker knows their ends; null: it knows none of them.")
    ),
    unknown=integer("Partitions of these whose end the broker does not know."),
)
WORK_A_TURN = 2000
"""Looks for a partition among committed offsets in a reactor turn; each costs about 0.5 µs."""


@frozen
class TopicGroupViews:
    """Finds the groups that read a topic; each broker knows those that it coordinates."""

    metadata: ClusterMetadata
    lags: GroupLags
    clock: IReactorTime

    @route(
        "GET",
        "/api/v1/topics/{topic}/groups",
        "Groups with committed offsets of a topic, by id",
        answer=page(
            "groups",
            READER,
            GROUP_ID,
            loading=boolean("Whether groups are missing because they are still being loaded."),
            unanswered=UNANSWERED,
        ),
        parameters=paged(GROUP_ID, topic=TOPIC_NAME),
        merged_by="id",
        right=DESCRIBES_TOPIC,
        rights="Needs Describe on the Cluster, or else groups without Describe are left out.",
        errors=(HTTPStatus.NOT_FOUND,),
    )
    def list(self, call: ViewRequest) -> Deferred[ViewResponse]:
        existing_topic(self.metadata, call.path["topic"])
        return Deferred.fromCoroutine(self._list(call))

    async def _list(self, call: ViewRequest) -> ViewResponse:
        topic = existing_topic(self.metadata, call.path["topic"])
        partitions = [TopicPartition(topic.name, number) for number in range(len(topic.partitions))]
        access, after = call.access, call.query["after"]
        is_visible = (
            None
            if access.may_on_cluster(AclOperation.DESCRIBE)
            else access.filter(AclOperation.DESCRIBE, ResourceType.GROUP)
        )
        groups = {group.group_id: group for group in self.lags.coordinator.groups()}
        found: list[dict[str, Any]] = []
        following, work = None, 0
        for name in sorted(name for name in groups if after is None or name > after):
            committed = self._committed(name)
            work += 1 + min(len(committed), len(partitions))
            if work >= WORK_A_TURN:
                work = 0
                await deferLater(self.clock, 0)
            read = _of_topic(committed, topic.name, partitions)
            if not read or not (is_visible is None or is_visible(name)):
                continue
            if len(found) == call.query["limit"]:
                following = found[-1]["id"]
                break
            found.append(self._reader(groups[name], read))
        told = {"items": found, "next": following, "loading": self.lags.coordinator.loading, "unanswered": []}
        return ViewResponse(HTTPStatus.OK, JSON, strict_json.dumps(told))

    def _committed(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        try:
            return self.lags.coordinator.committed(group_id)
        except ApiError:
            return {}  # the group has moved to another broker

    def _reader(self, group: Group, read: Mapping[TopicPartition, CommittedOffset]) -> dict[str, Any]:
        lags = [self.lags.lag(partition, offset) for partition, offset in read.items()]
        known = [lag for lag in lags if lag is not None]
        return {
            "id": group.group_id,
            "state": group.state_name,
            "members": group.size,
            "partitions": len(read),
            "lag": sum(known) if known else None,
            "unknown": len(lags) - len(known),
        }


def _of_topic(
    committed: Mapping[TopicPartition, CommittedOffset], topic: str, partitions: list[TopicPartition]
) -> Mapping[TopicPartition, CommittedOffset]:
    """Return the offsets of a topic's partitions, by the shorter way."""
    if len(committed) <= len(partitions):
        return {partition: offset for partition, offset in committed.items() if partition.topic == topic}
    return {partition: committed[partition] for partition in partitions if partition in committed}
