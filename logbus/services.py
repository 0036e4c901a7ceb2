"""
Lifecycles: services that start in order and stop in reverse, and supervised background tasks.

* :class:`OrderedService`: a tree of services. Twisted's ``MultiService`` neither waits for a start nor orders the
  stops.
* :class:`Tasks`: runs coroutines in the background.
* :class:`PeriodicTask`: runs a function periodically, and survives its errors.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from attrs import define, field
from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure


class OrderedService(MultiService):
    """
    A service that starts its children in order and stops them in reverse, awaiting each.

    Children are ordinary ``IService`` s whose ``startService`` and ``stopService`` may return Deferreds; they are
    added before the start. A child whose start fails, or is cancelled, cleans up after itself: it is not stopped.

    twistd drops the Deferred that ``startService`` returns: the caller for the root attaches an errback.

    :param name: for the log, and for ``getServiceNamed``.
    """

    _log = Logger()

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name: str = name
        self._started: list[IService] = []
        self._child_starting: Deferred[Any] | None = None
        # A start, stop or undone start in progress; _waiting has those who wait for its end.
        self._busy = False
        self._waiting: list[Deferred[None]] = []

    def addService(self, service: IService) -> None:
        """
        Add a child.

        :raises RuntimeError: the service has started.
        """
        if self.running:
            raise RuntimeError(f"{self.name} is running; {service!r} cannot join it any more")
        super().addService(service)

    def startService(self) -> Deferred[None]:
        """
        Start the children in the order they were added.

        :returns: fires when all have started; fails with the error of the one that could not, once those before it
            have stopped, or with ``CancelledError`` when :meth:`stopService` came in between.
        :raises RuntimeError: it is running, or has not finished stopping.
        """
        if self.running or self._busy:
            raise RuntimeError(f"{self.name} is running already")
        Service.startService(self)
        self._busy = True
        return Deferred.fromCoroutine(self._start())

    def stopService(self) -> Deferred[None]:
        """
        Stop the children that have started, in reverse. A start in progress is cancelled first, and its end awaited.

        :returns: fires when all have stopped; fails with the first error of any, after stopping all.
            A second call waits for the same end.
        """
        was_running = self.running
        Service.stopService(self)
        if self._busy:
            if was_running and self._child_starting is not None:
                self._child_starting.cancel()
            # The cancelled start may have ended at once.
            return self._end_of_busy() if self._busy else succeed(None)
        if not was_running:
            return succeed(None)
        self._busy = True
        return Deferred.fromCoroutine(self._stop())

    async def _start(self) -> None:
        try:
            for child in list(self):
                if not self.running:
                    raise CancelledError
                await self._start_child(child)
            if not self.running:
                raise CancelledError
        except (Exception, SystemExit):
            await self._stop_started()
            Service.stopService(self)
            raise
        finally:
            self._no_longer_busy()

    async def _start_child(self, child: IService) -> None:
        self._child_starting = maybeDeferred(child.startService)
        try:
            await self._child_starting
        finally:
            self._child_starting = None
        self._started.append(child)

    async def _stop(self) -> None:
        try:
            failure = await self._stop_started()
        finally:
            self._no_longer_busy()
        if failure is not None:
            failure.raiseException()

    async def _stop_started(self) -> Failure | None:
        """Stop the started children in reverse; log every error and return the first."""
        first: Failure | None = None
        while self._started:
            child = self._started.pop()
            try:
                await maybeDeferred(child.stopService)
            except (Exception, SystemExit):
                failure = Failure()
                self._log.failure("{name}: {child} did not stop cleanly", failure, name=self.name, child=child)
                first = first or failure
        return first

    def _end_of_busy(self) -> Deferred[None]:
        waiter: Deferred[None] = Deferred()
        self._waiting.append(waiter)
        return waiter

    def _no_longer_busy(self) -> None:
        self._busy = False
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.called:
                waiter.callback(None)


@define(eq=False)
class Task:
    """
    A background task.

    :ivar what: its name in the log.
    """

    what: str
    _deferred: Deferred[Any] | None = field(default=None, init=False, repr=False)
    _cancelled: bool = field(default=False, init=False)
    done: bool = field(default=False, init=False)

    def cancel(self) -> None:
        """Cancel the task; what it awaits fails with ``CancelledError``. Has no effect when it is done."""
        if not self.done:
            self._cancelled = True
            if self._deferred is not None:
                self._deferred.cancel()


@define(eq=False)
class Tasks:
    """
    The background tasks of an owner: failures are logged, running tasks are cancelled and awaited at :meth:`stop`.

    :ivar on_failure: called with each failed task, after it was logged.
    """

    on_failure: Callable[[Task, Failure], object] | None = None
    _running: dict[Task, None] = field(factory=dict, init=False)
    _stopped: bool = field(default=False, init=False)
    _waiting: list[Deferred[None]] = field(factory=list, init=False)

    _log = Logger()

    def start(self, coroutine: Coroutine[Deferred[Any], Any, object], what: str) -> Task:
        """
        Run a coroutine in the background. It begins at once.

        After :meth:`stop` it is closed before its first step, as if cancelled there.

        :param what: its name for the log, as in "expiring group members".
        """
        task = Task(what)
        if self._stopped:
            coroutine.close()
            task.done = True
            return task
        self._running[task] = None
        task._deferred = Deferred.fromCoroutine(coroutine)
        task._deferred.addBoth(self._ended, task)
        # A task that cancelled itself in its first step had no Deferred yet.
        if task._cancelled and not task.done:
            task._deferred.cancel()
        return task

    def stop(self) -> Deferred[None]:
        """
        Cancel all running tasks.

        :returns: fires when all have ended.
        """
        self._stopped = True
        for task in list(self._running):
            task.cancel()
        if not self._running:
            return succeed(None)
        waiter: Deferred[None] = Deferred()
        self._waiting.append(waiter)
        return waiter

    @property
    def running(self) -> list[str]:
        """Return the names of running tasks, oldest first."""
        return [task.what for task in self._running]

    def _ended(self, result: object, task: Task) -> None:
        task.done = True
        del self._running[task]
        try:
            if isinstance(result, Failure) and not (task._cancelled and result.check(CancelledError)):
                self._log.failure("{what} failed", result, what=task.what)
                if self.on_failure is not None:
                    self.on_failure(task, result)
        except Exception:
            self._log.failure("telling of the failure of {what}", what=task.what)
        if self._stopped and not self._running:
            waiting, self._waiting = self._waiting, []
            for waiter in waiting:
                if not waiter.called:
                    waiter.callback(None)


@define(eq=False, repr=False, slots=False)
class PeriodicTask(Service):
    """
    Runs a function periodically while the service runs; a run ends before the next begins.

    An error is logged and ends only that run (a plain ``LoopingCall`` stops at the first error).

    :param interval: seconds between the starts of two runs; late runs are skipped.
    :param fn: plain, or returning a Deferred or a coroutine.
    :param what: its name for the log, as in "checking retention".
    :param now: whether the first run is at the start instead of one interval later.
    """

    _clock: IReactorTime
    _interval: float
    _fn: Callable[[], object]
    _what: str
    _now: bool = field(default=False, kw_only=True)
    _loop: LoopingCall = field(init=False)
    _run: Deferred[Any] | None = field(default=None, init=False)
    _ended: Deferred[Any] | None = field(default=None, init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        self._loop = LoopingCall(self._once)
        self._loop.clock = self._clock

    def startService(self) -> None:
        """Start the runs."""
        super().startService()
        self._ended = self._loop.start(self._interval, self._now)

    def stopService(self) -> Deferred[None]:
        """
        Stop the runs, and cancel the current one.

        :returns: fires when that has ended.
        """
        super().stopService()
        if not self._loop.running:
            return succeed(None)
        ended, self._ended = self._ended, None
        assert ended is not None
        self._loop.stop()
        if self._run is not None:
            self._run.cancel()
        return ended.addCallback(lambda _: None)

    def _once(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._guarded())

    async def _guarded(self) -> None:
        try:
            self._run = maybeDeferred(self._fn)
            await self._run
        except CancelledError:
            if self.running:
                self._log.failure("{what}: cancelled by somebody else", what=self._what)
        except Exception:
            self._log.failure("{what} failed", what=self._what)
        finally:
            self._run = None
