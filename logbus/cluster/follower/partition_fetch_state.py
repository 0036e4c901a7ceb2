"""
The fetch state of one partition that this broker follows (Kafka: PartitionFetchState).
"""

from __future__ import annotations

from attrs import define, field
from twisted.internet.defer import Deferred, succeed

from logbus.cluster.follower.divergence import FollowerLog
from logbus.cluster.follower.fetch_session_handler import FetchPosition, Key
from logbus.cluster.replication.replica import Replica
from logbus.model import NO_EPOCH, TopicPartition
from logbus.timers import Timer

FIRST_RETRY_SECONDS = 0.05
"""Seconds until the first retry; each one after it waits twice as long, up to the setting."""


def retry_delay(failures: int, longest: float) -> float:
    """Seconds to wait after a number of failures in a row."""
    return min(longest, FIRST_RETRY_SECONDS * (1 << min(failures - 1, 20)))


@define(eq=False)
class PartitionFetchState:
    """
    A replica that is fetched from its leader.

    :ivar key: topic id and partition number, as in fetch requests.
    :ivar leader_epoch: the epoch in which it follows; each epoch has its own object.
    :ivar unclean_epoch: the leader epoch that the last unclean election began.
    :ivar lag: committed records that it lacked at the leader's last answer; −1: there was none.
    :ivar failures: in a row.
    :ivar problem: the present error, for people; empty without one.
    :ivar is_truncating: the log is being truncated; nothing may be appended.
    :ivar ended: it is not followed any more; answers still under way are ignored.
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
    key: Key = field(init=False)
    _waiting: list[Deferred[None]] = field(factory=list, init=False)

    @key.default
    def _key_of_replica(self) -> Key:
        return self.replica.topic_id.bytes, self.name.partition

    @property
    def name(self) -> TopicPartition:
        """Which partition it is."""
        return self.replica.topic_partition

    @property
    def is_synced(self) -> bool:
        """Whether the log is synced as far as a fetch from its end would acknowledge."""
        log = self.replica.log
        return not log.config.flush_before_ack or log.flushed_end_offset >= log.log_end_offset

    def ask(self) -> FetchPosition:
        """The next position to fetch."""
        log = self.replica.log
        return FetchPosition(log.log_end_offset, self.leader_epoch, log.epochs.latest, log.log_start_offset)

    def is_at(self, ask: FetchPosition) -> bool:
        """Whether the log still ends where it did when this was asked."""
        log = self.replica.log
        return (
            log.log_end_offset == ask.offset
            and self.leader_epoch == ask.leader_epoch
            and log.epochs.latest == ask.last_epoch
        )

    def own(self) -> FollowerLog:
        """The log's offsets and epochs, for a decision about truncation."""
        log = self.replica.log
        return FollowerLog(
            log.log_start_offset, log.log_end_offset, self.replica.high_watermark, log.epochs, self.unclean_epoch
        )

    def end(self) -> Deferred[None]:
        """Stop following; fires once nothing changes the log any more."""
        self.ended = True
        if self.pause is not None:
            self.pause.cancel()
            self.pause = None
        if not self.is_truncating:
            return succeed(None)
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        return waiting

    def truncated(self) -> None:
        """The truncation has ended."""
        self.is_truncating = False
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.callback(None)
