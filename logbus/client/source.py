"""
One partition that a consumer reads: how far it is, and what has to be found out first. Pure.
"""

from __future__ import annotations

from typing import Literal

from attrs import define, frozen

from logbus.client.offsets import EARLIEST, LATEST
from logbus.client.retry import Backoff
from logbus.model import NO_EPOCH, TopicPartition

Reset = Literal["earliest", "latest", "none"]
"""Where to go on when an offset is not kept any more, or not yet there; ``none`` makes it an error."""
Isolation = Literal["read_uncommitted", "read_committed"]


@frozen
class AtTime:
    """The first record at or after a time, or the end if there is none; milliseconds since 1970."""

    ms: int


Position = int | AtTime
"""An offset, :data:`~logbus.client.offsets.EARLIEST`, :data:`~logbus.client.offsets.LATEST`, or a time."""


def reset_position(reset: Reset) -> Position:
    """The position that a reset stands for."""
    return EARLIEST if reset == "earliest" else LATEST


@define(eq=False)
class Source:
    """
    A partition that is read.

    :ivar wanted: where to go, while it is not found out yet.
    :ivar offset: the next to fetch.
    :ivar epoch: the leader epoch of what lies before ``offset``, −1 if it is not known.
    :ivar position: the next to be handed out.
    :ivar checked: the leader epoch in which ``offset`` was last compared with the leader's log.
    :ivar lost: its leader has to be looked for.
    :ivar replica: a follower to fetch from (KIP-392), until ``replica_until``; −1: the leader.
    :ivar retry_at: nothing is asked of it before that time.
    :ivar attempts: failures since the last success.
    :ivar stuck: something is wrong that the application has not been told yet.
    :ivar missing_since: since when brokers have said that there is no such partition.
    """

    partition: TopicPartition
    wanted: Position | None = None
    offset: int = -1
    epoch: int = NO_EPOCH
    position: int = -1
    position_epoch: int = NO_EPOCH
    high_watermark: int | None = None
    checked: int = NO_EPOCH
    paused: bool = False
    lost: bool = False
    replica: int = -1
    replica_until: float = 0.0
    retry_at: float = 0.0
    attempts: int = 0
    stuck: bool = False
    missing_since: float | None = None

    def go_to(self, position: Position, epoch: int = NO_EPOCH, checked: int = NO_EPOCH) -> None:
        """Read on elsewhere."""
        if isinstance(position, int) and position >= 0:
            self.wanted = None
            self.offset = self.position = position
            self.epoch = self.position_epoch = epoch
            self.checked = checked
        else:
            self.wanted = position
        self.attempts, self.retry_at, self.stuck = 0, 0.0, False

    def reread(self) -> None:
        """What was read ahead is dropped: fetch again what is to be handed out next."""
        if self.wanted is None:
            self.offset, self.epoch = self.position, self.position_epoch

    def failed(self, now: float, backoff: Backoff) -> None:
        """Something asked of it failed: wait before it is asked again, longer each time."""
        self.attempts += 1
        self.retry_at = now + backoff.before(self.attempts)

    def succeeded(self) -> None:
        """It was answered."""
        self.attempts, self.retry_at, self.missing_since = 0, 0.0, None
