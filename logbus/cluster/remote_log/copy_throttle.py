"""Limits the bytes a second that all threads together copy to remote storage."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Lock

from attrs import define, field

from logbus.storage.remote.iremote_storage import RemoteStorageError


class CopyStopped(RemoteStorageError):
    """The copy was given up, since the broker stops."""


@define(eq=False)
class CopyThrottle:
    """Makes threads wait, so that they stay below a rate; they are woken when the broker stops."""

    _bytes_per_second: Callable[[], float]
    _lock: Lock = field(factory=Lock, init=False)
    _stopped: Event = field(factory=Event, init=False)
    _free_at: float = field(default=0.0, init=False)

    def spend(self, size: int) -> None:
        """
        Wait until ``size`` bytes may be copied. Blocks: for threads.

        :raise CopyStopped: :meth:`stop` was called.
        """
        with self._lock:
            now = time.monotonic()
            wait = self._free_at - now
            self._free_at = max(self._free_at, now) + size / self._bytes_per_second()
        if self._stopped.is_set() or (wait > 0 and self._stopped.wait(wait)):
            raise CopyStopped("the broker stops")

    def stop(self) -> None:
        """Let nothing more be copied."""
        self._stopped.set()
