"""
What a follower does with its log when the leader's answer says that the two differ.  Pure.

The leader answers a fetch with the point of divergence: the largest epoch at most that of the follower's last record
that it knows, and where that ends (KIP-101, KIP-279, KIP-595).  The follower cuts where both are sure to agree, and
asks again from there: each round it has fewer epochs that the leader does not have, so it ends.

*Never below the high watermark.*  Who is elected cleanly has everything that is committed, so no point of divergence
lies below a follower's high watermark.  If one does all the same, either an unclean election gave committed records up
(the state says in which epoch), or something is wrong: a leader that lost its disk, a metadata store set back to an
old state, a defect.  After an unclean election the follower cuts: keeping what the partition gave up would only keep
the follower out.  Otherwise it refuses, reports to the controller that the leader is incomplete
(:mod:`.replicareports`), and stays out of the in-sync replicas with its log as it is: it may hold the
last copy of what was acknowledged, and a person can still decide (an unclean election in its favour, or its removal).
An unclean election counts only if it came after the records in question: an epoch higher than theirs.
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
    """Cut off the records from ``offset`` on; ``gives_up``: of those that were committed, too."""

    offset: int
    gives_up: bool = False


@frozen
class RestartAt:
    """Drop all records and begin anew at ``offset``; ``gives_up``: committed ones, that the leader does not have."""

    offset: int
    gives_up: bool = False


@frozen
class RefuseToFollow:
    """Leave the log as it is, and do not follow this leader."""

    reason: str


@frozen
class RetryLater:
    """Nothing can be done now; ask again later."""

    reason: str


TruncationStep: TypeAlias = TruncateTo | RestartAt | RefuseToFollow | RetryLater


def after_divergence(own: FollowerLog, diverging: OffsetAndEpoch) -> TruncationStep:
    """
    The leader says where the two logs part.

    :param diverging: the largest epoch that the leader knows up to the one that was asked for, and its end there.
    """
    ours = own.epochs.end_offset_for(diverging.epoch, own.end_offset)
    if ours.epoch == NO_EPOCH:
        # The leader's epoch is later than all of ours, or no epoch at all: its end is what there is to go by.
        offset = diverging.offset
    elif ours.epoch == diverging.epoch:
        # Both have the epoch: up to where the shorter of the two ends they are one.
        offset = min(ours.offset, diverging.offset)
    else:
        # We do not have the leader's epoch: what we have from before it may be the leader's. The next answer tells.
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
    The leader does not have the end of our log, which is where we wanted to go on.

    :param leaders_start: where its log begins; −1 if it did not say.
    """
    if leaders_start > own.end_offset:
        # Retention, or a request to delete records, took what we lack: nothing is lost that was not given up.
        return RestartAt(leaders_start)
    if leaders_start < 0 or own.start_offset < own.end_offset:
        return RetryLater("the leader does not know the end of our log, and does not say where the two part")
    # Ours is empty, and begins behind the end of the leader's.
    return _restarted(own, leaders_start)


def _restarted(own: FollowerLog, offset: int) -> TruncationStep:
    refusal, gives_up = _below_high_watermark(own, offset)
    return refusal or RestartAt(offset, gives_up)


def _below_high_watermark(own: FollowerLog, offset: int) -> tuple[RefuseToFollow | None, bool]:
    """Why a cut at ``offset`` must not be, and whether it takes committed records."""
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
