"""Background work on one log at a time, which can be paused for logs that are about to change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from attrs import define, field
from twisted.internet.defer import Deferred, succeed

from logbus.storage.log import Log
from logbus.storage.log_directory import LogDirectory
from logbus.storage.throttler import Throttler
from logbus.timers import Timers


@define(eq=False, repr=False)
class LogWorker(ABC):
    """Works on the logs of a broker, one at a time."""

    _directories: Sequence[LogDirectory]
    _timers: Timers
    _throttler: Throttler = field(init=False)
    _paused: Counter[Log] = field(factory=Counter, init=False)
    _current: Log | None = field(default=None, init=False)
    _idle: list[Deferred[None]] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._throttler = Throttler(self._timers)

    @abstractmethod
    def _hurry(self) -> None:
        """Have the current work notice at once that it is to stop."""

    def _until_idle(self) -> Deferred[None]:
        """Fires when there is no current work, which is told to hurry."""
        if self._current is None:
            return succeed(None)
        idle: Deferred[None] = Deferred()
        self._idle.append(idle)
        self._hurry()
        return idle

    @contextmanager
    def _working_on(self, log: Log) -> Iterator[None]:
        self._current = log
        try:
            yield
        finally:
            self._current = None
            idle, self._idle = self._idle, []
            for waiter in idle:
                waiter.callback(None)

    @asynccontextmanager
    async def paused(self, logs: Collection[Log]) -> AsyncIterator[None]:
        """Do not work on some logs, which are about to change; entered when none of them is being worked on."""
        self._paused.update(logs)
        try:
            if self._current in logs:
                await self._until_idle()
            yield
        finally:
            self._paused.subtract(logs)
            self._paused = +self._paused

    async def _checkpoint(self, log: Log) -> None:
        """Checkpoint up to where the logs of its directory are clean."""
        for directory in self._directories:
            if directory.disk is log.disk:
                await directory.checkpoint_cleaned_offsets()
