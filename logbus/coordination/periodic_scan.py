"""
Scans what a coordinator has, again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.config.config_key import ConfigKey
from logbus.coordination.coordinator_runtime import CoordinatorRuntime


@define(eq=False)
class PeriodicScan:
    """
    A periodic scan, of which at most one runs at a time.

    :ivar interval: the configuration key of the ms between two scans.
    """

    coordinator: CoordinatorRuntime[Any]
    interval: ConfigKey[int]
    work: Callable[[], Coroutine[Deferred[Any], Any, None]]
    _next: IDelayedCall | None = field(default=None, init=False)
    _round: Deferred[None] | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)
    _log = Logger()

    def start(self) -> None:
        """Schedule the first scan, after one interval."""
        interval_ms = self.coordinator.config.get(self.interval)
        self._next = self.coordinator.clock.callLater(interval_ms / 1000, self._begin)

    def stop(self) -> None:
        """Stop, and cancel a scan that is running."""
        self._stopped = True
        if self._next is not None and self._next.active():
            self._next.cancel()
        if self._round is not None:
            self._round.cancel()

    def _begin(self) -> None:
        self._round = Deferred.fromCoroutine(self.work())
        self._round.addErrback(self._failed).addBoth(lambda _: self._ended())

    def _failed(self, failure: Failure) -> None:
        if not self._stopped:
            self._log.failure("a scan of {topic} failed", failure, topic=self.coordinator.topic)

    def _ended(self) -> None:
        self._round = None
        if not self._stopped:
            self.start()
