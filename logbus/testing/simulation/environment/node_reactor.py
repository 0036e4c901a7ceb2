"""The reactor of one simulated process, with virtual time and sockets of the memory network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import (
    IHostnameResolver,
    IHostResolution,
    IReactorFromThreads,
    IReactorPluggableNameResolver,
    IReactorTCP,
    IReactorTime,
    IResolutionReceiver,
)
from zope.interface import implementer

from logbus.net.standstills import Standstills
from logbus.testing.simulation.environment.network import Connector, Network, Port
from logbus.testing.simulation.environment.virtual_clock import Call, VirtualClock


@implementer(IHostResolution)
class _Resolution:
    """A name resolution under way."""

    def __init__(self, name: str) -> None:
        self.name = name

    def cancel(self) -> None:
        """Nothing to cancel: it is resolved at once."""


@implementer(IHostnameResolver)
class _Names:
    """A resolver of host names that are addresses."""

    def resolveHostName(
        self,
        resolutionReceiver: IResolutionReceiver,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[type[Any]] | None = None,
        transportSemantics: str = "TCP",
    ) -> IHostResolution:
        """Resolve at once: the name is an address."""
        resolution = _Resolution(hostName)
        resolutionReceiver.resolutionBegan(resolution)
        resolutionReceiver.addressResolved(IPv4Address("TCP", hostName, portNumber))
        resolutionReceiver.resolutionComplete()
        return resolution


@implementer(IReactorTime, IReactorTCP, IReactorFromThreads, IReactorPluggableNameResolver)
class NodeReactor:
    """
    The reactor of a process.

    :ivar host: its address.
    :ivar dead: the process ended: no more events reach it.
    :ivar frozen: no events reach it now; those due meanwhile are delivered when it is thawed.
    """

    def __init__(self, clock: VirtualClock, network: Network, host: str) -> None:
        self._clock = clock
        self._network = network
        self.host = host
        self.dead = False
        self.frozen = False
        self.missed: list[Call] = []
        self.nameResolver = _Names()
        self.seconds: Callable[[], float] = lambda: clock.now
        self.running = True
        self.standstills = Standstills(self.seconds)

    def freeze(self) -> None:
        """Stop it, as SIGSTOP does."""
        self.frozen = True

    def thaw(self) -> None:
        """Notice it, deliver all delayed events, and continue."""
        self.frozen = False
        self.standstills.look()
        missed, self.missed = self.missed, []
        for call in missed:
            if call.active():
                call.time = self._clock.now
                self._clock.push(call)

    def callLater(self, delay: float, callable: Callable[..., Any], *args: Any, **kw: Any) -> Call:
        """Call in ``delay`` seconds."""
        return self._clock.push(Call(self._clock, self._clock.now + delay, self, callable, args, kw))

    def getDelayedCalls(self) -> Sequence[Call]:
        """Nothing: only the clock knows the scheduled calls."""
        return ()

    def callFromThread(self, callable: Callable[..., Any], *args: Any, **kw: Any) -> None:
        """Call in a turn of its own."""
        self.callLater(0, callable, *args, **kw)

    def callWhenRunning(self, callable: Callable[..., Any], *args: Any, **kw: Any) -> None:
        """Call at once: it is running."""
        callable(*args, **kw)

    def addSystemEventTrigger(self, phase: str, eventType: str, callable: Any, *args: Any, **kw: Any) -> object:
        """Nothing: it is never stopped gracefully."""
        return object()

    def removeSystemEventTrigger(self, triggerID: object) -> None:
        """See above."""

    def installNameResolver(self, resolver: Any) -> Any:
        """Use another resolver; return the one before."""
        before, self.nameResolver = self.nameResolver, resolver
        return before

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Port:
        """Listen."""
        listening = Port(self._network, self, port, factory)
        listening.startListening()
        return listening

    def connectTCP(
        self, host: str, port: int, factory: Any, timeout: float = 30, bindAddress: tuple[str, int] | None = None
    ) -> Connector:
        """Connect."""
        connector = Connector(self._network, self, host, port, factory, timeout)
        connector.connect()
        return connector
