"""
Computes a member's next step towards its target (KIP-1071; Kafka: CurrentAssignmentBuilder). Pure.

Each member is reconciled by its own heartbeats, and does not wait for the slowest member::

    next step                                      state                epoch
    =============================================  ===================  ===============
    give up tasks that are not in its target       UNREVOKED_TASKS      the one it had
    wait for tasks that others have                UNRELEASED_TASKS     the target's
    none                                           STABLE               the target's

A member gets an active task only when no member has it, and holds a task until it has confirmed that it gave it up. So
an active task never has two owners, whatever the order of heartbeats. And a process never has a task twice, in
whatever roles, since its threads share the directory of the task's state.
"""

from __future__ import annotations

from collections.abc import Callable

from logbus.coordination.assignment_epochs import epochs_of
from logbus.coordination.streams.streams_group_member import MemberState, StreamsPosition, Task
from logbus.coordination.streams.tasks import Tasks, TaskSets, from_pairs, pairs
from logbus.errors import ApiError, ErrorCode

IsFree = Callable[[Task, bool], bool]
"""Whether a member may have a task; the second argument: as an active one."""


def reconcile(
    position: StreamsPosition, target_epoch: int, target: TaskSets, owned: TaskSets | None, is_free: IsFree
) -> StreamsPosition:
    """
    The position after a heartbeat.

    :param owned: the tasks that the member reports as owned; None: unchanged.
    :raise ApiError: FENCED_MEMBER_EPOCH: it must join again, see :attr:`MemberState.UNKNOWN`.
    """
    match position.state:
        case MemberState.STABLE:
            if position.epoch == target_epoch:
                return position
            epoch = position.epoch
        case MemberState.UNREVOKED_TASKS:
            if still_owned(position.revoking, owned):
                return position
            # It has given up what this epoch required. Its target may have changed since, and require more.
            epoch = position.epoch + 1
        case MemberState.UNRELEASED_TASKS:
            epoch = position.epoch
        case _:
            if owned is None or not owned.is_empty:
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "the state of the member is one of a later release: it must give up everything and join again",
                )
            epoch = target_epoch
    return _advance(position, epoch, target_epoch, target, owned, is_free)


def still_owned(tasks: TaskSets, owned: TaskSets | None) -> bool:
    """Whether the member may still own some of these tasks; True if it did not report what it owns."""
    return not tasks.is_empty and (owned is None or not tasks.intersection(owned).is_empty)


def _advance(
    position: StreamsPosition,
    epoch: int,
    target_epoch: int,
    target: TaskSets,
    owned: TaskSets | None,
    is_free: IsFree,
) -> StreamsPosition:
    kept = position.assigned.intersection(target)
    revoking = position.assigned.difference(kept)
    if still_owned(revoking, owned):
        since = epochs_of(pairs(position.assigned.active), position.since)
        return StreamsPosition(epoch, position.epoch, MemberState.UNREVOKED_TASKS, kept, revoking, since)
    missing = target.difference(kept)
    available = TaskSets(
        _free(missing.active, True, is_free),
        _free(missing.standby, False, is_free),
        _free(missing.warmup, False, is_free),
    )
    state = MemberState.STABLE if available == missing else MemberState.UNRELEASED_TASKS
    if available.is_empty and (state, target_epoch, kept) == (position.state, position.epoch, position.assigned):
        return position
    since = epochs_of(pairs(kept.active), position.since)
    since.update(dict.fromkeys(pairs(available.active), target_epoch))
    return StreamsPosition(target_epoch, position.epoch, state, kept.union(available), since=since)


def _free(tasks: Tasks, active: bool, is_free: IsFree) -> Tasks:
    return from_pairs(task for task in pairs(tasks) if is_free(task, active)) if tasks else {}
