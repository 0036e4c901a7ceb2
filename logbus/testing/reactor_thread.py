"""A thread with a reactor of its own, in which brokers of tests run, and the client that looks at them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Any, TypeVar

from logbus.errors import LogbusError
from logbus.testing.offset_clock import OffsetClock
from logbus.testing.private_reactor import close_reactor, private_reactor

if TYPE_CHECKING:
    from twisted.internet.posixbase import PosixReactorBase

T = TypeVar("T")

#: Seconds in which a coroutine that was cancelled has to end.
GRACE = 2.0


class WrongThread(LogbusError):
    """A blocking method was called where it cannot wait: in the reactor's own thread, or in a forked process."""


class ReactorThread:
    """
    Runs until :meth:`stop`.  It is a daemon: a process that ends does not wait for it.

    :param name: of the thread.

    :ivar clock: of the reactor's timers, and of the day; it can be put forward.
    :ivar reactor: only :meth:`call` and :meth:`run` may use it from other threads.
    """

    def __init__(self, name: str) -> None:
        self.clock = OffsetClock()
        self.reactor: PosixReactorBase = private_reactor(self.clock.seconds)
        self._abandoned = False
        self._open = True
        self._closing = threading.Lock()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def ident(self) -> int:
        """The thread's number, as ``threading.get_ident`` has it."""
        return self._thread.ident or 0

    @property
    def alive(self) -> bool:
        """Whether it runs, in this process."""
        return self._pid == os.getpid() and self._thread.is_alive()

    def call(self, fn: Callable[..., object], *args: Any) -> None:
        """Have the thread call a function, if it has not ended."""
        with self._closing:
            if self._open and self._pid == os.getpid():
                self.reactor.callFromThread(fn, *args)

    def run(self, what: Callable[[], Awaitable[T]], timeout: float) -> T:
        """
        What a coroutine function returns, or raises, which the thread runs.

        :param timeout: seconds, after which it is cancelled.
        :raise TimeoutError: it had not ended.
        :raise WrongThread: this thread cannot wait for that one.
        """
        from twisted.internet.defer import Deferred

        if threading.get_ident() == self.ident:
            raise WrongThread("this waits for the broker, and was called in the broker's own thread")
        if not self.alive:
            raise WrongThread(f"the thread {self._thread.name} has ended, or is of the process that forked this one")
        done: Future[T] = Future()
        running: list[Deferred[T]] = []

        def begin() -> None:
            started: Deferred[T] = Deferred.fromCoroutine(_awaited(what))
            running.append(started)
            started.addCallbacks(done.set_result, lambda failure: done.set_exception(failure.value))

        def cancel() -> None:
            for one in running:
                one.cancel()

        self.call(begin)
        try:
            return done.result(timeout)
        except FutureTimeout:
            if done.done():
                # Its own error, which is a time-out as well.
                raise
            self.call(cancel)
            try:
                return done.result(GRACE)
            except BaseException:
                raise TimeoutError(f"not done within {timeout:g} s") from None

    def stop(self) -> None:
        """Have it end: what its timers and sockets were doing, ends in no order."""
        self.call(self._stop)

    def join(self, timeout: float) -> bool:
        """Wait for its end; whether it has ended."""
        if self._pid == os.getpid():
            self._thread.join(timeout)
        return not self.alive

    def abandon(self) -> None:
        """Stop, and leave the reactor open: threads of a broker that was not stopped still report to it."""
        self._abandoned = True
        self.stop()

    def _stop(self) -> None:
        if self.reactor.running:
            self.reactor.stop()

    def _run(self) -> None:
        self.reactor.run(installSignalHandlers=False)
        with self._closing:
            self._open = False
            if not self._abandoned:
                close_reactor(self.reactor)


def in_event_loop() -> bool:
    """Whether a loop of asyncio runs in this thread, which a blocking call keeps from going on."""
    asyncio: Any = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


async def _awaited(what: Callable[[], Awaitable[T]]) -> T:
    return await what()
