"""
Controlled shutdown of a broker (KIP-143): its leaderships move to other brokers while it still serves.

Clients then find the new leaders at once, instead of waiting for the broker's session to expire.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from logbus.cluster.icluster import IControllerChannel
from logbus.config import ConfigView, keys
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, ErrorCode

REQUEST_TIMEOUT_S = 30.0
"""Timeout of one attempt: a controller that does not answer must not keep a broker from stopping."""


@define(eq=False)
class ControlledShutdown:
    """Asks the controller to move this broker's leaderships, with the retries of ``controlled.shutdown.*``."""

    link: IControllerChannel
    config: ConfigView
    clock: IReactorTime
    _log = Logger()

    @returns_deferred
    async def say(self, others: Sequence[int]) -> None:
        """
        Move the leaderships; never fails: the remaining partitions get a leader once this broker is gone.

        :param others: the other live brokers; without any there is nothing to do.
        """
        if not others or not self.config.get(keys.CONTROLLED_SHUTDOWN_ENABLE):
            return
        for tries_left in range(self.config.get(keys.CONTROLLED_SHUTDOWN_MAX_RETRIES), -1, -1):
            try:
                remaining = await self.link.shut_down().addTimeout(REQUEST_TIMEOUT_S, self.clock, _raise_timeout)
            except ApiError as error:
                self._log.warn("handing over failed: {error}; tries left: {left}", error=error, left=tries_left)
            else:
                if remaining:
                    self._log.warn(
                        "stopping although nobody else can lead {count} partitions, such as {first}",
                        count=len(remaining),
                        first=remaining[0],
                    )
                return
            if tries_left:
                pause = self.config.get(keys.CONTROLLED_SHUTDOWN_RETRY_BACKOFF_MS) / 1000
                await deferLater(self.clock, pause)


def _raise_timeout(_: object, seconds: float) -> None:
    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"the controller has not answered for {seconds:.0f} s")
