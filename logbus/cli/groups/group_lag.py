"""
The lag of groups: committed offsets, ends of the partitions, and the members they are assigned to.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from logbus.cli.output import by_topic, partition_list, printable
from logbus.cli.runner import results
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.group_results import GroupDescription, GroupMember
from logbus.client.group_metadata import CommittedOffset
from logbus.client.list_offsets import LATEST
from logbus.errors import ApiError, ErrorCode
from logbus.model import TimestampOffset, TopicPartition
from logbus.wire.messages.consumer_protocol import PROTOCOL_TYPE
from logbus.wording import counted

OFFSETS_HEAD = ("topic", "partition", "offset", "end", "lag", "member", "client", "host")
MEMBERS_HEAD = ("member", "instance", "client", "host", "epoch", "partitions", "assignment")
STATE_HEAD = ("group", "type", "state", "assignor", "epoch", "members", "lag", "coordinator")


@frozen
class PartitionLag:
    """
    A group's lag in one partition.

    :ivar offset: the committed offset; None: there is none.
    :ivar end: the offset of the next record; None: the partition is deleted or has no leader.
    :ivar member: the member it is assigned to, if any.
    :ivar leader_epoch: of the record before the committed offset; −1: not known.
    """

    partition: TopicPartition
    offset: int | None
    end: int | None
    member: GroupMember | None
    metadata: str = ""
    leader_epoch: int = -1

    @property
    def lag(self) -> int | None:
        """The number of records still to read; None if unknown."""
        return None if self.offset is None or self.end is None else max(self.end - self.offset, 0)


@frozen
class GroupReport:
    """
    A group and its lag in each partition.

    :ivar partition_lags: ordered by topic and partition.
    """

    group: GroupDescription
    partition_lags: Sequence[PartitionLag]

    @property
    def lag(self) -> int | None:
        """The sum over partitions whose lag is known; None if it is unknown for all."""
        known = [each.lag for each in self.partition_lags if each.lag is not None]
        return None if self.partition_lags and not known else sum(known)


async def reports_of(admin: AdminClient, names: Sequence[str]) -> list[GroupReport]:
    """
    Return the reports of groups by name.

    :param names: empty: all groups.
    """
    wanted = names or [each.group_id for each in await admin.list_groups()]
    return await group_reports(admin, await group_descriptions(admin, wanted, gone_is_fine=not names))


async def group_descriptions(
    admin: AdminClient, names: Sequence[str], *, gone_is_fine: bool = False
) -> list[GroupDescription]:
    """
    Describe groups by name.

    :param gone_is_fine: omit groups that do not exist.
    :raise CommandFailed: a group does not exist, or cannot be described.
    """
    answers = await admin.describe_groups(names)
    if gone_is_fine:
        unknown = ErrorCode.GROUP_ID_NOT_FOUND
        answers = {
            name: each for name, each in answers.items() if not (isinstance(each, ApiError) and each.code is unknown)
        }
    return results(answers)


async def existing_partitions(admin: AdminClient, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions that exist; groups may have offsets of deleted topics."""
    wanted = list(partitions)
    if not wanted:
        return []
    there = {topic.name: topic.partitions for topic in await admin.list_topics(internal=True)}
    return [each for each in wanted if each.partition in there.get(each.topic, {})]


async def offsets_at(
    admin: AdminClient, partitions: Iterable[TopicPartition], time: int
) -> dict[TopicPartition, int | None]:
    """
    Return the offset at a time for each partition; None where it is unknown.

    :param time: as for :func:`logbus.client.list_offsets.list_offsets`.
    """
    wanted = list(partitions)
    answers = await admin.list_offsets(dict.fromkeys(await existing_partitions(admin, wanted), time))
    found: dict[TopicPartition, int | None] = dict.fromkeys(wanted)
    found.update((each, at.offset) for each, at in answers.items() if isinstance(at, TimestampOffset))
    return found


