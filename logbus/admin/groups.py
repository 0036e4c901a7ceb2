"""
Views of groups: state, members, committed offsets and lag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any
from uuid import UUID

from attrs import frozen

from logbus.admin.authorization import Right
from logbus.admin.group_members import TopicName, assignor_of, members_of
from logbus.admin.json_chunks import json_stream
from logbus.admin.json_schema import array, boolean, integer, mapping, nullable, object_schema, string
from logbus.admin.pagination import CONTAINS, UNANSWERED, containing, page, page_of, paged
from logbus.admin.partitions import OFFSET
from logbus.admin.relay import leader_of
from logbus.admin.routing import ViewRequest, ViewResponse, route
from logbus.admin.topics import TOPIC_NAME
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.coordination.group import Group
from logbus.coordination.group_lag_history import INTERVAL_SECONDS, LagHistory
from logbus.coordination.group_lags import GroupLags, Lag
from logbus.coordination.group_offsets import CommittedOffset
from logbus.errors import ApiError, ErrorCode
from logbus.model import OFFSETS_TOPIC, TopicPartition
from logbus.security.acl.acls import AclOperation, ResourceType

GROUP_ID = string("Id of a group; any text, percent-encoded in a path.", minLength=1, maxLength=32_767)
_SUMMARY: dict[str, Any] = {
    "id": GROUP_ID,
    "type": string("The protocol of its members.", enum=["classic", "consumer", "share", "streams"]),
    "protocol_type": string(
        "'consumer' for consumers, 'share' for share consumers, 'streams' for members of streams groups; empty if it "
        "never had members."
    ),
    "state": string("Its state, such as 'Stable' or 'Empty'."),
    "members": integer("Number of members."),
    "partitions": integer("Number of partitions with a committed offset."),
    "lag": nullable(
        integer(
            "Records still to read, over all partitions whose end this broker knows; null: none of these has a "
            "committed offset."
        )
    ),
}
GROUP = object_schema("A group.", **_SUMMARY)
MEMBER = object_schema(
    "A member of a group.",
    id=string("Its id."),
    instance=nullable(string("Its group.instance.id, if it has one.")),
    client=string("The client.id."),
    host=string("The client's address."),
    epoch=nullable(integer("The epoch it has reached; null in a classic group.")),
    assignment=mapping(
        "Its assignment: partitions by topic. Empty if the protocol type is not 'consumer'.",
        array("Partitions.", integer("Number of a partition.")),
    ),
)
COMMITTED_OFFSET = object_schema(
    "The committed offset of a partition.",
    topic=TOPIC_NAME,
    partition=integer("Number of the partition."),
    offset=integer("Offset of the next record to read."),
    end_offset=nullable(
        {**OFFSET, "description": "The high watermark, or what its leader told some seconds ago; null: unknown yet."}
    ),
    lag=nullable(integer("Records between them; null: unknown yet.")),
    leader_epoch=integer("Leader epoch of the last record read; -1: unknown."),
    metadata=string("The client's metadata of the commit."),
    committed_at=integer("Time of the commit, in ms since 1970."),
)
DETAIL = object_schema(
    "A group with its members and offsets.",
    **{**_SUMMARY, "members": array("Its members.", MEMBER)},
    assignor=string("The assignor; empty until one is chosen."),
    offsets=array("Committed offsets by topic and partition.", COMMITTED_OFFSET),
)
LAG_SAMPLE = object_schema(
    "The lag of a group at one time.",
    at=integer("When, in ms since 1970."),
    lag=nullable(integer("Records still to read; null: some are of topics that you may not see.")),
    partitions=array(
        "The partitions farthest behind, the largest lag first.",
        object_schema(
            "A partition.", topic=TOPIC_NAME, partition=integer("Number of the partition."), lag=integer("Its lag.")
        ),
    ),
)
LAGS = object_schema(
    "The lag of a group over the last hour; empty if many groups are farther behind.",
    interval_seconds=integer("Seconds between samples."),
    items=array("Samples, the oldest first.", LAG_SAMPLE),
)
PAGE = page(
    "groups",
    GROUP,
    GROUP_ID,
    loading=boolean("Whether groups are missing because they are still being loaded."),
    unanswered=UNANSWERED,
)


IsVisible = Callable[[str], bool]
"""Returns whether a topic may be told."""


@frozen
class GroupViews:
    """Lists and describes groups; each broker knows those that it coordinates."""

    metadata: ClusterMetadata
    lags: GroupLags
    history: LagHistory

    @route(
        "GET",
        "/api/v1/groups",
        "Groups, by id",
        answer=PAGE,
        parameters=paged(
            GROUP_ID,
            **CONTAINS,
            state={**string("Only groups in this state, such as 'Stable', in any case.", maxLength=100), "default": ""},
        ),
        merged_by="id",
        rights="Needs Describe on the Cluster, or else groups without Describe are left out.",
    )
    def list(self, call: ViewRequest) -> ViewResponse:
        state = call.query["state"].lower()
        found = {
            group.group_id: group
            for group in self.lags.coordinator.groups()
            if not state or group.state_name.lower() == state
        }
        access, shows_all = call.access, call.access.may_on_cluster(AclOperation.DESCRIBE)
        shown, after = page_of(
            containing(found, call.query["contains"]),
            call,
            None if shows_all else access.filter(AclOperation.DESCRIBE, ResourceType.GROUP),
        )
        is_visible = access.filter(AclOperation.DESCRIBE, ResourceType.TOPIC)

        def items() -> Iterator[dict[str, Any] | None]:
            for name in shown:
                offsets = self._committed(name, is_visible)
                for lag in self.lags.of(offsets):
                    yield None if lag is None else _summary(found[name], offsets, lag)

        return json_stream(
            {
                "items": items,
                "next": after,
                "loading": self.lags.coordinator.loading,
                "unanswered": [],
            }
        )

    @route(
        "GET",
        "/api/v1/groups/{group}",
        "One group, with its members and offsets",
        answer=DETAIL,
        parameters={"group": GROUP_ID},
        right=Right(AclOperation.DESCRIBE, ResourceType.GROUP, "group"),
        rights="Needs Describe on the Group; topics without Describe are left out.",
        served_by=lambda self, call: self.coordinator_of(call.path["group"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def one(self, call: ViewRequest) -> ViewResponse:
        group_id = call.path["group"]
        group = self._existing(group_id)
        is_visible = call.access.filter(AclOperation.DESCRIBE, ResourceType.TOPIC)
        offsets = self._committed(group_id, is_visible)
        (lag,) = filter(None, self.lags.of(offsets))
        return json_stream(
            {
                **_summary(group, offsets, lag),
                "assignor": assignor_of(group),
                "members": lambda: _members(group, self._topic_name, is_visible),
                "offsets": lambda: self._readings(offsets),
            }
        )

    @route(
        "GET",
        "/api/v1/groups/{group}/lag",
        "The lag of a group over the last hour",
        answer=LAGS,
        parameters={"group": GROUP_ID},
        right=Right(AclOperation.DESCRIBE, ResourceType.GROUP, "group"),
        rights="Needs Describe on the Group; topics without Describe are left out.",
        served_by=lambda self, call: self.coordinator_of(call.path["group"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def lag_history(self, call: ViewRequest) -> dict[str, Any]:
        group_id = call.path["group"]
        self._existing(group_id)
        is_visible = call.access.filter(AclOperation.DESCRIBE, ResourceType.TOPIC)
        samples = self.history.of(group_id)
        topics = {each.topic for each in self._committed(group_id, None)}
        topics |= {partition.topic for sample in samples for partition, _ in sample.partitions}
        visible = {topic for topic in topics if is_visible is None or is_visible(topic)}
        return {
            "interval_seconds": INTERVAL_SECONDS,
            "items": [
                {
                    "at": sample.at_ms,
                    "lag": sample.sum if visible == topics else None,
                    "partitions": [
                        {"topic": partition.topic, "partition": partition.partition, "lag": lag}
                        for partition, lag in sample.partitions
                        if partition.topic in visible
                    ],
                }
                for sample in samples
            ],
        }

    def coordinator_of(self, group_id: str) -> int | None:
        """
        Return the broker that coordinates a group; None: no group was ever there.

        :raise ApiError: LEADER_NOT_AVAILABLE.
        """
        coordinator = self.lags.coordinator
        return leader_of(self.metadata, TopicPartition(OFFSETS_TOPIC, coordinator.partition_of(group_id)))

    def _existing(self, group_id: str) -> Group:
        try:
            group = self.lags.coordinator.group(group_id)
        except ApiError as e:
            if e.code is not ErrorCode.NOT_COORDINATOR or self.coordinator_of(group_id) is not None:
                raise
            group = None
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no group {group_id[:200]!r}.")
        return group

    def _committed(self, group_id: str, is_visible: IsVisible | None) -> Mapping[TopicPartition, CommittedOffset]:
        """Return a copy, since the answer is made over several reactor turns."""
        try:
            offsets = dict(self.lags.coordinator.committed(group_id))
        except ApiError:
            return {}  # the group has moved to another broker
        if is_visible is None:
            return offsets
        topics = {topic: is_visible(topic) for topic in {partition.topic for partition in offsets}}
        return {partition: offset for partition, offset in offsets.items() if topics[partition.topic]}

    def _readings(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> Iterator[dict[str, Any]]:
        for partition, committed in sorted(offsets.items()):
            yield {
                "topic": partition.topic,
                "partition": partition.partition,
                "offset": committed.offset,
                "end_offset": self.lags.end(partition),
                "lag": self.lags.lag(partition, committed),
                "leader_epoch": committed.leader_epoch,
                "metadata": committed.metadata,
                "committed_at": committed.commit_timestamp,
            }

    def _topic_name(self, topic_id: bytes) -> str | None:
        topic = self.metadata.topic_by_id(UUID(bytes=topic_id))
        return None if topic is None else topic.name


def _members(group: Group, name_of: TopicName, is_visible: IsVisible | None) -> Iterator[dict[str, Any]]:
    for member in members_of(group, name_of):
        if is_visible is not None:
            assigned = member["assignment"]
            member = {**member, "assignment": {topic: assigned[topic] for topic in assigned if is_visible(topic)}}
        yield member


def _summary(group: Group, offsets: Mapping[TopicPartition, CommittedOffset], lag: Lag) -> dict[str, Any]:
    return {
        "id": group.group_id,
        "type": group.group_type.value,
        "protocol_type": group.protocol_type,
        "state": group.state_name,
        "members": group.size,
        "partitions": len(offsets),
        "lag": lag.sum if lag.known or not offsets else None,
    }
