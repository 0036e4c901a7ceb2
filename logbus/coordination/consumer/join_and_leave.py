"""
Finds, adds and replaces members of a consumer group for a request (KIP-848; KIP-345 for static members). Pure.
"""

from __future__ import annotations

from attrs import evolve

from logbus.coordination.assignment_epochs import epochs_of
from logbus.coordination.consumer.consumer_group_member import (
    AWAY,
    JOINING,
    ConsumerGroupMember,
    MemberPosition,
)
from logbus.coordination.consumer.heartbeat import ConsumerHeartbeat
from logbus.coordination.consumer.partition_sets import NO_PARTITIONS, is_subset, pairs
from logbus.coordination.consumer.recorded_state import RecordedState
from logbus.errors import ApiError, ErrorCode


def find(recorded: RecordedState, member_id: str, instance_id: str | None) -> ConsumerGroupMember:
    """
    The member that a request names.

    :raise ApiError: UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID: another member has taken over the instance id.
    """
    if instance_id is not None:
        holder = recorded.instances.get(instance_id)
        if holder is None:
            raise _unknown(recorded, f"with the instance id {instance_id!r}")
        if holder != member_id:
            raise ApiError(
                ErrorCode.FENCED_INSTANCE_ID, f"the instance id {instance_id!r} is another member's now: {holder}"
            )
    member = recorded.members.get(member_id)
    if member is None:
        raise _unknown(recorded, repr(member_id))
    return member


def stay(recorded: RecordedState, heartbeat: ConsumerHeartbeat) -> ConsumerGroupMember:
    """
    The member that sent a heartbeat, if the epoch is its present one.

    The previous epoch is accepted if all partitions that the member owns are still assigned to it: it has missed a
    response.

    :raise ApiError: as :func:`find`, and FENCED_MEMBER_EPOCH: it must give up all partitions and join again.
    """
    member = find(recorded, heartbeat.member_id, heartbeat.instance_id)
    position = recorded.position(heartbeat.member_id)
    if heartbeat.epoch != position.epoch:
        missed_an_answer = (
            heartbeat.epoch == position.previous_epoch < position.epoch
            and heartbeat.owned is not None
            and is_subset(heartbeat.owned, position.assigned)
        )
        if not missed_an_answer:
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"the member {heartbeat.member_id} is in epoch {position.epoch}, not in {heartbeat.epoch}",
            )
    return member


def join(
    recorded: RecordedState, member_id: str, instance_id: str | None, *, classic: bool, max_size: int
) -> ConsumerGroupMember:
    """
    The member that joins: a new one, one that joins again, or one that replaces a static member.

    A member that joins owns nothing, so the partitions that a member with this id held become free.

    :param classic: whether it uses the classic protocol, in which an instance id can always be taken over.
    :raise ApiError: UNRELEASED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED.
    """
    holder = None if instance_id is None else recorded.instances.get(instance_id)
    if holder is not None and holder != member_id:
        return _take_over(recorded, holder, member_id, classic=classic)
    member = recorded.members.get(member_id)
    if member is None:
        if len(recorded.members) >= max_size:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"the group {recorded.group_id!r} has {max_size} members: the most it may",
            )
        return ConsumerGroupMember(member_id, instance_id)
    position = recorded.position(member_id)
    if not classic and position.epoch != JOINING and position.previous_epoch != JOINING:
        recorded.set_position(member_id, MemberPosition())
    return member


def _take_over(recorded: RecordedState, holder: str, member_id: str, *, classic: bool) -> ConsumerGroupMember:
    old, position = recorded.members[holder], recorded.position(holder)
    if not classic and old.classic is None and position.epoch != AWAY:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID, f"the instance id {old.instance_id!r} is in use by the member {holder}"
        )
    if member_id in recorded.members:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the member {member_id} is in the group, with another instance id")
    target = recorded.targets.get(holder, NO_PARTITIONS)
    recorded.remove(holder)
    member = evolve(old, member_id=member_id)
    recorded.set_member(member_id, member)
    recorded.set_target(member_id, target)
    # It keeps the assigned partitions; those being revoked are revoked, since a new process reads nothing yet.
    recorded.set_position(
        member_id,
        MemberPosition(assigned=position.assigned, since=epochs_of(pairs(position.assigned), position.since)),
    )
    return member


def leave_temporarily(recorded: RecordedState, member: ConsumerGroupMember) -> None:
    """Let a static member leave temporarily: it keeps its partitions until its session ends."""
    position = recorded.position(member.member_id)
    # As in Kafka, it is not known any more since when it has them.
    away = MemberPosition(
        AWAY, position.epoch, assigned=position.assigned, since=epochs_of(pairs(position.assigned), {})
    )
    recorded.set_position(member.member_id, away)


def _unknown(recorded: RecordedState, who: str) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"the group {recorded.group_id!r} has no member {who}")
