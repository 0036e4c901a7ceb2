"""
One thread that runs blocking calls in order, and hands their results to the reactor.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread, current_thread
from typing import Any, TypeAlias

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.python.failure import Failure

Settle: TypeAlias = Callable[[BaseException | None], BaseException | None]
"""Called on the reactor thread with an operation's error or None; returns what its waiter gets."""

_Job: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...], "Deferred[Any]"]


@define(eq=False)
class LaneThread:
    """
    A dedicated thread and its queue. The thread starts with the first operation.
    """

    name: str
    _reactor: IReactorFromThreads
    _settle: Settle
    _queue: SimpleQueue[_Job | None] = field(factory=SimpleQueue, init=False)
    _thread: Thread | None = field(default=None, init=False)
    _stopped: Deferred[None] | None = field(default=None, init=False)

    def submit(self, op: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """Queue ``op(*args)``; the Deferred fires on the reactor thread. Reactor thread only."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
        done: Deferred[Any] = Deferred()
        self._queue.put((op, args, done))
        return done

    def stop(self) -> Deferred[None]:
        """Finish what is queued and end the thread."""
        self._stopped = Deferred()
        if self._thread is None:
            self._stopped.callback(None)
        else:
            self._queue.put(None)
        return self._stopped

    def is_current(self) -> bool:
        """Whether the caller runs in this lane's thread."""
        return self._thread is current_thread()

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            op, args, done = job
            result: Any = None
            failure: Failure | None = None
            try:
                result = op(*args)
            except BaseException:
                failure = Failure()
            self._reactor.callFromThread(self._fire, done, result, failure)
            # The loop's names would keep files open until the next operation comes.
            del job, op, args, done, result, failure
        self._reactor.callFromThread(self._end)

    def _fire(self, done: Deferred[Any], result: Any, failure: Failure | None) -> None:
        error = None if failure is None else failure.value
        shown = self._settle(error)
        if shown is None:
            done.callback(result)
        else:
            done.errback(failure if failure is not None and shown is error else Failure(shown))

    def _end(self) -> None:
        assert self._thread is not None and self._stopped is not None
        # It has nothing left to do but return, so this does not wait.
        self._thread.join()
        self._stopped.callback(None)
