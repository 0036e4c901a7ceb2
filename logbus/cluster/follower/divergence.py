"""
Decides how a follower truncates its log when it diverges from the leader's (KIP-101, KIP-279, KIP-595).  Pure.

The leader answers a fetch with the point of divergence: of the epochs up to that of the follower's last record, the
largest that it has, and its end offset.  The follower truncates to where both logs certainly agree, and fetches again
from there.  Each round it has fewer epochs that the leader lacks, so this ends.

*Never below the high watermark.*  A cleanly elected leader has every committed record, so no point of divergence lies
below a follower's high watermark.  If one does, either an unclean election gave up committed records (the partition's
state has its epoch), or there is a fault: a leader that lost its disk, a metadata store set back to an old state, a
defect.  After an unclean election the follower truncates: the partition gave those records up, and keeping them would
only keep the follower out of the ISR.  Otherwise it refuses, reports to the controller that the leader is incomplete
(:mod:`logbus.cluster.replication.replica_reports`), and stays out of the ISR with its log as it is: that may be the
last copy of acknowledged records, and an operator can still decide (an unclean election in its favour, or its removal).
An unclean election counts only if it came after the records in question: its epoch is higher than theirs.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from logbus.model import NO_EPOCH, OffsetAndEpoch
from logbus.storage.leader_epoch_cache import LeaderEpochCache


@frozen
class FollowerLog:
    """
    A follower's log.

    :ivar high_watermark: the first offset that the follower does not know to be committed.
    :ivar unclean_epoch: the leader epoch that the last unclean election began, −1: none.
    """

    start_offset: int
    end_offset: int
    high_watermark: int
    epochs: LeaderEpochCache
    unclean_epoch: int = NO_EPOCH


@frozen
class TruncateTo:
    """Remove the records from ``offset`` on; ``gives_up``: committed ones, too."""

    offset: int
    gives_up: bool = False


@frozen
class RestartAt:
    """Remove all records and restart the log at ``offset``; ``gives_up``: committed ones that the leader lacks."""

    offset: int
    gives_up: bool = False


@frozen
class RefuseToFollow:
    """Leave the log as it is, and do not follow this leader."""

    reason: str


@frozen
class RetryLater:
    """Nothing can be done now; fetch again later."""

    reason: str


TruncationStep: TypeAlias = TruncateTo | RestartAt | RefuseToFollow | RetryLater


def after_divergence(own: FollowerLog, diverging: OffsetAndEpoch) -> TruncationStep:
    """
    The leader's answer has a point of divergence.

    :param diverging: the largest epoch that the leader has, up to the one in the fetch, and its end offset.
    """
    ours = own.epochs.end_offset_for(diverging.epoch, own.end_offset)
    if ours.epoch == NO_EPOCH:
        # The leader's epoch is later than all of ours, or none at all: only its end offset counts.
        offset = diverging.offset
    elif ours.epoch == diverging.epoch:
        # Both have the epoch: they agree up to the lower of the two end offsets.
        offset = min(ours.offset, diverging.offset)
    else:
        # The follower lacks the leader's epoch: its records before that may agree with the leader's. Ask again.
        offset = ours.offset
    if offset < 0:
        return RetryLater(f"the leader names no offset for epoch {diverging.epoch}")
    if offset >= own.end_offset:
        return RetryLater(
            f"the leader's log is said to part at {offset}, where ours of {own.end_offset} does not reach"
        )
    if offset <= own.start_offset:
        return _restarted(own, offset)
    refusal, gives_up = _below_high_watermark(own, offset)
    return refusal or TruncateTo(offset, gives_up)


def after_out_of_range(own: FollowerLog, leaders_start: int) -> TruncationStep:
    """
    The leader's log does not contain the end offset of the follower's log.

    :param leaders_start: the leader's log start offset; −1 if it is not in the answer.
    """
    if leaders_start > own.end_offset:
        # Retention, or a DeleteRecords request, removed the records that the follower lacks: nothing is lost.
        return RestartAt(leaders_start)
    if leaders_start < 0 or own.start_offset < own.end_offset:
        return RetryLater("the leader does not know the end of our log, and does not say where the two part")
    # The follower's log is empty, and starts behind the end of the leader's.
    return _restarted(own, leaders_start)


def _restarted(own: FollowerLog, offset: int) -> TruncationStep:
    refusal, gives_up = _below_high_watermark(own, offset)
    return refusal or RestartAt(offset, gives_up)


def _below_high_watermark(own: FollowerLog, offset: int) -> tuple[RefuseToFollow | None, bool]:
    """The reason why a truncation to ``offset`` is refused, and whether it removes committed records."""
    if offset >= own.high_watermark:
        return None, False
    committed_in = own.epochs.epoch_at(own.high_watermark - 1)
    if own.unclean_epoch > committed_in:
        return None, True
    return (
        RefuseToFollow(
            f"the leader's log parts from ours at {offset}, but everything below {own.high_watermark} is committed"
            f" (epoch {committed_in}), and no unclean election came after it"
        ),
        False,
    )
