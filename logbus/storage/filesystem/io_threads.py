"""Thread pools for blocking calls, with results delivered to the reactor."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread, current_thread, get_native_id
from typing import Any, TypeAlias

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.python.failure import Failure

Settle: TypeAlias = Callable[[BaseException | None], BaseException | None]
"""Called on the reactor thread with an operation's error or None; returns the result for its caller."""

_Job: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...], "Deferred[Any]"]


@define(eq=False)
class IOThreads:
    """
    A queue and its threads, which are started when there is work and none is free.

    With one thread, operations run in the order they were queued; with more, several run at a time.

    :ivar most: upper bound of threads.
    :ivar niceness: added to the process's, where threads have one of their own (Linux).
    """

    name: str
    _reactor: IReactorFromThreads
    _settle: Settle
    most: int = 1
    niceness: int = 0
    _queue: SimpleQueue[_Job | None] = field(factory=SimpleQueue, init=False)
    _threads: list[Thread] = field(factory=list, init=False)
    _unfinished: int = field(default=0, init=False)
    _stopped: Deferred[None] | None = field(default=None, init=False)

    def submit(self, op: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """
        Queue ``op(*args)``; the Deferred fires on the reactor thread. Reactor thread only.

        :raises RuntimeError: there is no thread, and none can be started.
        """
        if len(self._threads) <= min(self._unfinished, self.most - 1):
            try:
                self._start()
            except RuntimeError:
                # Fewer threads than there should be do the work one after the other.
                if not self._threads:
                    raise
        self._unfinished += 1
        done: Deferred[Any] = Deferred()
        self._queue.put((op, args, done))
        return done

    def _start(self) -> None:
        """:raises RuntimeError: the process has too many."""
        name = f"{self.name}-{len(self._threads)}" if self.most > 1 else self.name
        thread = Thread(target=self._run, name=name, daemon=True)
        self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError:
            self._threads.remove(thread)
            raise

    def stop(self) -> Deferred[None]:
        """Finish what is queued and end the threads."""
        self._stopped = Deferred()
        for _ in self._threads:
            self._queue.put(None)
        if not self._threads:
            self._stopped.callback(None)
        return self._stopped

    def is_current(self) -> bool:
        """Whether the caller runs in one of these threads."""
        return current_thread() in self._threads

    def _run(self) -> None:
        if self.niceness and sys.platform == "linux":
            # A thread of this kind does not take the processor from the reactor when a pause of it ends.
            with suppress(OSError):
                os.sched_setscheduler(get_native_id(), os.SCHED_BATCH, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + self.niceness)
        while (job := self._queue.get()) is not None:
            op, args, done = job
            result: Any = None
            failure: Failure | None = None
            try:
                result = op(*args)
            except BaseException:
                failure = Failure()
            self._reactor.callFromThread(self._fire, done, result, failure)
            # These variables would keep files open until the next operation.
            del job, op, args, done, result, failure
        self._reactor.callFromThread(self._end, current_thread())

    def _fire(self, done: Deferred[Any], result: Any, failure: Failure | None) -> None:
        self._unfinished -= 1
        error = None if failure is None else failure.value
        shown = self._settle(error)
        if shown is None:
            done.callback(result)
        else:
            done.errback(failure if failure is not None and shown is error else Failure(shown))

    def _end(self, thread: Thread) -> None:
        assert self._stopped is not None
        # The thread is about to return, so this does not wait.
        thread.join()
        self._threads.remove(thread)
        if not self._threads:
            self._stopped.callback(None)
