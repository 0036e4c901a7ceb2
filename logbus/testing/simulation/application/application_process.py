"""A simulated process of an application: it starts, ends, is killed, and is started again."""

from __future__ import annotations

import asyncio
import inspect
import signal
from collections.abc import Callable
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from logbus.errors import ConfigError
from logbus.testing.simulation.application.application_reactor import ApplicationReactor
from logbus.testing.simulation.application.cluster_tools import ClusterTools
from logbus.testing.simulation.application.event_loop import SimulatedEventLoop
from logbus.testing.simulation.application.refusals import Refusals
from logbus.testing.simulation.application.simulated_application import Function, name_of
from logbus.testing.simulation.application.simulation import Simulation, TwistedSimulation
from logbus.testing.simulation.environment.broker_node import World

STOP_S = 30.0
"""Seconds that a process has to stop gracefully before it is killed."""


class Story(Protocol):
    """What processes know of their run, and tell it."""

    seed: int
    mended: bool
    database: dict[Any, Any]

    @property
    def now(self) -> float:
        """Seconds since the application was started."""

    def tell(self, line: str) -> None:
        """Add to the history."""

    def violated(self, kind: str, what: str) -> None:
        """Something is not as it must be."""

    def keep(self, thing: object) -> None:
        """Keep something to the end of the run."""


