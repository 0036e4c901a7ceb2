"""An event loop of asyncio on the virtual clock and the memory network: the loop of one simulated process."""

from __future__ import annotations

import asyncio
import errno
import itertools
import sys
from asyncio import events
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from twisted.internet.error import ConnectionRefusedError as TwistedConnectionRefused

from logbus.testing.simulation.application.loop_connection import LoopConnection, LoopFactory
from logbus.testing.simulation.application.refusals import Refusals
from logbus.testing.simulation.environment.node_reactor import NodeReactor
from logbus.testing.simulation.environment.virtual_clock import Call


class _Numbered:
    """
    Has its number as hash. By default that is an address, so that sets of tasks, which asyncio has, would have another
    order in each process.
    """

    _number: int

    def __hash__(self) -> int:
        return self._number


class _Future(_Numbered, asyncio.Future[Any]):
    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)


class _Task(_Numbered, asyncio.Task[Any]):
    def __init__(self, number: int, coroutine: Any, **options: Any) -> None:
        self._number = number
        super().__init__(coroutine, **options)


class _Timer(asyncio.TimerHandle):
    """A handle that takes its event out of the clock's queue when it is cancelled."""

    planned: Call | None = None

    def cancel(self) -> None:
        if self.planned is not None and self.planned.active():
            self.planned.cancel()
        super().cancel()


