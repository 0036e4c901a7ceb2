"""
Limits what the coordinators keep in memory, since a client can invent group ids and transactional ids without cost.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from logbus.config import ConfigView
from logbus.config.config_key import ConfigKey
from logbus.errors import ApiError, ErrorCode

WARNING_SECONDS = 60.0
"""Interval between warnings that requests are refused."""


@define(eq=False)
class Limit:
    """
    A limit from the configuration, with an occasional warning.

    :param what: is counted, in the plural.
    :param count: counts what there is.
    """

    _config: ConfigView
    _clock: IReactorTime
    _key: ConfigKey[int]
    _what: str
    _count: Callable[[], int]
    _warn_at: float = field(default=0.0, init=False)
    _log = Logger()

    def allows(self, more: int) -> bool:
        """Whether there is room for ``more``."""
        return self._count() + more <= self._config.get(self._key)

    def check(self, more: int = 1) -> None:
        """
        Refuse a request for which there is no room.

        :raise ApiError: COORDINATOR_NOT_AVAILABLE: the client may retry, since others may be removed.
        """
        if self.allows(more):
            return
        most = self._config.get(self._key)
        sentence = f"there would be {self._count() + more} {self._what}, and {self._key.name} is {most}"
        now = self._clock.seconds()
        if now >= self._warn_at:
            self._warn_at = now + WARNING_SECONDS
            self._log.warn("requests are refused: {why}", why=sentence)
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, sentence)
