"""
Threads of a simulated process that block for virtual time.

Each function runs in a thread of its own, but only one thread runs at a time: whoever starts a thread, or continues it,
waits until it blocks or ends. So the same seed gives the same run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Semaphore, Thread, local
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.testing.simulation.environment.inodes import Crashed
from logbus.testing.simulation.environment.virtual_clock import Process, VirtualClock


class ProcessEnded(BaseException):
    """Raised where a thread blocks whose process has ended."""


_here = local()


@define(eq=False)
class _Worker:
    """A function in a thread."""

    threads: SimulatedThreads
    job: Callable[[], object]
    ended: Callable[[], object]
    _go: Semaphore = field(factory=lambda: Semaphore(0), init=False)
    _back: Semaphore = field(factory=lambda: Semaphore(0), init=False)
    is_over: bool = field(default=False, init=False)
    is_running: bool = field(default=False, init=False)

    def start(self) -> None:
        Thread(target=self._run, name="simulated", daemon=True).start()
        self.resume()

    def resume(self) -> None:
        """Let it run until it blocks or ends."""
        self.is_running = True
        self._go.release()
        self._back.acquire()
        self.is_running = False
        if self.is_over:
            self.threads.workers.pop(self, None)
            if not self.threads.is_dead:
                self.ended()

    def block(self) -> None:
        """Let the others run, until it is resumed."""
        self._back.release()
        self._go.acquire()
        if self.threads.is_dead:
            raise ProcessEnded

    def _run(self) -> None:
        self._go.acquire()
        _here.worker = self
        try:
            self.job()
        except (ProcessEnded, Crashed):
            pass
        finally:
            self.is_over = True
            self._back.release()


@define(eq=False)
class SimulatedThreads:
    """
    The threads of a process.

    :ivar process: what its threads wait for is delayed while it is frozen.
    :ivar is_dead: whether the process has ended.
    """

    clock: VirtualClock
    process: Process
    is_dead: bool = field(default=False, init=False)
    workers: dict[_Worker, None] = field(factory=dict, init=False)

    def pool(self, name: str, size: int) -> SimulatedPool:
        """Make a pool of threads; see :data:`.MakeThreads`."""
        return SimulatedPool(self, size)

    def sleep(self, seconds: float) -> None:
        """
        Block the calling thread.

        :raise ProcessEnded: the process has ended meanwhile.
        """
        worker: _Worker = _here.worker
        self.clock.at(self.clock.now + seconds, self.process, self._continue, worker)
        worker.block()

    @staticmethod
    def _continue(worker: _Worker) -> None:
        # The process may have ended, and this was still due.
        if not worker.is_over:
            worker.resume()

    def kill(self) -> None:
        """The process ends, and its threads where they are."""
        self.is_dead = True
        for worker in list(self.workers):
            if not worker.is_running and not worker.is_over:
                worker.resume()


@define(eq=False)
class SimulatedPool:
    """A pool of threads; see :class:`.RemoteThreads`."""

    threads: SimulatedThreads
    size: int
    _queue: deque[Callable[[], object]] = field(factory=deque, init=False)
    _busy: int = field(default=0, init=False)
    _ending: Deferred[None] | None = field(default=None, init=False)

    def start(self) -> None:
        """Nothing: threads start as they are needed."""

    def end(self) -> Deferred[None]:
        """Fires when all that was to be done is done."""
        ending = self._ending = Deferred()
        self._next()
        return ending

    def callInThreadWithCallback(
        self, onResult: Callable[[bool, Any], object], func: Callable[..., Any], *args: Any, **kw: Any
    ) -> None:
        """Run a function in a thread, when one is free."""

        def job() -> None:
            try:
                found = func(*args, **kw)
            except (ProcessEnded, Crashed):
                raise
            except BaseException:
                onResult(False, Failure())
            else:
                onResult(True, found)

        self._queue.append(job)
        # In a turn of its own: the caller goes on first.
        threads = self.threads
        threads.clock.at(threads.clock.now, threads.process, self._next)

    def _next(self) -> None:
        while self._queue and self._busy < self.size:
            self._busy += 1
            worker = _Worker(self.threads, self._queue.popleft(), self._done)
            self.threads.workers[worker] = None
            worker.start()
        if self._ending is not None and not self._queue and not self._busy:
            ending, self._ending = self._ending, None
            ending.callback(None)

    def _done(self) -> None:
        self._busy -= 1
        self.threads.clock.at(self.threads.clock.now, self.threads.process, self._next)
