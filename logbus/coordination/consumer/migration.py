"""
Online migration of a group between the classic and the consumer protocol (KIP-848).

A group is upgraded when a member of the consumer protocol joins a classic group of consumers: the members' assignments
become their targets and positions, and the generation becomes the epoch. It is downgraded when the last member of the
consumer protocol has left: the assignments are converted back, and the group rebalances.
"""

from __future__ import annotations

from enum import Enum

from logbus.coordination.classic.classic_group import ClassicGroup
from logbus.coordination.classic.members import ClassicGroupMember as ClassicMember
from logbus.coordination.consumer.consumer_group import ConsumerGroup
from logbus.coordination.consumer.consumer_group_member import ClassicProtocols, ConsumerGroupMember, MemberPosition
from logbus.coordination.consumer.consumer_protocol import (
    read_assignment,
    read_subscription,
    usable_version,
    write_assignment,
)
from logbus.coordination.consumer.partition_sets import from_pairs, pairs
from logbus.coordination.group import Change
from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.wire.messages.consumer_protocol import PROTOCOL_TYPE
from logbus.wire.messages.group_log import GroupMemberMetadata, GroupMetadataKey, GroupMetadataValue


class ConsumerGroupMigrationPolicy(Enum):
    """The values of ``group.consumer.migration.policy`` (Kafka: ConsumerGroupMigrationPolicy)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def up(self) -> bool:
        """Whether classic groups may become consumer groups."""
        return self in (ConsumerGroupMigrationPolicy.UPGRADE, ConsumerGroupMigrationPolicy.BIDIRECTIONAL)

    @property
    def down(self) -> bool:
        """Whether consumer groups may become classic groups."""
        return self in (ConsumerGroupMigrationPolicy.DOWNGRADE, ConsumerGroupMigrationPolicy.BIDIRECTIONAL)


def upgrade(now: float, classic: ClassicGroup, group: ConsumerGroup) -> list[Change]:
    """
    Give ``group``, a new one, the state of ``classic``.

    :return: the records of the upgrade; the tombstones of the classic group come first.
    :raise ApiError: GROUP_ID_NOT_FOUND: the members' metadata is not that of consumers, or there are too many members.
    """
    recorded = group.recorded
    recorded.begin()
    if classic.protocol_type != PROTOCOL_TYPE or classic.size > group.settings.max_size:
        raise _refused(classic, "it is not one of consumers, or has too many members")
    recorded.set_epoch(classic.generation)
    for one in classic.members:
        try:
            member = _upgraded(one)
            had = read_assignment(one.assignment, group.topics)
        except DecodeError as e:
            raise _refused(classic, f"what the member {one.member_id} embeds cannot be read: {e}") from None
        # A leader may have assigned a partition to two members; then only the first gets it.
        assigned = from_pairs(partition for partition in pairs(had) if recorded.is_free(*partition))
        recorded.set_member(member.member_id, member)
        recorded.set_target(member.member_id, assigned)
        recorded.set_position(
            member.member_id,
            MemberPosition(
                classic.generation,
                classic.generation,
                assigned=assigned,
                since=dict.fromkeys(pairs(assigned), classic.generation),
            ),
        )
    recorded.set_target_epoch(classic.generation, 0)
    group.activate(now)
    return [*classic.tombstones(), *recorded.written()]


def _upgraded(one: ClassicMember) -> ConsumerGroupMember:
    """:raise DecodeError: the member is not a consumer."""
    if not one.protocols:
        raise DecodeError("it supports no protocol")
    subscription = read_subscription(one.protocols[0][1])
    return ConsumerGroupMember(
        member_id=one.member_id,
        instance_id=one.instance_id,
        rack_id=subscription.rack_id,
        client_id=one.client_id,
        client_host=one.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=one.rebalance_timeout_ms,
        classic=ClassicProtocols(one.session_timeout_ms, one.protocols),
    )


def downgrade(group: ConsumerGroup, now_ms: int) -> tuple[list[Change], GroupMetadataValue]:
    """
    The records that turn a group whose members all use the classic protocol into a classic group, and the last value.
    """
    recorded = group.recorded
    classics = [(member, member.classic) for member in recorded.members.values() if member.classic is not None]
    names = [name for name, _ in classics[0][1].protocols]
    protocol = next((n for n in names if all(n in dict(classic.protocols) for _, classic in classics)), names[0])
    # The last departure has increased the group epoch, but no member has reached it: the members are in the epoch of
    # their targets, and may commit in it until they join again.
    generation = recorded.target_epoch or recorded.epoch or 0
    value = GroupMetadataValue(
        protocol_type=PROTOCOL_TYPE,
        generation=generation,
        protocol=protocol,
        leader=classics[0][0].member_id,
        current_state_timestamp=now_ms,
        members=[
            GroupMemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=classic.session_timeout_ms,
                subscription=dict(classic.protocols).get(protocol, b""),
                assignment=write_assignment(
                    recorded.position(member.member_id).assigned, group.topics, usable_version(classic.protocols[0][1])
                ),
            )
            for member, classic in classics
        ],
    )
    return [*recorded.tombstones(), (GroupMetadataKey(group=group.group_id), value)], value


def _refused(classic: ClassicGroup, why: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"the group {classic.group_id!r} stays a classic one: {why}")
