"""
Reports replicas that went offline with their log directory to the controller, until it answers.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from logbus.cluster.icluster import IControllerChannel
from logbus.errors import ApiError
from logbus.model import TopicPartition

RETRY_SECONDS = 1.0


@define(eq=False)
class OfflineReplicas:
    """Sends one request at a time; replicas that fail meanwhile go with the next."""

    controller_channel: IControllerChannel
    clock: IReactorTime
    _pending: set[TopicPartition] = field(factory=set, init=False)
    _asking: bool = field(default=False, init=False)
    _retry: IDelayedCall | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)
    _log = Logger()

    def add(self, names: Iterable[TopicPartition]) -> None:
        """Report these replicas."""
        if not self._closed:
            self._pending.update(names)
            self._go_on()

    def close(self) -> None:
        """Report nothing more: the broker stops."""
        self._closed = True
        self._pending.clear()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _go_on(self) -> None:
        if self._pending and not self._asking and self._retry is None:
            self._asking = True
            told = frozenset(self._pending)
            asked: Deferred[None] = self.controller_channel.report_failed(sorted(told))
            Deferred.fromCoroutine(self._heard(asked, told)).addErrback(
                lambda failure: self._log.failure("the report of failed replicas broke", failure)
            )

    async def _heard(self, asked: Deferred[None], told: frozenset[TopicPartition]) -> None:
        try:
            await asked
        except ApiError as e:
            self._log.info("the controller has not heard of failed replicas yet: {error}", error=e.message)
            if self._pending:
                self._retry = self.clock.callLater(RETRY_SECONDS, self._try_again)
        else:
            self._pending -= told
        finally:
            self._asking = False
        self._go_on()

    def _try_again(self) -> None:
        self._retry = None
        self._go_on()
