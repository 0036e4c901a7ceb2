"""
Limits the memory of the members of all groups, since a client can create many groups within their own limits.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from logbus.config import ConfigView, keys
from logbus.coordination.limit import Limit

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
    _limit: Limit = field(init=False)

    @_limit.default
    def _as_configured(self) -> Limit:
        what = "bytes of the members of all groups"
        return Limit(self._config, self._clock, keys.GROUP_MEMBERS_MAX_BYTES, what, lambda: self._bytes)

    def admit(self, growth: int) -> None:
        """
        Count bytes that a member is about to take; a negative number is always accepted.

        :raise ApiError: COORDINATOR_NOT_AVAILABLE: the limit is reached.
        """
        if growth <= 0:
            return
        now = self._clock.seconds()
        age = STALE_SECONDS if self._measured_at is None else now - self._measured_at
        if age >= STALE_SECONDS or (age >= FRESH_SECONDS and not self._limit.allows(growth)):
            self._bytes, self._measured_at = self._measure(), now
        self._limit.check(growth)
        self._bytes += growth

    def forget(self) -> None:
        """Measure before the next admission: groups were loaded."""
        self._measured_at = None
