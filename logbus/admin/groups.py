"""
Groups: those that this broker coordinates, their members, and how far they have read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from uuid import UUID

from attrs import frozen

from logbus.admin.lags import Lag, Lags
from logbus.admin.members import assignor_of, members_of
from logbus.admin.pieces import streamed
from logbus.admin.problems import Refused
from logbus.admin.routing import Answer, Call, route
from logbus.admin.shapes import flag, mapping, nullable, record, rows, text, whole
from logbus.admin.topics import OFFSET, TOPIC_NAME, page, paged
from logbus.cluster.metadata import ClusterMetadata
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

if TYPE_CHECKING:
    from logbus.coordination.igroup import Group
    from logbus.coordination.offsets import CommittedOffset

GROUP_ID = text("Id of a group; any text, percent-encoded in a path.", minLength=1, maxLength=32_767)
_SUMMARY: dict[str, Any] = {
    "id": GROUP_ID,
    "type": text("Which protocol its members speak.", enum=["classic", "consumer"]),
    "protocol_type": text("'consumer' for consumers; empty if it never had members."),
    "state": text("Its state, such as 'Stable' or 'Empty'."),
    "members": whole("How many members it has."),
    "partitions": whole("For how many partitions it has committed an offset."),
    "lag": nullable(
        whole(
            "Records it has still to read, of all partitions whose end this broker knows; null: it committed offsets "
            "for none of these."
        )
    ),
}
GROUP = record("A group.", **_SUMMARY)
MEMBER = record(
    "A member of a group.",
    id=text("Its id."),
    instance=nullable(text("Its group.instance.id, if it has one.")),
    client=text("What its client calls itself."),
    host=text("The address it comes from."),
    epoch=nullable(whole("The epoch it has reached; null in a classic group.")),
    assignment=mapping(
        "What it reads: partitions by topic. Empty where its protocol is not that of consumers.",
        rows("Partitions.", whole("Number of a partition.")),
    ),
)
READING = record(
    "What a group committed for a partition.",
    topic=TOPIC_NAME,
    partition=whole("Number of the partition."),
    offset=whole("Offset of the next record to read."),
    end_offset=nullable({**OFFSET, "description": "The first offset that readers do not see; null: not known here."}),
    lag=nullable(whole("Records between them; null: not known here.")),
    leader_epoch=whole("Leader epoch of the last record read; -1: the client did not say."),
    metadata=text("What the client noted."),
    committed_at=whole("When, in ms since 1970."),
)
DETAIL = record(
    "A group with its members and offsets.",
    **{**_SUMMARY, "members": rows("Its members.", MEMBER)},
    assignor=text("How partitions are assigned; empty while nothing is agreed on."),
    offsets=rows("What it committed, by topic and partition.", READING),
)
_PAGE = page("groups", GROUP, GROUP_ID)
PAGE = {
    **_PAGE,
    "properties": {
        **_PAGE["properties"],
        "loading": flag("Whether some groups are left out because they are not read back yet."),
    },
    "required": [*_PAGE["required"], "loading"],
}


@frozen
class GroupViews:
    """The groups that this broker coordinates."""

    metadata: ClusterMetadata
    lags: Lags

    @route(
        "GET",
        "/api/v1/groups",
        "Groups that this broker coordinates, by id",
        answer=PAGE,
        parameters=paged(GROUP_ID),
    )
    def list(self, call: Call) -> Answer:
        after, limit = call.query["after"], call.query["limit"]
        found = {group.group_id: group for group in self.lags.coordinator.groups()}
        names = sorted(found if after is None else (name for name in found if name > after))
        shown = names[:limit]

        def items() -> Iterator[dict[str, Any] | None]:
            for name in shown:
                offsets = self._committed(name)
                for lag in self.lags.of(offsets):
                    yield None if lag is None else _summary(found[name], offsets, lag)

        return streamed(
            {
                "items": items,
                "next": shown[-1] if len(names) > limit else None,
                "loading": self.lags.coordinator.loading,
            }
        )

    @route(
        "GET",
        "/api/v1/groups/{group}",
        "One group that this broker coordinates, with its members and offsets",
        answer=DETAIL,
        parameters={"group": GROUP_ID},
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def one(self, call: Call) -> Answer:
        group_id = call.path["group"]
        group = self._existing(group_id)
        offsets = self._committed(group_id)
        (lag,) = filter(None, self.lags.of(offsets))
        return streamed(
            {
                **_summary(group, offsets, lag),
                "assignor": assignor_of(group),
                "members": lambda: members_of(group, self._topic_name),
                "offsets": lambda: self._readings(offsets),
            }
        )

    def _existing(self, group_id: str) -> Group:
        try:
            group = self.lags.coordinator.group(group_id)
        except ApiError as e:
            if e.code is not ErrorCode.NOT_COORDINATOR:
                raise
            group = None
        if group is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"This broker coordinates no group {group_id[:200]!r}.")
        return group

    def _committed(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """A copy: what is told of it in later turns is of one moment."""
        try:
            return dict(self.lags.coordinator.committed(group_id))
        except ApiError:
            return {}  # it moved to another broker meanwhile

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
