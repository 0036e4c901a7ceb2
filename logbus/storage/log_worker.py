"""Background work on logs, which can be paused for logs that are about to change."""

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
    """Works on the logs of a broker, each of them by itself."""

    _directories: Sequence[LogDirectory]
    _timers: Timers
    _throttler: Throttler = field(init=False)
    _paused: Counter[Log] = field(factory=Counter, init=False)
    _current: set[Log] = field(factory=set, init=False)
    _idle: list[tuple[Collection[Log], Deferred[None]]] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._throttler = Throttler(self._timers)

    @abstractmethod
    def _hurry(self) -> None:
        """Have the current work notice at once that it is to stop."""

    def _until_idle(self, logs: Collection[Log] | None = None) -> Deferred[None]:
        """
        Fires when there is no current work, which is told to hurry.

        :param logs: wait for the work on these only; None: for all.
        """
        awaited = set(self._current).intersection(self._current if logs is None else logs)
        if not awaited:
            return succeed(None)
        idle: Deferred[None] = Deferred()
        self._idle.append((awaited, idle))
        self._hurry()
        return idle

    @contextmanager
    def _working_on(self, log: Log) -> Iterator[None]:
        self._current.add(log)
        try:
            yield
        finally:
            self._current.remove(log)
            over = [waiting for waiting in self._idle if self._current.isdisjoint(waiting[0])]
            self._idle = [waiting for waiting in self._idle if waiting not in over]
            for _, waiter in over:
                waiter.callback(None)

    @asynccontextmanager
    async def paused(self, logs: Collection[Log]) -> AsyncIterator[None]:
        """Do not work on some logs, which are about to change; entered when none of them is being worked on."""
        self._paused.update(logs)
        try:
            await self._until_idle(logs)
            yield
        finally:
            self._paused.subtract(logs)
            self._paused = +self._paused

    async def _checkpoint(self, log: Log) -> None:
        """Checkpoint up to where the logs of its directory are clean."""
        for directory in self._directories:
            if directory.disk is log.disk:
                await directory.checkpoint_cleaned_offsets()
