"""The rules of replication, each of which can be left out, and the bounds of a search."""

from __future__ import annotations

from attrs import frozen


@frozen
class Rules:
    """
    What brokers and controller keep to. True throughout: the rules as they are; each False is an ablation.

    :ivar epoch_stamped: a leader stamps its epoch into what it appends.
    :ivar current_epoch_checked: a leader serves only fetches of its own epoch, and counts no other.
    :ivar epoch_start_covered: the high watermark moves only once it covers the start of the leader's epoch.
    :ivar divergence_found: a leader compares the epoch of the follower's last record with its own history,
        at each fetch.
    :ivar divergence_kept: ... not only at the first fetch of an epoch (KIP-279 without KIP-320).
    :ivar divergence_by_epoch: a follower cuts by epoch and offset, again and again until both agree (KIP-279), not once
        and by offset alone (KIP-101).
    :ivar cut_by_divergence: a new follower cuts nothing on its own, such as what is above its high watermark.
    :ivar answers_checked: a follower drops the answer to a fetch that it sent in another epoch, or from another offset.
    :ivar maximal_isr: replicas in an unanswered request to join the ISR count as its members.
    :ivar unknown_kept: ... until a later version of the state is seen, not only until the state was read again.
    :ivar join_at_high_watermark: who joins the ISR has reached the high watermark;
        ``join_at_epoch_start``: and the start of the leader's epoch.
    :ivar compare_and_set: the ISR is changed only in the version and epoch that the leader knows.
    :ivar lives_compared: a replica joins the ISR only in the life in which it has fetched; fetches of a former one are
        refused (KIP-903).
    :ivar strict_minimum: the high watermark stands still while the ISR is below the minimum.
    :ivar eligible_kept: who leaves an ISR below the minimum stays eligible (KIP-966);
        ``eligible_cleared``: until the minimum is reached again.
    :ivar unclean_not_electable: who comes back after an unclean stop is neither in the ISR nor eligible, while others
        are; with nobody else it waits for all who may have more (KIP-966);
        ``longest_elected``: of these the one with the longest log is elected.
    :ivar restart_renews_epoch: a leader that restarted leads only in a new epoch.
    :ivar old_announcements_refused: a role of an older epoch is not taken.
    :ivar controller_fenced: a controller that was deposed writes nothing.
    :ivar synced_fetched: with flush before ack, a follower fetches on only from what it has synced;
        ``leader_synced``: and the high watermark counts of the leader what it has synced.
    :ivar slow_leave: a follower that does not fetch leaves the ISR.
    """

    epoch_stamped: bool = True
    current_epoch_checked: bool = True
    epoch_start_covered: bool = True
    divergence_found: bool = True
    divergence_kept: bool = True
    divergence_by_epoch: bool = True
    cut_by_divergence: bool = True
    answers_checked: bool = True
    maximal_isr: bool = True
    unknown_kept: bool = True
    join_at_high_watermark: bool = True
    join_at_epoch_start: bool = True
    compare_and_set: bool = True
    lives_compared: bool = True
    strict_minimum: bool = True
    eligible_kept: bool = True
    eligible_cleared: bool = True
    unclean_not_electable: bool = True
    longest_elected: bool = True
    restart_renews_epoch: bool = True
    old_announcements_refused: bool = True
    controller_fenced: bool = True
    synced_fetched: bool = True
    leader_synced: bool = True
    slow_leave: bool = True


@frozen
class Scope:
    """
    How far a search goes.

    :ivar records: the length of a log; ``epochs``: leader epochs, the first included.
    :ivar delayed: requests and answers that are on their way at once, to arrive at any time or never.
    :ivar lossy: an answer to a fetch may be lost.
    :ivar asked: requests to change the ISR under way at once; 0: only elections change it.
    :ivar kills: how often a process ends, and keeps its log; ``cuts``: how often a machine loses power.
    :ivar lies: how often a process ends, and its disk loses what was synced.
    :ivar prompt: who is elected hears of it at once.
    :ivar flush: the topic's ``flush.before.ack``.
    """

    records: int = 3
    epochs: int = 3
    replicas: int = 3
    minimum: int = 2
    delayed: int = 0
    lossy: bool = False
    asked: int = 0
    kills: int = 0
    cuts: int = 0
    lies: int = 0
    flush: bool = False
    prompt: bool = False
