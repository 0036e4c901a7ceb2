"""
The role of a replica, leader or follower, and the checks of requests against it. Pure.
"""

from __future__ import annotations

from attrs import define

from logbus.errors import ApiError, ErrorCode
from logbus.model import NO_EPOCH, LeaderAndIsr, TopicPartition

NO_LEADER = LeaderAndIsr(leader=-1, leader_epoch=NO_EPOCH, isr=())


@define(eq=False)
class Role:
    """
    Role, leader epoch and high watermark of one replica.

    :ivar broker_id: of this broker.
    :ivar leader_and_isr: the stored state, as far as this broker knows it.
    :ivar in_doubt: whether another broker may lead by now: requests for the leader are refused then.
    :ivar high_watermark: the first offset not known to be on every in-sync replica; consumers stop before it.
    :ivar replicas: broker ids, the preferred leader first.
    :ivar min_insync_replicas: of the topic; a partition with fewer replicas is held to their number.
    """

    topic_partition: TopicPartition
    broker_id: int
    leader_and_isr: LeaderAndIsr = NO_LEADER
    is_leader: bool = False
    in_doubt: bool = False
    leader_epoch: int = NO_EPOCH
    log_end_offset: int = 0
    high_watermark: int = 0
    replicas: tuple[int, ...] = ()
    min_insync_replicas: int = 1

    @property
    def has_enough_replicas(self) -> bool:
        """
        Whether enough replicas are in sync for the topic's ``min.insync.replicas``.

        While the controller keeps replicas outside the ISR as eligible leaders (KIP-966), there are too few, whatever
        the minimum here: the controller and this broker may learn of a new minimum at different times.
        """
        return self.confirmed_replicas >= self.enough_replicas and not self.leader_and_isr.eligible

    @property
    def confirmed_replicas(self) -> int:
        """The number of in-sync replicas, as far as known."""
        return len(self.leader_and_isr.isr)

    @property
    def enough_replicas(self) -> int:
        """The number of in-sync replicas that the topic demands."""
        return min(self.min_insync_replicas, len(self.replicas))

    def learn_high_watermark(self, leaders_high_watermark: int, log_end_offset: int) -> bool:
        """
        As follower: take over the leader's high watermark; the log ends at ``log_end_offset`` now.

        :return: whether the high watermark moved; it never goes back, since a new leader's may be behind for a while.
        """
        self.log_end_offset = log_end_offset
        committed = min(leaders_high_watermark, log_end_offset)
        if self.is_leader or committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True

    def truncated(self, log_end_offset: int, log_start_offset: int = 0) -> None:
        """As follower: the log was truncated; the high watermark goes back with it."""
        self.log_end_offset = log_end_offset
        self.high_watermark = max(log_start_offset, min(self.high_watermark, log_end_offset))

    # Checks of requests.

    def check_leader(self, current_epoch: int = NO_EPOCH) -> None:
        """
        Refuse a request for the leader of ``current_epoch``, unless this is it (KIP-320).

        :param current_epoch: the leader epoch in the request; −1: no check.
        :raise ApiError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER.
        """
        self.check_epoch(current_epoch)
        if not self.is_leader:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self.topic_partition} is led by broker {self.leader_and_isr.leader}, not by {self.broker_id}",
            )
        if self.in_doubt:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {self.broker_id} is cut off: perhaps another one leads {self.topic_partition} by now",
            )

    def check_epoch(self, current_epoch: int) -> None:
        """
        Refuse a request with another leader epoch than this replica's (−1: no check).

        :raise ApiError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
        """
        if current_epoch not in (NO_EPOCH, self.leader_epoch):
            older = current_epoch < self.leader_epoch
            raise ApiError(
                ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self.topic_partition} is at leader epoch {self.leader_epoch}, the request at {current_epoch}",
            )

    def check_enough_replicas(self, code: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        """
        Refuse an append with ``acks=all`` while fewer than ``min.insync.replicas`` are in sync.

        :param code: of the error.
        :raise ApiError: with that code.
        """
        if not self.has_enough_replicas:
            state = self.leader_and_isr
            waits = f", while brokers {list(state.eligible)} may still lead" if state.eligible else ""
            raise ApiError(
                code,
                f"{self.topic_partition} has {len(state.isr)} replicas in sync, and needs "
                f"{self.enough_replicas}{waits}",
            )