@define(eq=False)
class ApplicationProcess:
    """
    A process, one life after the other.

    :ivar number: of the instance; ``name``: for people.
    :ivar ended: called with the error that ended a life, or None, unless it was killed.
    :ivar stopping: whether this life was asked to end.
    """

    world: World
    story: Story
    bootstrap: str
    host: str
    number: int
    name: str
    refusals: Refusals
    ended: Callable[[ApplicationProcess, BaseException | None], object]
    lives: int = field(default=0, init=False)
    up: bool = field(default=False, init=False)
    stopping: bool = field(default=False, init=False)
    reactor: ApplicationReactor = field(init=False)
    loop: SimulatedEventLoop = field(init=False)
    toolbox: ClusterTools = field(init=False)
    _main: asyncio.Task[Any] | Deferred[Any] | None = field(default=None, init=False)

    def begin(self) -> None:
        """Start a process, which does nothing yet."""
        self.lives += 1
        self.up, self.stopping = True, False
        world = self.world
        self.reactor = reactor = ApplicationReactor(world.clock, world.network, self.host, self.refusals)
        self.loop = loop = SimulatedEventLoop(reactor, self.refusals, self.name)
        loop.set_exception_handler(self._unhandled)
        self.toolbox = ClusterTools(reactor, self.bootstrap, world.generator())
        world.network.started(reactor)

    def start(self, function: Function) -> None:
        """Start a process that runs a function, and ends with it."""
        self.begin()
        self.tell("starts" if self.lives == 1 else f"starts again (life {self.lives})")
        life = self.lives

        def done(result: Any) -> None:
            if self.up and life == self.lives:
                self._finish(result.value if isinstance(result, Failure) else None)

        self._main = None
        self.call(function).addBoth(done)

    def call(self, function: Function) -> Deferred[Any]:
        """Call a function of the application's in this process; fires with its result."""
        result: Deferred[Any] = Deferred()
        if not inspect.iscoroutinefunction(function):
            try:
                found = function(TwistedSimulation(self))
                if not isinstance(found, Deferred):
                    raise _not_async(function, found)
            except Exception as e:
                result.errback(Failure(e))
            else:
                self._main = found
                found.addBoth(result.callback)
            return result

        def done(task: asyncio.Task[Any]) -> None:
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            if error is None:
                result.callback(task.result())
            else:
                result.errback(_explained(error, function))

        def create() -> None:
            self._main = task = self.loop.create_task(function(Simulation(self)), name=self.name)
            task.add_done_callback(done)

        self.loop.run(create)
        return result

    def _finish(self, error: BaseException | None) -> None:
        """The application has ended: cancel its other tasks, as ``asyncio.run`` does, and end."""
        life, tasks = self.lives, [each for each in self.loop.tasks if each is not self._main]

        def end(_: object = None) -> None:
            if self.up and life == self.lives and not any(each in self.loop.tasks for each in tasks):
                self._leave()
                self.ended(self, error)

        def cancel() -> None:
            for each in tasks:
                each.cancel()
                each.add_done_callback(end)

        if tasks:
            self.loop.run(cancel)
            self.reactor.callLater(STOP_S, tasks.clear)
            self.reactor.callLater(STOP_S, end)
        else:
            end()

    def stop(self) -> bool:
        """Stop it as SIGTERM does: by its handler, or by cancelling; return whether it ran."""
        if not self.up or self.reactor.frozen or self.stopping:
            return False
        self.stopping = True
        self.tell("is asked to stop")
        life = self.lives
        handler = self.loop.signals.get(signal.SIGTERM)
        if handler is not None:
            self.loop.run(handler._run)
        elif isinstance(self._main, Deferred):
            self._main.cancel()
        elif self._main is not None:
            self.loop.run(self._main.cancel)

        def give_up() -> None:
            if self.up and life == self.lives:
                self.tell(f"did not stop in {STOP_S:g} s, and is killed")
                self.kill()
                self.ended(self, None)

        self.world.clock.at(self.world.clock.now + STOP_S, None, give_up)
        return True

    def kill(self) -> bool:
        """End it at once, as SIGKILL does; return whether it ran."""
        if not self.up:
            return False
        self._leave()
        return True

    def freeze(self) -> bool:
        """Stop it for a while, as SIGSTOP does; return whether it ran."""
        if not self.up or self.reactor.frozen:
            return False
        self.reactor.freeze()
        return True

    def thaw(self) -> bool:
        """Let it continue; return whether it missed anything."""
        missed = bool(self.reactor.missed)
        if self.up and self.reactor.frozen:
            self.reactor.thaw()
        return missed

    def _leave(self) -> None:
        """The process is gone; what it had stays in memory, so that no ``finally`` block runs as it is collected."""
        self.up = False
        reactor, network = self.reactor, self.world.network
        self.story.keep((self._main, self.loop, self.world.clock.calls_of(reactor), self.toolbox))
        self.story.keep([each for each in network.streams if each.source.reactor is reactor])
        reactor.dead = True
        network.ended(reactor, silently=False)

    def forget(self) -> None:
        """Let go of what is left of all lives."""
        self._main = None
        if self.lives:
            del self.loop, self.toolbox

    def tell(self, line: str) -> None:
        """Add to the history."""
        self.story.tell(f"{self.name} {line}")

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if self.reactor.dead:
            return
        error = context.get("exception")
        told = context.get("message", "an error") if error is None else Failure(error).getTraceback()
        self.story.violated("unhandled-error", f"{self.name}: {told}")


def was_stopped(error: BaseException | None) -> bool:
    """Whether a process ended because it was asked to."""
    return isinstance(error, asyncio.CancelledError | CancelledError)


def _not_async(function: Function, found: object) -> ConfigError:
    if inspect.iscoroutine(found):
        found.close()
        what = "returned a coroutine; for asyncio write 'async def', for Twisted return Deferred.fromCoroutine(...)"
    else:
        what = f"returned {found!r}; write 'async def' for asyncio, or return a Deferred for Twisted"
    return ConfigError(f"{name_of(function)} {what}")


def _explained(error: BaseException, function: Function) -> BaseException:
    if isinstance(error, RuntimeError) and "Task got bad yield: <Deferred" in str(error):
        return ConfigError(
            f"{name_of(function)} is 'async def', so asyncio's, and awaits a Deferred; "
            "for Twisted return Deferred.fromCoroutine(...), or use inlineCallbacks"
        )
    return error
