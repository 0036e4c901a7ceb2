"""
One partition that this broker follows: what to ask its leader for, and where it stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field
from twisted.internet.defer import Deferred, succeed

from logbus.cluster.follower.divergence import FollowerLog
from logbus.cluster.follower.fetch_session_handler import FetchPosition, Key
from logbus.model import NO_EPOCH, TopicPartition
from logbus.timers import Timer

if TYPE_CHECKING:
    from logbus.cluster.replication.replica_manager import Replica

FIRST_RETRY_SECONDS = 0.05
"""Seconds until the first repetition of what failed; each one after it waits twice as long, up to the setting."""


def retry_delay(failures: int, longest: float) -> float:
    """Seconds to wait after that many failures in a row."""
    return min(longest, FIRST_RETRY_SECONDS * (1 << min(failures - 1, 20)))


@define(eq=False)
class PartitionFetchState:
    """
    A replica, and its part in the fetches from its leader.

    :ivar leader_epoch: in which it follows; another epoch is another object.
    :ivar unclean_epoch: the leader epoch that the last unclean election began.
    :ivar lag: committed records that it lacked when the leader last answered; −1: it has not answered.
    :ivar failures: in a row.
    :ivar problem: why it does not get on, for people; empty while it does.
    :ivar is_truncating: the log is being truncated; nothing may be appended.
    :ivar ended: it is not followed any more; what is still under way does not count.
    """

    replica: Replica
    leader_epoch: int
    unclean_epoch: int = NO_EPOCH
    lag: int = field(default=-1, init=False)
    failures: int = field(default=0, init=False)
    problem: str = field(default="", init=False)
    is_flushing: bool = field(default=False, init=False)
    is_truncating: bool = field(default=False, init=False)
    ended: bool = field(default=False, init=False)
    pause: Timer | None = field(default=None, init=False)
    due: float = field(default=0.0, init=False)
    _waiting: list[Deferred[None]] = field(factory=list, init=False)

    @property
    def name(self) -> TopicPartition:
        """Which partition it is."""
        return self.replica.topic_partition

    @property
    def key(self) -> Key:
        """What the leader knows it by."""
        return self.replica.topic_id.bytes, self.name.partition

    @property
    def is_synced(self) -> bool:
        """Whether a fetch from the log's end, which says that all before it is here, says the truth."""
        log = self.replica.log
        return not log.config.flush_before_ack or log.flushed_end_offset >= log.log_end_offset

    def ask(self) -> FetchPosition:
        """What comes next."""
        log = self.replica.log
        return FetchPosition(log.log_end_offset, self.leader_epoch, log.epochs.latest, log.log_start_offset)

    def own(self) -> FollowerLog:
        """The log, for those who decide over it."""
        log = self.replica.log
        return FollowerLog(
            log.log_start_offset, log.log_end_offset, self.replica.high_watermark, log.epochs, self.unclean_epoch
        )

    def end(self) -> Deferred[None]:
        """Follow no more; fires once nobody changes the log any more."""
        self.ended = True
        if self.pause is not None:
            self.pause.cancel()
            self.pause = None
        if not self.is_truncating:
            return succeed(None)
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        return waiting

    def cut(self) -> None:
        """The truncation is over."""
        self.is_truncating = False
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.callback(None)
