"""Keeps the processes of an application running: starts them, and starts those that ended again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field
from twisted.internet import error as twisted_errors
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.python.failure import Failure

from logbus.errors import ConfigError, LogbusError
from logbus.testing.simulation.application.application_process import ApplicationProcess, Story, was_stopped
from logbus.testing.simulation.application.refusals import NotSimulated, Refusals
from logbus.testing.simulation.application.simulated_application import SimulatedApplication
from logbus.testing.simulation.environment.broker_node import World

RESTART_S = 1.0
"""Seconds until a process that ended with an error is started again."""

_OUTAGES = (
    *(LogbusError, OSError, asyncio.TimeoutError, DeferredTimeout, EOFError),
    *(twisted_errors.ConnectError, twisted_errors.ConnectionLost, twisted_errors.ConnectionDone),
    *(SystemExit, KeyboardInterrupt),
)


def host_of_instance(number: int) -> str:
    """The address of a process's machine."""
    return f"10.0.2.{number}"


@define(eq=False)
class Supervisor:
    """
    :ivar processes: the instances that are there all the time.
    :ivar victims: by address: how many segments from now a process does something, and what.
    :ivar defect: what is wrong with the application itself, not with what it did; None: nothing so far.
    """

    application: SimulatedApplication
    world: World
    story: Story
    bootstrap: str
    refusals: Refusals
    processes: list[ApplicationProcess] = field(init=False)
    extra: list[ApplicationProcess] = field(factory=list, init=False)
    victims: dict[str, tuple[int, Callable[[], object]]] = field(factory=dict, init=False)
    defect: ConfigError | None = field(default=None, init=False)
    _returned: set[int] = field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self.processes = [self._process(number) for number in range(1, self.application.instances + 1)]

    def _process(self, number: int) -> ApplicationProcess:
        return ApplicationProcess(
            self.world,
            self.story,
            self.bootstrap,
            host_of_instance(number),
            number,
            f"instance {number}",
            self.refusals,
            self._ended,
        )

    @property
    def hosts(self) -> Sequence[str]:
        """The addresses of all that may run."""
        return [host_of_instance(number) for number in range(1, self.application.instances + 2)]

    def start(self) -> None:
        """Start all instances."""
        for each in self.processes:
            each.start(self.application.main)

    def at_step(self, process: Any, steps: int, do: Callable[[], object]) -> None:
        """Do something to a process when it has sent and received so many segments from now on."""
        self.victims[process.host] = (steps, do)

    def stepped(self, host: str) -> None:
        """A process has sent or received a segment."""
        victim = self.victims.get(host)
        if victim is not None:
            steps, do = victim
            if steps > 0:
                self.victims[host] = (steps - 1, do)
            else:
                del self.victims[host]
                do()

    def start_after(self, process: Any, seconds: float) -> None:
        """Start one again after a while."""
        lives = process.lives

        def again() -> None:
            if not process.up and process.lives == lives:
                process.start(self.application.main)

        self.world.clock.at(self.world.clock.now + seconds, None, again)

    def add(self, seconds: float) -> ApplicationProcess | None:
        """Run one more instance for a while; None: there is one already."""
        number = self.application.instances + 1
        if not self.extra:
            self.extra.append(self._process(number))
        (process,) = self.extra
        if process.up:
            return None
        process.start(self.application.main)
        life = process.lives

        def stop() -> None:
            if process.lives == life:
                process.stop()

        self.world.clock.at(self.world.clock.now + seconds, None, stop)
        return process

    def mend(self) -> None:
        """Let all instances run, and no other."""
        self.victims.clear()
        for each in [*self.processes, *self.extra]:
            each.thaw()
        for each in self.extra:
            each.stop()
        for each in self.processes:
            if not each.up and each.number not in self._returned:
                each.start(self.application.main)

    def _ended(self, process: ApplicationProcess, error: BaseException | None) -> None:
        """A life has ended by itself."""
        if isinstance(error, ConfigError):
            self.defect = error
            return
        if isinstance(error, NotSimulated):
            return
        if error is None and not process.stopping:
            process.tell("has returned")
            self._returned.add(process.number)
            return
        if error is None or was_stopped(error):
            process.tell("has stopped")
        elif isinstance(error, (*_OUTAGES, *self.application.restarts_on)):
            process.tell(f"ended with {type(error).__name__}: {error}")
        else:
            self.story.violated("application-failed", f"{process.name}: {Failure(error).getTraceback()}")
            return
        if process in self.processes:
            self.start_after(process, RESTART_S)
