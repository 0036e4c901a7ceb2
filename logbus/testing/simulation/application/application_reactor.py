"""The reactor of an application's process, which knows the brokers and other processes of the simulation only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logbus.testing.simulation.application.refusals import Refusals
from logbus.testing.simulation.environment.network import Connector, Network
from logbus.testing.simulation.environment.node_reactor import NodeReactor
from logbus.testing.simulation.environment.virtual_clock import Call, VirtualClock

_CALLS_AT_ONCE = 1000
"""Calls planned at one time before time passes by itself: code that waits turn by turn waits for time."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.1


class ApplicationReactor(NodeReactor):
    """
    A reactor that refuses what is not simulated.

    :param refusals: is told.
    """

    def __init__(self, clock: VirtualClock, network: Network, host: str, refusals: Refusals) -> None:
        super().__init__(clock, network, host)
        self._refusals = refusals
        self._calls, self._calls_at, self._pause = 0, -1.0, _FIRST_PAUSE_S

    def callLater(self, delay: float, callable: Callable[..., Any], *args: Any, **kw: Any) -> Call:
        """Call in ``delay`` seconds. Time passes even if the application never waits for it."""
        now = self._clock.now
        if now != self._calls_at:
            if now - self._calls_at > 2 * self._pause:
                self._pause = _FIRST_PAUSE_S
            self._calls, self._calls_at = 0, now
        self._calls += 1
        if self._calls > _CALLS_AT_ONCE:
            delay = max(delay, self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)
        return super().callLater(delay, callable, *args, **kw)

    def connectTCP(
        self, host: str, port: int, factory: Any, timeout: float = 30, bindAddress: tuple[str, int] | None = None
    ) -> Connector:
        """Connect to a host of the simulation."""
        if host not in self._network.powered:
            raise self._refusals.refuse(
                f"a connection to {host}:{port}",
                "brokers are at simulation.bootstrap; other services need a stand-in in memory",
            )
        return super().connectTCP(host, port, factory, timeout, bindAddress)

    def callInThread(self, callable: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Refused."""
        raise self._refusals.refuse("callInThread()", "there are no threads; call the function itself")

    def getThreadPool(self) -> Any:
        """Refused, and so is ``deferToThread``."""
        raise self._refusals.refuse("a thread pool", "there are no threads; call the function itself")

    def spawnProcess(self, *args: Any, **kwargs: Any) -> Any:
        """Refused."""
        raise self._refusals.refuse("spawnProcess()", "call something in memory that stands for the process")
