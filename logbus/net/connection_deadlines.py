"""Deadlines of one connection: how long a peer may be idle, and how long it may leave a frame incomplete."""

from __future__ import annotations

import math
from typing import NamedTuple

from attrs import define, field

from logbus.net.connection_limits import ConnectionLimits


class ConnectionProgress(NamedTuple):
    """
    The progress made on a connection.

    :ivar requests: served so far.
    :ivar unsent: bytes that the peer has not taken.
    :ivar received: bytes that are not served yet.
    """

    requests: int = 0
    unsent: int = 0
    received: int = 0


@define(eq=False)
class ConnectionDeadlines:
    """
    Compares a connection's progress periodically, so that serving a request never reads the clock.

    :param now: the time of the last check, in seconds; at first, of the connection.
    :ivar is_still: whether nothing had moved at the last check.
    """

    _limits: ConnectionLimits
    _now: float
    is_still: bool = field(default=False, init=False)
    _progress: ConnectionProgress = field(factory=ConnectionProgress, init=False)
    # For how many seconds the first frame has been waiting for the peer to complete it.
    _frame_age: float | None = field(default=None, init=False)
    _still_since: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._still_since = self._now

    def check(
        self, now: float, progress: ConnectionProgress, *, partial: bool, reading: bool, patience: float
    ) -> str | None:
        """
        The reason to close the connection, if it missed a deadline.

        :param partial: whether the bytes received are the beginning of a frame.
        :param reading: whether the connection receives. The time in which it does not is not added to the frame's age;
            but it does not reset it either.
        :param patience: seconds for which nothing may move; inf: the peer waits for us, and is not idle.
        """
        seconds, self._now = now - self._now, now
        before, self._progress = self._progress, progress
        if progress.requests != before.requests or not partial:
            self._frame_age = None
        elif reading:
            self._frame_age = 0.0 if self._frame_age is None else self._frame_age + seconds
            if self._frame_age >= self._limits.frame_seconds + progress.received / self._limits.frame_rate:
                return f"a frame was not complete after {self._frame_age:.0f} s"
        self.is_still = progress == before
        if not self.is_still or patience == math.inf:
            self._still_since = now
        elif now - self._still_since >= patience:
            return f"nothing moved for {now - self._still_since:.0f} s"
        return None
