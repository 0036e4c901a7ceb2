"""
What is simulated: an application, the topics it works on, who writes its input, and what must be true in the end.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from attrs import define, field

from logbus.errors import ConfigError

Function: TypeAlias = Callable[[Any], Any]
"""A coroutine function for asyncio, or a function that returns a Deferred; its argument is a :class:`.Simulation`."""


@define(eq=False)
class SimulatedApplication:
    """
    An application and its surroundings; :func:`simulated` makes it.

    :ivar main: the application.
    :ivar topics: number of partitions by name.
    :ivar instances: how many processes of it run.
    :ivar restarts_on: errors that end a process and are no defect, besides those that outages cause.
    :ivar source: what runs beside the application, and no fault hits: it writes the input.
    :ivar checks: what must hold in the end.
    """

    main: Function
    topics: Mapping[str, int]
    instances: int
    restarts_on: tuple[type[BaseException], ...]
    source: Function | None = field(default=None, init=False)
    checks: list[Function] = field(factory=list, init=False)

    def __call__(self, simulation: Any) -> Any:
        """Run the application itself."""
        return self.main(simulation)

    @property
    def name(self) -> str:
        """Module and function."""
        return f"{getattr(self.main, '__module__', '?')}:{name_of(self.main)}"

    def input(self, function: Function) -> Function:
        """
        Decorate the function that writes the input.

        :raises ConfigError: there is one already, or it is no function of one argument.
        """
        if self.source is not None:
            raise ConfigError(f"{self.name} has an input, {name_of(self.source)}; write both in one function")
        check_function(function, f"the input of {self.name}")
        self.source = function
        return function

    def check(self, function: Function) -> Function:
        """
        Decorate a function that checks the outcome, and fails, as by ``assert``, if it is not as it must be.

        It is called once all faults have ended, and again while it fails, for half a minute; and a last time when all
        has been quiet for a while.

        :raises ConfigError: it is no function of one argument.
        """
        check_function(function, f"a check of {self.name}")
        self.checks.append(function)
        return function


def simulated(
    *, topics: Mapping[str, int] | None = None, instances: int = 1, restarts_on: tuple[type[BaseException], ...] = ()
) -> Callable[[Function], SimulatedApplication]:
    """
    Decorate an application that is to be simulated.

    .. code-block:: python

        @simulated(topics={"orders": 2, "invoices": 2}, instances=2)
        async def billing(simulation: Simulation) -> None: ...

    :param topics: the number of partitions of each topic; they are there when the application starts.
    :param instances: how many processes of the application run.
    :param restarts_on: errors after which it is to be started again. Errors of logbus, of the network and of
        time-outs are such ones already; any other is reported as a defect.
    :raises ConfigError: an argument is wrong, or what is decorated is no function of one argument.
    """
    topics = {} if topics is None else topics
    if not isinstance(topics, Mapping) or not all(
        isinstance(name, str) and isinstance(count, int) and count > 0 for name, count in topics.items()
    ):
        raise ConfigError(f"topics is {topics!r}; give numbers of partitions by name, such as {{'orders': 2}}")
    if isinstance(instances, bool) or not isinstance(instances, int) or not 1 <= instances <= 100:
        raise ConfigError(f"instances is {instances!r}; give a number from 1 to 100")
    if not isinstance(restarts_on, tuple) or not all(
        isinstance(each, type) and issubclass(each, BaseException) for each in restarts_on
    ):
        raise ConfigError(f"restarts_on is {restarts_on!r}; give a tuple of exceptions")

    def decorate(function: Function) -> SimulatedApplication:
        check_function(function, "an application")
        return SimulatedApplication(function, dict(topics), instances, restarts_on)

    return decorate


def check_function(function: object, what: str) -> None:
    """:raises ConfigError: it is no function that takes a simulation."""
    name = name_of(function)
    if not callable(function):
        raise ConfigError(f"{what} is {function!r}; give a function of one argument, the simulation")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        shown = inspect.signature(function)
        raise ConfigError(f"{what} is {name}{shown}; it must take one argument, the simulation") from None
    except ValueError:
        return  # Some callables written in C tell no signature.
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise ConfigError(f"{what}, {name}, is a generator; write async def without yield, or use inlineCallbacks")


def name_of(function: object) -> str:
    """The name of a function."""
    return getattr(function, "__name__", None) or repr(function)
