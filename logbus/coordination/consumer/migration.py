"""
A group from one protocol to the other while its members go on (KIP-848, "Online migration").

Up, when a member of the consumer protocol joins a classic group of consumers: what members have becomes their target
and their position, at the group's generation. Down, when the last member of the consumer protocol is gone: the same the
other way, and the group rebalances.
"""

from __future__ import annotations

from enum import Enum

from logbus.coordination.consumer.embedded import read_assignment, read_subscription, version_of, write_assignment
from logbus.coordination.consumer.group import ConsumerGroup
from logbus.coordination.consumer.member import ClassicProtocols, Member, Position
from logbus.coordination.consumer.partitions import from_pairs, pairs
from logbus.coordination.group import ClassicGroup
from logbus.coordination.igroup import Change
from logbus.coordination.members import Member as ClassicMember
from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.wire.messages.consumer_protocol import PROTOCOL_TYPE
from logbus.wire.messages.group_log import GroupMemberMetadata, GroupMetadataKey, GroupMetadataValue


class MigrationPolicy(Enum):
    """Which way groups may go, as ``group.consumer.migration.policy`` spells it."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def up(self) -> bool:
        """Whether classic groups may become consumer groups."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def down(self) -> bool:
        """Whether consumer groups may become classic groups."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


def upgrade(now: float, classic: ClassicGroup, group: ConsumerGroup) -> list[Change]:
    """
    Let ``group``, a new one, be what ``classic`` is.

    :return: the records that say so, those that delete the classic group first.
    :raise ApiError: GROUP_ID_NOT_FOUND: members said something else than consumers do, or there are too many.
    """
    ledger = group.ledger
    ledger.begin()
    if classic.protocol_type != PROTOCOL_TYPE or classic.size > group.settings.max_size:
        raise _refused(classic, "it is not one of consumers, or has too many members")
    ledger.set_epoch(classic.generation)
    for one in classic.members:
        try:
            member = _upgraded(one)
            had = read_assignment(one.assignment, group.topics)
        except DecodeError as e:
            raise _refused(classic, f"what the member {one.member_id} embeds cannot be read: {e}") from None
        # A leader may have assigned anything, the same to two members, too: then one of them has it.
        assigned = from_pairs(partition for partition in pairs(had) if ledger.is_free(*partition))
        ledger.set_member(member.member_id, member)
        ledger.set_target(member.member_id, assigned)
        ledger.set_position(member.member_id, Position(classic.generation, classic.generation, assigned=assigned))
    ledger.set_target_epoch(classic.generation)
    group.activate(now)
    return [*classic.tombstones(), *ledger.written()]


def _upgraded(one: ClassicMember) -> Member:
    """:raise DecodeError: it is no consumer."""
    if not one.protocols:
        raise DecodeError("it supports no protocol")
    subscription = read_subscription(one.protocols[0][1])
    return Member(
        member_id=one.member_id,
        instance_id=one.instance_id,
        rack_id=subscription.rack_id,
        client_id=one.client_id,
        client_host=one.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=one.rebalance_timeout_ms,
        classic=ClassicProtocols(one.session_timeout_ms, one.protocols),
    )


def downgraded(group: ConsumerGroup, now_ms: int) -> tuple[list[Change], GroupMetadataValue]:
    """
    The records that make a classic group of one whose members all speak the classic protocol, and the last of them.
    """
    ledger = group.ledger
    classics = [(member, member.classic) for member in ledger.members.values() if member.classic is not None]
    names = [name for name, _ in classics[0][1].protocols]
    protocol = next((n for n in names if all(n in dict(classic.protocols) for _, classic in classics)), names[0])
    # The last member to go has made the group's epoch grow, but nobody was moved to it: members are in that of their
    # targets, and may commit in it until they join again.
    generation = ledger.target_epoch or ledger.epoch or 0
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
                    ledger.position(member.member_id).assigned, group.topics, version_of(classic.protocols[0][1])
                ),
            )
            for member, classic in classics
        ],
    )
    return [*ledger.tombstones(), (GroupMetadataKey(group=group.group_id), value)], value


def _refused(classic: ClassicGroup, why: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"the group {classic.group_id!r} stays a classic one: {why}")
