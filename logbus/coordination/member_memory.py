"""
Bounds the memory for what the members of all groups tell a broker.

Each group bounds its members' metadata, but a client can think of any number of groups.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from logbus.config import ConfigView, keys
from logbus.errors import ApiError, ErrorCode

WARNING_SECONDS = 60.0
"""How often the log says that members are refused."""

FRESH_SECONDS = 1.0
"""For how long a measured size is not measured again because it is too large."""

STALE_SECONDS = 60.0
"""After so long it is measured again in any case: groups came from the log, or went."""


@define(eq=False)
class MemberMemory:
    """
    An estimate of the bytes that members take: what was measured last, and what was admitted since.

    :param measure: adds up what all groups have now.
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
        Count bytes that a member adds to what its group keeps; less than none always passes.

        :raise ApiError: COORDINATOR_NOT_AVAILABLE: there is no room for them now.
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
        """Groups came by themselves: measure before anything else is admitted."""
        self._measured_at = None