async def group_reports(admin: AdminClient, groups: Sequence[GroupDescription]) -> list[GroupReport]:
    """
    Return the reports of groups.

    :raise ApiError: the offsets of a group cannot be read.
    """
    committed = await admin.list_group_offsets([each.group_id for each in groups])
    for answer in committed.values():
        if isinstance(answer, ApiError):
            raise answer
    read: dict[str, dict[TopicPartition, GroupMember | None]] = {}
    for group in groups:
        offsets = committed[group.group_id]
        assert not isinstance(offsets, ApiError)
        read[group.group_id] = {
            **dict.fromkeys(offsets),
            **{partition: member for member in group.members for partition in member.assignment},
        }
    ends = await offsets_at(admin, {partition for each in read.values() for partition in each}, LATEST)
    return [
        GroupReport(group, list(_partition_lags(read[group.group_id], committed[group.group_id], ends)))
        for group in groups
    ]


def _partition_lags(
    read: Mapping[TopicPartition, GroupMember | None],
    committed: Mapping[TopicPartition, CommittedOffset | ApiError] | ApiError,
    ends: Mapping[TopicPartition, int | None],
) -> Iterator[PartitionLag]:
    assert not isinstance(committed, ApiError)
    for partition, member in sorted(read.items(), key=lambda each: each[0]):
        at = committed.get(partition)
        known = at if isinstance(at, CommittedOffset) else None
        yield PartitionLag(
            partition,
            None if known is None else known.offset,
            ends.get(partition),
            member,
            "" if known is None else known.metadata,
            -1 if known is None else known.leader_epoch,
        )


# Text output.


def headline(report: GroupReport) -> str:
    """Summarize a group in one line."""
    group = report.group
    kind = " ".join(each for each in (group.type, group.assignor) if each)
    lag = "unknown" if report.lag is None else report.lag
    return (
        f"group {printable(group.group_id)}: {group.state}, {kind}, {member_count(group)}, lag {lag}, "
        f"coordinator {group.coordinator}"
    )


def member_count(group: GroupDescription) -> str:
    """Return the number of members, as in "2 members"."""
    return counted(len(group.members), "member")


def offset_rows(report: GroupReport) -> Iterator[tuple[object, ...]]:
    """Rows for its partitions, and for members without partitions."""
    for each in report.partition_lags:
        who = each.member
        yield (
            *each.partition,
            each.offset,
            each.end,
            each.lag,
            *((None, None, None) if who is None else (who.member_id, who.client_id, who.host)),
        )
    for member in report.group.members:
        if not member.assignment:
            yield (None, None, None, None, None, member.member_id, member.client_id, member.host)


def member_rows(report: GroupReport) -> Iterator[tuple[object, ...]]:
    """Rows for its members."""
    for each in report.group.members:
        epoch = None if each.epoch < 0 else each.epoch
        yield (
            each.member_id,
            each.instance_id,
            each.client_id,
            each.host,
            epoch,
            len(each.assignment),
            partition_list(each.assignment),
        )


def state_row(report: GroupReport) -> tuple[object, ...]:
    """The row of the group itself."""
    group = report.group
    epoch = None if group.epoch < 0 else group.epoch
    assignor = group.assignor or None
    return group.group_id, group.type, group.state, assignor, epoch, len(group.members), report.lag, group.coordinator


# JSON output.


def as_json(report: GroupReport) -> dict[str, Any]:
    """Return the report as JSON values."""
    group = report.group
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "epoch": None if group.epoch < 0 else group.epoch,
        "assignment_epoch": None if group.assignment_epoch < 0 else group.assignment_epoch,
        "coordinator": {"id": group.coordinator.node_id, "address": str(group.coordinator)},
        "lag": report.lag,
        "members": [_member(each, group) for each in group.members],
        "offsets": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "offset": each.offset,
                "end_offset": each.end,
                "lag": each.lag,
                "metadata": each.metadata,
                "member": None if each.member is None else each.member.member_id,
            }
            for each in report.partition_lags
        ],
    }


def _member(member: GroupMember, group: GroupDescription) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.host,
        "epoch": None if member.epoch < 0 else member.epoch,
        "topics": list(member.subscription),
        "pattern": member.pattern,
        "assignment": by_topic(member.assignment),
        "target": None if member.target is None else by_topic(member.target),
    }
    if group.protocol_type != PROTOCOL_TYPE:
        # The bytes of other protocol types have a meaning only to their members.
        fields["metadata_base64"] = base64.b64encode(member.metadata_bytes).decode()
        fields["assignment_base64"] = base64.b64encode(member.assignment_bytes).decode()
    return fields
