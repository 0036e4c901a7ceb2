"""
Computes a member's next step towards its target (KIP-848, "Reconciliation"; Kafka: CurrentAssignmentBuilder). Pure.

Each member is reconciled by its own heartbeats, and does not wait for the slowest member::

    next step                                      state                    epoch
    =============================================  =======================  ===============
    revoke partitions that are not in its target   UNREVOKED_PARTITIONS     the one it had
    wait for partitions that other members hold    UNRELEASED_PARTITIONS    the target's
    none                                           STABLE                   the target's

A member gets a partition only when no member holds it, and holds a partition until it has confirmed its revocation. So
a partition never has two owners, whatever the order of heartbeats.
"""

from __future__ import annotations

from collections.abc import Callable

from logbus.coordination.assignment_epochs import epochs_of
from logbus.coordination.consumer.consumer_group_member import MemberPosition, MemberState
from logbus.coordination.consumer.partition_sets import (
    NO_PARTITIONS,
    Partitions,
    TopicId,
    difference,
    from_pairs,
    intersection,
    is_subset,
    pairs,
    union,
)
from logbus.errors import ApiError, ErrorCode

IsFree = Callable[[TopicId, int], bool]
"""Whether no other member holds a partition."""


def reconcile(
    position: MemberPosition, target_epoch: int, target: Partitions, owned: Partitions | None, is_free: IsFree
) -> MemberPosition:
    """
    The position after a heartbeat.

    :param owned: the partitions that the member reports as owned; None: unchanged.
    :raise ApiError: FENCED_MEMBER_EPOCH: it must join again, see :attr:`MemberState.UNKNOWN`.
    """
    match position.state:
        case MemberState.STABLE:
            # While a new target has to wait, the present one may lose topics that the member has left out.
            if position.epoch == target_epoch and is_subset(position.assigned, target):
                return position
            epoch = position.epoch
        case MemberState.UNREVOKED_PARTITIONS:
            if still_owned(position.revoking, owned):
                return position
            # It has revoked what this epoch required. Its target may have changed since, and require more.
            epoch = min(position.epoch + 1, target_epoch)
        case MemberState.UNRELEASED_PARTITIONS:
            epoch = position.epoch
        case _:
            if owned is None or owned:
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "the state of the member is one of a later release: it must give up everything and join again",
                )
            epoch = target_epoch
    return _advance(position, epoch, target_epoch, target, owned, is_free)


def still_owned(partitions: Partitions, owned: Partitions | None) -> bool:
    """Whether the member may still own some of these partitions; True if it did not report what it owns."""
    return bool(partitions) and (owned is None or bool(intersection(partitions, owned)))


def _advance(
    position: MemberPosition,
    epoch: int,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: IsFree,
) -> MemberPosition:
    kept = intersection(position.assigned, target)
    revoking = difference(position.assigned, kept)
    if still_owned(revoking, owned):
        since = epochs_of(pairs(position.assigned), position.since)
        return MemberPosition(epoch, position.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking, since)
    missing = difference(target, kept)
    available = (
        from_pairs(partition for partition in pairs(missing) if is_free(*partition)) if missing else NO_PARTITIONS
    )
    state = MemberState.STABLE if available == missing else MemberState.UNRELEASED_PARTITIONS
    if not available and (state, target_epoch, kept) == (position.state, position.epoch, position.assigned):
        return position
    since = epochs_of(pairs(kept), position.since)
    since.update(dict.fromkeys(pairs(available), target_epoch))
    return MemberPosition(target_epoch, position.epoch, state, union(kept, available), since=since)
