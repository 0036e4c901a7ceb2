"""
The time of an asyncio event loop as Twisted's ``IReactorTime``, which is what the client needs of a reactor besides
connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

from logbus.client.aio.log_events import forward


@implementer(IReactorTime)
class EventLoop:
    """
    The running event loop. It is found when it is first needed, so that a client can be made before the loop runs, as
    web applications do with what they keep in modules.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """
        The event loop that the client belongs to.

        :raises RuntimeError: no event loop runs, and none has yet.
        """
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            forward()
        return self._loop

    @property
    def is_running(self) -> bool:
        """Whether the client has begun to use a loop that is not closed."""
        return self._loop is not None and not self._loop.is_closed()

    def seconds(self) -> float:
        """The loop's time."""
        return self.loop.time()

    def callLater(self, delay: float, callable: Callable[..., object], *args: object, **kwargs: object) -> IDelayedCall:
        """Call a function after this many seconds. On a closed loop nothing is ever called."""
        return _DelayedCall(self.loop, delay, callable, args, kwargs)

    def getDelayedCalls(self) -> list[IDelayedCall]:
        """Not known: the loop has others' calls, too."""
        return []


@implementer(IDelayedCall)
class _DelayedCall:
    """A call that the loop is to make."""

    __slots__ = ("_args", "_function", "_handle", "_is_cancelled", "_kwargs", "_loop", "_time")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        delay: float,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> None:
        self._loop = loop
        self._function: Callable[..., object] | None = function
        self._args, self._kwargs = args, kwargs
        self._is_cancelled = False
        self._handle: asyncio.Handle | None = None
        self._schedule(delay)

    def _schedule(self, delay: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        if self._loop.is_closed():
            # Clients are collected after the loop has ended, and what their coroutines do then leads to nothing.
            self._time, self._function, self._is_cancelled = 0.0, None, True
        elif delay <= 0:
            self._time = self._loop.time()
            self._handle = self._loop.call_soon(self._call)
        else:
            self._time = self._loop.time() + delay
            self._handle = self._loop.call_at(self._time, self._call)

    def _call(self) -> None:
        function, self._function = self._function, None
        if function is not None:
            function(*self._args, **self._kwargs)

    def active(self) -> bool:
        """Whether it is still to be called."""
        return self._function is not None

    def getTime(self) -> float:
        """The time at which it is called, in the loop's time."""
        return self._time

    def cancel(self) -> None:
        """Do not call it."""
        self._check()
        self._function, self._is_cancelled = None, True
        if self._handle is not None:
            self._handle.cancel()

    def delay(self, secondsLater: float) -> None:
        """Call it so much later than planned."""
        self._check()
        self._schedule(self._time + secondsLater - self._loop.time())

    def reset(self, secondsFromNow: float) -> None:
        """Call it so long from now."""
        self._check()
        self._schedule(secondsFromNow)

    def _check(self) -> None:
        if self._is_cancelled:
            raise AlreadyCancelled
        if self._function is None:
            raise AlreadyCalled


def current(event_loop: EventLoop) -> asyncio.AbstractEventLoop:
    """
    The running loop, which must be the client's.

    :raises RuntimeError: it is another one.
    """
    running = asyncio.get_running_loop()
    if event_loop.loop is not running:
        raise RuntimeError(
            "this client belongs to another event loop, in which it was first used; make one for each loop"
        )
    return running
