"""
Limits the number of groups of a broker, since a client can invent group ids without cost.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from logbus.config import ConfigView, keys
from logbus.errors import ApiError, ErrorCode

WARNING_SECONDS = 60.0
"""Interval between warnings that new groups are refused."""


@define(eq=False)
class GroupLimit:
    """
    The limit ``group.max.count``.

    :param count: counts the present groups.
    """

    _config: ConfigView
    _clock: IReactorTime
    _count: Callable[[], int]
    _warn_at: float = field(default=0.0, init=False)
    _log = Logger()

    def check(self) -> None:
        """
        Refuse a new group if the limit is reached.

        :raise ApiError: COORDINATOR_NOT_AVAILABLE: the client may retry, since other groups may be removed.
        """
        count = self._count()
        most = self._config.get(keys.GROUP_MAX_COUNT)
        if count < most:
            return
        now = self._clock.seconds()
        if now >= self._warn_at:
            self._warn_at = now + WARNING_SECONDS
            self._log.warn(
                "new groups are refused: there are {count}, and group.max.count is {most}", count=count, most=most
            )
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there are {count} groups; group.max.count is {most}")
