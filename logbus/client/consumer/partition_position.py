"""The fetch state of one partition (Kafka: SubscriptionState.TopicPartitionState). Pure."""

from __future__ import annotations

from typing import Literal

from attrs import define, field, frozen

from logbus.client.list_offsets import EARLIEST, LATEST
from logbus.client.retry import Backoff
from logbus.errors import LogbusError
from logbus.model import NO_EPOCH, TopicPartition

Reset = Literal["earliest", "latest", "none"]
"""Where to continue if an offset is out of range; ``none`` raises an error."""
Isolation = Literal["read_uncommitted", "read_committed"]


@frozen
class AtTime:
    """A position by time: the first record at or after it, or the end if there is none; milliseconds since 1970."""

    ms: int


Position = int | AtTime
"""An offset, :data:`~logbus.client.list_offsets.EARLIEST`, :data:`~logbus.client.list_offsets.LATEST`, or a time."""


def reset_position(reset: Reset) -> Position:
    """The position for a reset policy."""
    return EARLIEST if reset == "earliest" else LATEST


@define(eq=False)
class PartitionPosition:
    """
    A partition's position, and what has to be looked up before it can be fetched.

    :ivar wanted: the position to look up; None: it is known.
    :ivar offset: the next offset to fetch.
    :ivar epoch: the leader epoch of the record before ``offset``, −1: not known.
    :ivar delivered: the next offset to deliver, with the leader epoch before it in ``delivered_epoch``.
    :ivar high_watermark: the partition's end for consumers, as of the last fetch.
    :ivar checked: the leader epoch in which ``offset`` was last compared with the leader's log.
    :ivar paused: nothing of it is fetched or delivered.
    :ivar lost: its leader has to be looked up.
    :ivar replica: a follower to fetch from (KIP-392), until ``replica_until``; −1: the leader.
    :ivar retry_at: no request for it before that time.
    :ivar attempts: failures since the last success.
    :ivar has_error: it has an error that was not raised to the application yet.
    :ivar missing_since: when brokers first answered that there is no such partition.
    """

    partition: TopicPartition
    wanted: Position | None = field(default=None, init=False)
    offset: int = field(default=-1, init=False)
    epoch: int = field(default=NO_EPOCH, init=False)
    delivered: int = field(default=-1, init=False)
    delivered_epoch: int = field(default=NO_EPOCH, init=False)
    high_watermark: int | None = field(default=None, init=False)
    checked: int = field(default=NO_EPOCH, init=False)
    paused: bool = field(default=False, init=False)
    lost: bool = field(default=False, init=False)
    replica: int = field(default=-1, init=False)
    replica_until: float = field(default=0.0, init=False)
    retry_at: float = field(default=0.0, init=False)
    attempts: int = field(default=0, init=False)
    has_error: bool = field(default=False, init=False)
    missing_since: float | None = field(default=None, init=False)

    def move_to(self, position: Position, epoch: int = NO_EPOCH, checked: int = NO_EPOCH) -> None:
        """Move to another position."""
        if isinstance(position, int) and position >= 0:
            self.wanted = None
            self.offset = self.delivered = position
            self.epoch = self.delivered_epoch = epoch
            self.checked = checked
        else:
            self.wanted = position
        self.attempts, self.retry_at, self.has_error = 0, 0.0, False

    def refetch(self) -> None:
        """Fetch again from the delivered position, since buffered data was dropped."""
        if self.wanted is None:
            self.offset, self.epoch = self.delivered, self.delivered_epoch

    def failed(self, now: float, backoff: Backoff) -> None:
        """Note a failure, and delay the next request with increasing backoff."""
        self.attempts += 1
        self.retry_at = now + backoff.before(self.attempts)

    def succeeded(self) -> None:
        """Note a response without an error."""
        self.attempts, self.retry_at, self.missing_since = 0, 0.0, None


PartitionErrors = list[tuple[PartitionPosition, LogbusError]]
"""Partitions with errors that retrying does not help."""
