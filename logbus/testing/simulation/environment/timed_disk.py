"""A memory disk whose operations take virtual time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed

from logbus.errors import StorageError
from logbus.testing.simulation.environment.inodes import Crashed, Directory
from logbus.testing.simulation.environment.memory_disk import IOPool, MemoryDisk
from logbus.testing.simulation.environment.virtual_clock import VirtualClock

SYNC_SECONDS = 0.002
OTHER_SECONDS = 0.0002


class TimedDisk(MemoryDisk):
    """
    A disk in memory, for one process.

    :param reactor: of the process; operations pending at its death never complete.
    :param above: see :class:`.MemoryDisk`.
    :ivar sync_seconds: the average time of a sync.
    """

    def __init__(
        self,
        root: str,
        tree: Directory,
        clock: VirtualClock,
        reactor: Any,
        random: Random,
        above: MemoryDisk | None = None,
    ) -> None:
        super().__init__(root, tree, above)
        # The history of its operations is not needed for long.
        self.done = deque(maxlen=100)
        self.loads = deque(maxlen=100)
        self.sync_seconds = SYNC_SECONDS
        self._clock = clock
        self._reactor = reactor
        self._random = random
        self._idle_at = 0.0
        self._under_way = 0
        self._closing: Deferred[None] | None = None

    def submit(self, pool: IOPool, op: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """Run an operation some time from now."""
        if self.failure is not None:
            return fail(self.offline())
        done: Deferred[Any] = Deferred()
        now = self._clock.now
        end = now + self._random.uniform(0.5, 1.5) * (self.sync_seconds if pool is IOPool.SYNC else OTHER_SECONDS)
        if pool is IOPool.BACKGROUND:
            # One operation of a pool after the other.
            end = self._idle_at = max(end, self._idle_at + OTHER_SECONDS)
        self._under_way += 1
        if pool is IOPool.SYNC and self._random.random() < 0.5:
            # Writes during a sync may miss it; and the power may go between its end and the answer.
            self._clock.at(self._random.uniform(now, end), self._reactor, self._do_early, end, op, args, done)
        else:
            self._clock.at(end, self._reactor, self._do, op, args, done)
        return done

    def _do_early(self, end: float, op: Callable[..., Any], args: tuple[Any, ...], done: Deferred[Any]) -> None:
        value, error = self._attempt(op, args)
        self._clock.at(end, self._reactor, self._settle, value, error, done)

    def _do(self, op: Callable[..., Any], args: tuple[Any, ...], done: Deferred[Any]) -> None:
        value, error = self._attempt(op, args)
        self._settle(value, error, done)

    def _attempt(self, op: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Exception | None]:
        try:
            return op(*args), None
        except Crashed:
            raise
        except Exception as error:
            return None, error

    def _settle(self, value: Any, error: Exception | None, done: Deferred[Any]) -> None:
        self._under_way -= 1
        if isinstance(error, StorageError):
            self.fail(error)
        if self.failure is not None:
            done.errback(self.offline())
        elif error is not None:
            done.errback(error)
        else:
            done.callback(value)
        if self._closing is not None and not self._under_way:
            closing, self._closing = self._closing, None
            closing.callback(None)

    def close(self) -> Deferred[None]:
        """Finish the pending operations."""
        super().close()
        if not self._under_way:
            return succeed(None)
        self._closing = Deferred()
        return self._closing
