"""
The state of a share partition with its records: decides what is written, and applies it (Kafka: ShareCoordinatorShard).
Pure.

A state begins with a snapshot. Then only changes are written, until there are so many that another snapshot is due.
"""

from __future__ import annotations

from attrs import evolve, frozen

from logbus.coordination.share_state.batch_merge import merge_batches
from logbus.coordination.share_state.share_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    UNKNOWN_COUNT,
    LogEpochs,
    ShareState,
    StateBatch,
)
from logbus.errors import ApiError, ErrorCode
from logbus.model import NO_EPOCH, NO_OFFSET

_STATES = frozenset({AVAILABLE, ACKNOWLEDGED, ARCHIVED})


@frozen
class Snapshot:
    """
    A record of a whole state.

    :ivar snapshot_epoch: one more than that of the snapshot before.
    :ivar created_ms: when the state was first written, in ms since 1970; ``written_ms``: when it was now.
    """

    snapshot_epoch: int
    state: ShareState
    created_ms: int
    written_ms: int


@frozen
class Update:
    """
    A record of a change since the snapshot with that epoch.

    :ivar leader_epoch: −1: unchanged; ``start_offset``: likewise.
    :ivar delivery_complete_count: after the change.
    """

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...] = ()


@frozen
class RecordedState:
    """
    A state, and its records so far.

    :ivar snapshot: the last one.
    :ivar updates: number of updates since.
    """

    snapshot: Snapshot
    state: ShareState
    updates: int = 0


@frozen
class StateChange:
    """What the leader of a share partition wants written: see :meth:`.SharePersister.write`."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


# Decisions.


def initialize(now: RecordedState | None, state_epoch: int, start_offset: int, now_ms: int) -> Snapshot | None:
    """
    Decide on the first record of a state; None: it is initialized already.

    A request with the same state epoch may be a late repetition, so that it must not undo what was written meanwhile.
    No leader has claimed the new state: those of the state before must read it, too, before they write.

    :raise ApiError: INVALID_REQUEST, FENCED_STATE_EPOCH: there is a state with a higher epoch.
    """
    if state_epoch < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the state epoch {state_epoch} is negative")
    count = UNKNOWN_COUNT if start_offset == NO_OFFSET else 0
    state = ShareState(state_epoch, NO_EPOCH, start_offset, (), count)
    if now is None:
        return Snapshot(0, state, now_ms, now_ms)
    if state_epoch < now.state.state_epoch:
        raise _fenced(ErrorCode.FENCED_STATE_EPOCH, "state", state_epoch, now.state.state_epoch)
    if state_epoch == now.state.state_epoch:
        return None
    return snapshot(now, state, now_ms)


def claim(
    now: RecordedState | None,
    leader_epoch: int,
    log_end_offset: int,
    most_updates: int,
    now_ms: int,
    log_epochs: LogEpochs = (),
) -> Snapshot | Update | None:
    """
    Decide on the record of a leader that reads the state, which fences the leaders before it; None: none is needed.

    A new leader's log may have lost records by an unclean election. The state then forgets them: others will have their
    offsets. Only the first claim in an epoch does that, so that one which arrives late undoes nothing.

    :param leader_epoch: −1: the reader is no leader.
    :param log_end_offset: of the leader; −1: unknown. ``log_epochs``: of its log.
    :param most_updates: between two snapshots.
    :raise ApiError: INVALID_REQUEST: there is no state; FENCED_LEADER_EPOCH.
    """
    current = _existing(now, "read")
    if NO_EPOCH < leader_epoch < current.state.leader_epoch:
        raise _fenced(ErrorCode.FENCED_LEADER_EPOCH, "leader", leader_epoch, current.state.leader_epoch)
    if leader_epoch <= current.state.leader_epoch:
        return None
    end = current.state.known_end(log_end_offset, log_epochs)
    if NO_OFFSET < end < current.state.end_offset:
        # Updates only add to a state.
        kept = evolve(current.state.truncated(end), leader_epoch=leader_epoch)
        return snapshot(current, kept, now_ms)
    epoch, count = current.snapshot.snapshot_epoch, current.state.delivery_complete_count
    return _due(current, Update(epoch, leader_epoch, NO_OFFSET, count), most_updates, now_ms)


def write(now: RecordedState | None, change: StateChange, most_updates: int, now_ms: int) -> Snapshot | Update:
    """
    Decide on the record of a change.

    :param most_updates: between two snapshots.
    :raise ApiError: INVALID_REQUEST: there is no state, or the change is not valid; FENCED_LEADER_EPOCH: the leader
        epoch is not that of the last claim, so that the writer has read another state, perhaps one of a deleted group
        of the same name; FENCED_STATE_EPOCH: the state epoch is not that of the state.
    """
    current = _existing(now, "written")
    for batch in change.batches:
        if not 0 <= batch.first_offset <= batch.last_offset or batch.delivery_state not in _STATES:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{batch} is not valid")
    if change.leader_epoch not in (NO_EPOCH, current.state.leader_epoch):
        raise _fenced(ErrorCode.FENCED_LEADER_EPOCH, "leader", change.leader_epoch, current.state.leader_epoch)
    if change.state_epoch not in (NO_EPOCH, current.state.state_epoch):
        raise _fenced(ErrorCode.FENCED_STATE_EPOCH, "state", change.state_epoch, current.state.state_epoch)
    update = Update(
        current.snapshot.snapshot_epoch,
        change.leader_epoch,
        change.start_offset,
        change.delivery_complete_count,
        merge_batches((), change.batches, change.start_offset),
    )
    return _due(current, update, most_updates, now_ms)


def snapshot(now: RecordedState, state: ShareState, now_ms: int) -> Snapshot:
    """The next snapshot of a state."""
    return Snapshot(now.snapshot.snapshot_epoch + 1, state, now.snapshot.created_ms, now_ms)


def _due(now: RecordedState, update: Update, most_updates: int, now_ms: int) -> Snapshot | Update:
    if now.updates < most_updates:
        return update
    return snapshot(now, _updated(now.state, update), now_ms)


def _existing(now: RecordedState | None, what: str) -> RecordedState:
    if now is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the share partition is {what} before it is initialized")
    return now


def _fenced(code: ErrorCode, kind: str, given: int, known: int) -> ApiError:
    return ApiError(code, f"the {kind} epoch {given} is not that of the share partition, {known}")


# Applying records.


def apply(now: RecordedState | None, record: Snapshot | Update) -> RecordedState:
    """
    The state after a record.

    An update without a snapshot, which was damaged, is applied to an empty state.
    """
    if isinstance(record, Snapshot):
        return RecordedState(record, record.state)
    if now is None:
        empty = ShareState(0, 0)
        now = RecordedState(Snapshot(record.snapshot_epoch, empty, 0, 0), empty)
    return RecordedState(now.snapshot, _updated(now.state, record), now.updates + 1)


def _updated(state: ShareState, update: Update) -> ShareState:
    start = max(state.start_offset, update.start_offset)
    # A change that is older than the state has a count of another start.
    is_late = NO_OFFSET < update.start_offset < state.start_offset
    return ShareState(
        state.state_epoch,
        max(state.leader_epoch, update.leader_epoch),
        start,
        merge_batches(state.batches, update.batches, start),
        state.delivery_complete_count if is_late else update.delivery_complete_count,
    )
