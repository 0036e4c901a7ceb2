"""
One replica of a partition, as the replication rules see it.

Pure: it is told what happened (a role was given, the log grew) and says what follows (whether the high watermark
moved, whether a request's leader epoch is acceptable).  :mod:`logbus.cluster.replicas` moves the bytes.
"""

from __future__ import annotations

from attrs import define

from logbus.errors import ApiError, ErrorCode
from logbus.model import NO_EPOCH, LeaderAndIsr, TopicPartition

NO_LEADER = LeaderAndIsr(leader=-1, leader_epoch=NO_EPOCH, isr=())


@define(eq=False)
class Partition:
    """
    Role, leader epoch and high watermark of one replica.

    Invariant: ``high_watermark <= log_end_offset``, and the high watermark never goes back within an epoch.

    :ivar broker_id: the broker this replica lives on.
    :ivar high_watermark: the first offset not known to be on every in-sync replica; readers stop before it.
    """

    topic_partition: TopicPartition
    broker_id: int
    leader_and_isr: LeaderAndIsr = NO_LEADER
    is_leader: bool = False
    leader_epoch: int = NO_EPOCH
    log_end_offset: int = 0
    high_watermark: int = 0

    def take(self, given: LeaderAndIsr, log_end_offset: int) -> bool:
        """
        Take the role the controller gives.

        :return: whether anything changed; an older epoch than ours changes nothing (cluster.md, fencing 5).
        """
        if given.leader_epoch < self.leader_epoch or given == self.leader_and_isr:
            return False
        self.leader_and_isr = given
        self.leader_epoch = given.leader_epoch
        self.is_leader = given.leader == self.broker_id
        self.grown(log_end_offset)
        return True

    def grown(self, log_end_offset: int) -> bool:
        """The log now ends at ``log_end_offset``; say whether the high watermark moved with it."""
        self.log_end_offset = log_end_offset
        if self.is_leader and self.leader_and_isr.isr == (self.broker_id,) and log_end_offset > self.high_watermark:
            self.high_watermark = log_end_offset
            return True
        return False

    def heard(self, leaders_high_watermark: int, log_end_offset: int) -> bool:
        """
        As follower: the leader said what is committed, and the log ends at ``log_end_offset`` now.

        :return: whether the high watermark moved; it never goes back, as the leader's may be behind for a while.
        """
        self.log_end_offset = log_end_offset
        committed = min(leaders_high_watermark, log_end_offset)
        if self.is_leader or committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True

    def cut(self, log_end_offset: int) -> None:
        """As follower: the log was truncated. What is gone is not committed, whatever was thought of it."""
        self.log_end_offset = log_end_offset
        self.high_watermark = min(self.high_watermark, log_end_offset)

    def check_leader(self, current_epoch: int = NO_EPOCH) -> None:
        """
        Refuse what only the leader of ``current_epoch`` may serve (KIP-320).

        :param current_epoch: the epoch the client believes in; −1 asks for no check.
        :raise ApiError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER.
        """
        if current_epoch not in (NO_EPOCH, self.leader_epoch):
            older = current_epoch < self.leader_epoch
            raise ApiError(
                ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self.topic_partition} is at leader epoch {self.leader_epoch}, the request at {current_epoch}",
            )
        if not self.is_leader:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self.topic_partition} is led by broker {self.leader_and_isr.leader}, not by {self.broker_id}",
            )
