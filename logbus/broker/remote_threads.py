"""
The threads that read from remote storage, and copy to it.

A simulation passes others, which take virtual time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any, Protocol, TypeAlias

from twisted.internet.defer import Deferred
from twisted.python.threadpool import ThreadPool

STOP_SECONDS = 5.0
"""Until threads that do not end are left behind."""


class RemoteThreads(Protocol):
    """Threads, as :func:`~twisted.internet.threads.deferToThreadPool` uses them."""

    def start(self) -> None:
        """Begin to work."""

    def end(self) -> Deferred[None]:
        """Fires when no thread runs any more, or those that do hang."""

    def callInThreadWithCallback(
        self, onResult: Callable[[bool, Any], object], func: Callable[..., Any], *args: Any, **kw: Any
    ) -> None:
        """Run a function in a thread, and call ``onResult`` there, with whether it succeeded and its result."""


MakeThreads: TypeAlias = Callable[[str, int], RemoteThreads]
"""Makes threads: their name, and how many there are at most."""


class DaemonThreads(ThreadPool):
    """Threads that do not keep the process when a store hangs."""

    threadFactory = staticmethod(partial(Thread, daemon=True))  # type: ignore[assignment]

    def __init__(self, reactor: Any, name: str, size: int) -> None:
        super().__init__(minthreads=0, maxthreads=size, name=name)
        self._reactor = reactor

    def end(self) -> Deferred[None]:
        """Fires when its threads have ended, or hang: then they end with the process."""
        ended: Deferred[None] = Deferred()

        def end() -> None:
            if not ended.called:
                ended.callback(None)

        def stop() -> None:
            self.stop()
            self._reactor.callFromThread(end)

        Thread(target=stop, name=f"{self.name}-stop", daemon=True).start()
        return ended.addTimeout(STOP_SECONDS, self._reactor, onTimeoutCancel=lambda result, seconds: None)