class SimulatedEventLoop(asyncio.BaseEventLoop):
    """
    Runs callbacks as events of the virtual clock; the clock runs it, so it never runs by itself.

    :param reactor: of the process: when that is dead, nothing is called any more, and when it is frozen, later.
    :param refusals: is told what is not simulated.
    :ivar process_name: for people.
    :ivar tasks: all that are not done. They are kept, as a killed process must not run its ``finally`` blocks.
    :ivar signals: handlers by signal number.
    """

    def __init__(self, reactor: NodeReactor, refusals: Refusals, process_name: str) -> None:
        self._reactor = reactor
        super().__init__()
        self.process_name = process_name
        self._refusals = refusals
        self._due: deque[asyncio.Handle] = deque()
        self._has_turn = False
        self._numbers = itertools.count(1)
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.signals: dict[int, asyncio.Handle] = {}

    # Time.

    def time(self) -> float:
        """The virtual time, in seconds."""
        return self._reactor.seconds()

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        """Call in the next turn."""
        handle = asyncio.Handle(callback, args, self, context)
        self._due.append(handle)
        if not self._has_turn:
            self._plan_turn()
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """Call in the next turn; there is one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> _Timer:
        """Call after so many seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> _Timer:
        """Call at a time."""
        timer = _Timer(when, callback, args, self, context)
        timer.planned = self._reactor.callLater(max(when - self.time(), 0.0), self._expired, timer)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing to count: cancelled timers leave the clock's queue."""

    def _expired(self, timer: _Timer) -> None:
        with self._running():
            timer._run()

    def _turn(self) -> None:
        """Run what was due when the turn began."""
        self._has_turn = False
        with self._running():
            for _ in range(len(self._due)):
                handle = self._due.popleft()
                if not handle.cancelled():
                    try:
                        handle._run()
                    except SystemExit:
                        pass  # The task has it as its result, and ends its process.
                if self._reactor.dead:
                    return
        if self._due and not self._has_turn:
            self._plan_turn()

    def _plan_turn(self) -> None:
        self._has_turn = True
        self._reactor.callLater(0, self._turn)

    def run(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function now, as a callback of the loop."""
        with self._running():
            asyncio.Handle(function, args, self)._run()

    @contextmanager
    def _running(self) -> Iterator[None]:
        before, hooks = events._get_running_loop(), sys.get_asyncgen_hooks()
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(
            firstiter=self._asyncgen_firstiter_hook,  # type: ignore[attr-defined]
            finalizer=self._asyncgen_finalizer_hook,  # type: ignore[attr-defined]
        )
        try:
            yield
        finally:
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(before)

    def is_running(self) -> bool:
        """While its process lives."""
        return not self.is_closed()

    def is_closed(self) -> bool:
        """Whether its process has ended."""
        return self._reactor.dead

    def set_debug(self, enabled: bool) -> None:
        """Only whether it is on is kept."""
        self._debug = enabled

    def run_forever(self) -> None:
        """Refused."""
        raise self._refusals.refuse("running an event loop", "the simulation runs it; await the coroutine")

    def run_until_complete(self, future: Any) -> Any:
        """Refused."""
        if asyncio.iscoroutine(future):
            future.close()
        self.run_forever()

    def stop(self) -> None:
        """Refused."""
        raise self._refusals.refuse("stopping the event loop", "return from the application")

    # Tasks.

    def create_future(self) -> asyncio.Future[Any]:
        """A future."""
        return _Future(next(self._numbers), self)

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None, **options: Any) -> asyncio.Task[Any]:
        """A task."""
        factory = self.get_task_factory()
        if factory is not None:
            options = {**options, "context": context} if context is not None else options
            task: asyncio.Task[Any] = factory(self, coro, **options)  # type: ignore[assignment]
        else:
            number = next(self._numbers)
            name = name or f"Task-{number}"
            task = _Task(number, coro, loop=self, name=name, context=context, **options)
        self.tasks[task] = None
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)

    def add_signal_handler(  # type: ignore[override]
        self, sig: int, callback: Callable[..., Any], *args: Any
    ) -> None:
        """Have a function called when the process gets a signal; a graceful stop sends SIGTERM."""
        self.signals[sig] = asyncio.Handle(callback, args, self)

    def remove_signal_handler(self, sig: int) -> bool:
        """Call it no more."""
        return self.signals.pop(sig, None) is not None

    # Connections.

    async def create_connection(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        **options: Any,
    ) -> tuple[LoopConnection, Any]:
        """
        Connect to a broker.

        :raises OSError: it does not answer, or refuses.
        """
        if host is None or port is None or options.get("sock") is not None:
            raise self._refusals.refuse("a connection of a given socket", "connect to simulation.bootstrap")
        if options.get("ssl"):
            raise self._refusals.refuse("TLS", "the simulated brokers have plaintext listeners; connect without")
        made: asyncio.Future[Any] = self.create_future()

        def connected(connection: LoopConnection, protocol: Any) -> None:
            if made.done():
                connection.abort()
            else:
                made.set_result((connection, protocol))

        def failed(error: BaseException) -> None:
            if not made.done():
                made.set_exception(_os_error(error, host, port))

        connector = self._reactor.connectTCP(host, port, LoopFactory(self.run, protocol_factory, connected, failed))
        try:
            found: tuple[LoopConnection, Any] = await made
            return found
        except asyncio.CancelledError:
            connector.disconnect()
            raise


def _os_error(error: BaseException, host: str, port: int) -> OSError:
    if isinstance(error, TwistedConnectionRefused):
        return ConnectionRefusedError(errno.ECONNREFUSED, f"connection to {host}:{port} refused")
    return TimeoutError(errno.ETIMEDOUT, f"connecting to {host}:{port} took too long")


_IN_MEMORY = "what the application asks of other services needs a stand-in in memory"
_IO_METHODS = (
    *("create_server", "create_unix_connection", "create_unix_server", "create_datagram_endpoint", "start_tls"),
    *("getaddrinfo", "getnameinfo", "connect_read_pipe", "connect_write_pipe", "subprocess_exec", "subprocess_shell"),
    *("add_reader", "remove_reader", "add_writer", "remove_writer", "sock_connect", "sock_accept", "sock_recv"),
    *("sock_recv_into", "sock_sendall", "sock_sendfile", "sendfile", "connect_accepted_socket"),
)
_BLOCKING = "there are no threads; call the function itself, or one that stands for it"


def _refuse(name: str, instead: str) -> Any:
    def refused(self: SimulatedEventLoop, *args: Any, **kwargs: Any) -> Any:
        for each in args:
            if asyncio.iscoroutine(each):
                each.close()
        raise self._refusals.refuse(f"{name}() of the event loop", instead)

    refused.__name__ = name
    refused.__doc__ = "Refused."
    return refused


for _name, _instead in (
    *((name, _IN_MEMORY) for name in _IO_METHODS),
    ("run_in_executor", _BLOCKING),
):
    setattr(SimulatedEventLoop, _name, _refuse(_name, _instead))
