"""
Limits the memory of the members of all groups, since a client can create many groups within their own limits.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from logbus.config import ConfigView, keys
from logbus.errors import ApiError, ErrorCode

WARNING_SECONDS = 60.0
"""Interval between warnings that members are refused."""

FRESH_SECONDS = 1.0
"""Shortest time between two measurements when the limit is exceeded."""

STALE_SECONDS = 60.0
"""Longest time between two measurements, since groups may have been loaded or removed."""


@define(eq=False)
class MemberMemory:
    """
    The limit ``group.members.max.bytes``, with an estimate: the last measurement plus the bytes admitted since.

    :param measure: computes the present memory of all groups.
    """

    _config: ConfigView
    _clock: IReactorTime
    _measure: Callable[[], int]
    _bytes: int = field(default=0, init=False)
    _measured_at: float | None = field(default=None, init=False)
    _warn_at: float = field(default=0.0, init=False)
    _log = Logger()

    def admit(self, growth: int) -> None:
        """
        Count bytes that a member is about to take; a negative number is always accepted.

        :raise ApiError: COORDINATOR_NOT_AVAILABLE: the limit is reached.
        """
        if growth <= 0:
            return
        now = self._clock.seconds()
        most = self._config.get(keys.GROUP_MEMBERS_MAX_BYTES)
        age = STALE_SECONDS if self._measured_at is None else now - self._measured_at
        if age >= STALE_SECONDS or (self._bytes + growth > most and age >= FRESH_SECONDS):
            self._bytes, self._measured_at = self._measure(), now
        if self._bytes + growth <= most:
            self._bytes += growth
            return
        if now >= self._warn_at:
            self._warn_at = now + WARNING_SECONDS
            self._log.warn(
                "group members are refused: all of them take {bytes} bytes, and group.members.max.bytes is {most}",
                bytes=self._bytes,
                most=most,
            )
        raise ApiError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"the members of all groups take {self._bytes} bytes; group.members.max.bytes is {most}",
        )

    def forget(self) -> None:
        """Measure before the next admission: groups were loaded."""
        self._measured_at = None
