"""
The factory of one listener's connections: admits and counts them, checks them periodically, and closes them in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from zope.interface import implementer

from logbus.net.connection_limits import ConnectionLimits, ConnectionQuotas, UnsentReplies, WarningLimiter
from logbus.net.itransport import IFrameFactory
from logbus.net.metrics import NetMetrics
from logbus.net.protocol import CoalescedProduceRouter, KafkaServerProtocol, RefusedConnection, Router
from logbus.net.request_budget import RequestBudget
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import SliceScheduler
from logbus.wire.connection import ServerConnection
from logbus.wire.request_template import TemplateCache

ELEMENTS_AT_ONCE = 2000
"""Array elements of a request that are decoded in one go: a few milliseconds of work."""

__all__ = ["KafkaServerFactory", "KafkaServerProtocol", "Router"]


@implementer(IFrameFactory)
@define(eq=False, slots=False)
class KafkaServerFactory(Factory):
    """
    Makes the connections of one listener.

    :ivar served: the lowest and the highest version served of each API key.
    :ivar router: answers requests. It may return the response, None for "send nothing", or a Deferred of either; it
        answers errors of the request itself. An exception from it is a bug, and closes the connection. What it keeps
        beyond its return must not be in the request's records: their memory is used again.
    :ivar clock: the reactor, for later turns and the sweep.
    :ivar listener: its name, as in ``listeners``.
    :ivar limits: of connections and peers.
    :ivar metrics: counters; share them among listeners for the broker's totals.
    :ivar budget: memory for large frames; share it among all listeners.
    :ivar quotas: counts connections; share it likewise.
    :ivar coalesced_router: answers Produce requests together that differ only in their batches; without it the router
        answers each.
    :ivar unsent: replies that peers have not taken; share it likewise.
    :ivar scheduler: gives time slices to requests of many elements; share it among all listeners.
    """

    served: Mapping[int, tuple[int, int]]
    router: Router
    clock: IReactorTime
    listener: str = "PLAINTEXT"
    limits: ConnectionLimits = field(factory=ConnectionLimits)
    metrics: NetMetrics = field(factory=NetMetrics)
    budget: RequestBudget = field()
    quotas: ConnectionQuotas = field()
    warning_limiter: WarningLimiter = field()
    coalesced_router: CoalescedProduceRouter | None = None
    scheduler: SliceScheduler = field()
    unsent: UnsentReplies = field()
    wire: ServerConnection = field(init=False)
    templates: TemplateCache = field(factory=TemplateCache, init=False)
    _connections: dict[KafkaServerProtocol, None] = field(factory=dict, init=False)
    _sweep: LoopingCall = field(init=False)
    _listening: bool = field(default=False, init=False)
    _drained: list[Deferred[None]] = field(factory=list, init=False)

    _log = Logger()
    noisy = False
    sweep_seconds = 1.0
    sweep_rounds = 5

    @budget.default
    def _budget(self) -> RequestBudget:
        return RequestBudget(256 * 1024 * 1024, self.metrics, self.clock)

    @quotas.default
    def _quotas(self) -> ConnectionQuotas:
        return ConnectionQuotas(self.limits)

    @warning_limiter.default
    def _warning_limiter(self) -> WarningLimiter:
        return WarningLimiter(self.clock.seconds)

    @scheduler.default
    def _scheduler(self) -> SliceScheduler:
        return SliceScheduler(self.clock)

    @unsent.default
    def _unsent(self) -> UnsentReplies:
        return UnsentReplies(self.limits.max_unsent_in_all)

    def __attrs_post_init__(self) -> None:
        self.wire = ServerConnection(self.served, max_elements_at_once=ELEMENTS_AT_ONCE)
        self._sweep = LoopingCall(self._check_some)
        self._sweep.clock = self.clock

    def buildProtocol(self, addr: Any) -> KafkaServerProtocol | RefusedConnection:
        """Admit a connection, or close it because there are too many."""
        host = getattr(addr, "host", "")
        problem = self.quotas.problem(host, self.listener)
        if problem is not None:
            self.metrics.connections_refused += 1
            if self.warning_limiter.admit(host) is not None:
                self._log.warn(
                    "refusing {host} on listener {listener}: {problem}",
                    host=host,
                    listener=self.listener,
                    problem=problem,
                )
            return RefusedConnection(self.metrics)
        number = self.quotas.enter(host, self.listener)
        port = getattr(addr, "port", 0)
        return KafkaServerProtocol(self, RequestContext(number, self.listener, host, port, scheduler=self.scheduler))

    def startFactory(self) -> None:
        """Called when a port listens: start the sweep."""
        self._listening = True
        if not self._sweep.running:
            self._sweep.start(self.sweep_seconds, now=False)

    def stopFactory(self) -> None:
        """Called when no port listens any more; the sweep continues until the last connection is closed."""
        self._listening = False
        self._rest()

    def opened(self, connection: KafkaServerProtocol) -> None:
        """Add an open connection."""
        self._connections[connection] = None
        self.metrics.connections_accepted += 1
        self.metrics.connections_open += 1

    def closed(self, connection: KafkaServerProtocol) -> None:
        """Remove a closed connection."""
        del self._connections[connection]
        self.metrics.connections_open -= 1
        self.quotas.leave(connection.context.host, self.listener)
        if not self._connections:
            drained, self._drained = self._drained, []
            for waiter in drained:
                waiter.callback(None)
            self._rest()

    def drain(self, grace: float = 10.0) -> Deferred[None]:
        """
        Serve no further request, finish those begun, and close all connections. Stop listening first.

        :param grace: seconds after which remaining connections are aborted.
        :returns: fires when no connection is left.
        """
        if not self._connections:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self._drained.append(done)
        last = self.clock.callLater(grace, self._abort_all)

        def cancel_last(result: None) -> None:
            if last.active():
                last.cancel()

        done.addCallback(cancel_last)
        for connection in list(self._connections):
            connection.drain()
        return done

    def _abort_all(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    def _check_some(self) -> None:
        """Check a fifth of the connections, those not checked for longest, to keep each sweep short."""
        connections = self._connections
        now = self.clock.seconds()
        for connection in list(islice(connections, -(-len(connections) // self.sweep_rounds))):
            del connections[connection]
            connections[connection] = None
            connection.check(now)

    def _rest(self) -> None:
        if not self._listening and not self._connections and self._sweep.running:
            self._sweep.stop()
