"""
The factory of one listener's connections: admits and counts them, checks them periodically, and closes them in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from zope.interface import implementer

from logbus.addresses import unmapped_address
from logbus.net.itransport import IFrameFactory
from logbus.net.metrics import NetMetrics
from logbus.net.prepared_fetches import FetchPreparer
from logbus.net.produce_gatherer import GatheredProduceRouter
from logbus.net.protocol import KafkaServerProtocol, PrincipalBuilder
from logbus.net.request_context import RequestContext
from logbus.net.request_routing import CoalescedProduceRouter, ProducePreparer, RepeatedFetchRouter, Router
from logbus.net.sasl_login import SaslLogin
from logbus.net.shared_resources import SharedResources
from logbus.wire.connection import ServerConnection
from logbus.wire.fetch_template import FetchTemplateCache
from logbus.wire.request_template import TemplateCache

ELEMENTS_AT_ONCE = 2000
"""Array elements of a request that are decoded in one go: a few milliseconds of work."""


@implementer(IFrameFactory)
@define(eq=False, slots=False)
class KafkaServerFactory(Factory):
    """
    Makes the connections of one listener.

    :ivar served: the lowest and the highest version served of each API key.
    :ivar router: answers requests. It may return the response, None for "send nothing", or a Deferred of either; it
        answers errors of the request itself. An exception from it is a bug, and closes the connection. What it keeps
        beyond its return must not be in the request's records: their memory is used again.
    :ivar shared: what the connections of all listeners share.
    :ivar listener: its name, as in ``listeners``.
    :ivar principal_builder: returns the principal of a TLS connection, given its transport; None for a client without
        a certificate (Kafka: KafkaPrincipalBuilder).
    :ivar coalesced_router: answers Produce requests together that differ only in their batches; without it the router
        answers each.
    :ivar gathered_router: likewise, those of several connections.
    :ivar repeated_router: answers Fetch requests that differ from an earlier one in a few numbers; without it the
        router answers each.
    :ivar fetch_preparer: prepares the responses to the fetches that will follow one of the ``repeated_router``; without
        it no thread answers them.
    :ivar preparer: says what a Produce request waits for before it is served; without it each is served at once.
    :ivar login: how clients log in by SASL; None: they do not.
    """

    served: Mapping[int, tuple[int, int]]
    router: Router
    shared: SharedResources
    listener: str = "PLAINTEXT"
    coalesced_router: CoalescedProduceRouter | None = None
    principal_builder: PrincipalBuilder | None = None
    login: SaslLogin | None = None
    gathered_router: GatheredProduceRouter | None = None
    repeated_router: RepeatedFetchRouter | None = None
    preparer: ProducePreparer | None = None
    fetch_preparer: FetchPreparer | None = None
    metrics: NetMetrics = field(init=False)
    wire: ServerConnection = field(init=False)
    templates: TemplateCache = field(factory=TemplateCache, init=False)
    fetch_templates: FetchTemplateCache = field(factory=FetchTemplateCache, init=False)
    _connections: dict[KafkaServerProtocol, None] = field(factory=dict, init=False)
    _sweep: LoopingCall = field(init=False)
    _listening: bool = field(default=False, init=False)
    _drained: list[Deferred[None]] = field(factory=list, init=False)

    _log = Logger()
    noisy = False
    sweep_seconds = 1.0
    sweep_rounds = 5

    def __attrs_post_init__(self) -> None:
        self.metrics = self.shared.metrics
        self.wire = ServerConnection(
            self.served, max_elements_at_once=ELEMENTS_AT_ONCE, count_error=self.shared.errors.count
        )
        self._sweep = LoopingCall(self._check_some)
        self._sweep.clock = self.shared.clock

    def buildProtocol(self, addr: Any) -> KafkaServerProtocol | RefusedConnection:
        """Admit a connection, or close it because there are too many."""
        host = unmapped_address(getattr(addr, "host", ""))
        problem = self.shared.quotas.problem(host, self.listener)
        if problem is not None:
            self.metrics.connections_refused += 1
            if self.shared.warning_limiter.admit(host) is not None:
                self._log.warn(
                    "refusing {host} on listener {listener}: {problem}",
                    host=host,
                    listener=self.listener,
                    problem=problem,
                )
            return RefusedConnection(self.metrics)
        if self.shared.rates.is_active and self._is_throttled(host):
            return RefusedConnection(self.metrics)
        number = self.shared.quotas.enter(host, self.listener)
        port = getattr(addr, "port", 0)
        context = RequestContext(number, self.listener, host, port, scheduler=self.shared.scheduler)
        return KafkaServerProtocol(self, context)

    def _is_throttled(self, host: str) -> bool:
        """Count a new connection; whether its address makes too many. If the listener does, it pauses."""
        rates = self.shared.rates
        if rates.refuse(host):
            self.metrics.connections_refused += 1
            if self.shared.warning_limiter.admit(host) is not None:
                self._log.warn(
                    "refusing {host} on listener {listener}: its connection_creation_rate is used up",
                    host=host,
                    listener=self.listener,
                )
            return True
        pause = rates.delay(self.listener)
        if pause:
            self.shared.pause(self.listener, pause)
        return False

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
        self.shared.arrivals.add(connection.context)
        self.metrics.connections_accepted += 1
        self.metrics.connections_open += 1

    def closed(self, connection: KafkaServerProtocol) -> None:
        """Remove a closed connection."""
        del self._connections[connection]
        self.metrics.connections_open -= 1
        self.shared.quotas.leave(connection.context.host, self.listener)
        self.shared.lost.lost(connection.context.connection_id)
        if not self._connections:
            drained, self._drained = self._drained, []
            for waiter in drained:
                waiter.callback(None)
            self._rest()

    def abort_connection(self, connection_id: int) -> None:
        """Close a connection now, with what is unfinished, if it is open."""
        for connection in self._connections:
            if connection.context.connection_id == connection_id:
                return connection.abort()

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
        last = self.shared.clock.callLater(grace, self.abort)

        def cancel_last(result: None) -> None:
            if last.active():
                last.cancel()

        done.addCallback(cancel_last)
        for connection in list(self._connections):
            connection.drain()
        return done

    def abort(self) -> None:
        """Close all connections at once, without an answer to anybody."""
        for connection in list(self._connections):
            connection.abort()

    @property
    def transports(self) -> list[Any]:
        """The transports of all connections."""
        return [connection.transport for connection in self._connections]

    def _check_some(self) -> None:
        """Check a fifth of the connections, those not checked for longest, and release buffers that none needs."""
        connections = self._connections
        now = self.shared.clock.seconds()
        for connection in list(islice(connections, -(-len(connections) // self.sweep_rounds))):
            del connections[connection]
            connections[connection] = None
            connection.check(now)
        self.shared.buffers.trim()

    def _rest(self) -> None:
        if not self._listening and not self._connections and self._sweep.running:
            self._sweep.stop()


class RefusedConnection(Protocol):
    """
    A connection that is not admitted: closed at once.

    (A factory may return no protocol at all, but wrapping factories, such as TLS, cannot handle that.)
    """

    def __init__(self, metrics: NetMetrics) -> None:
        self.metrics = metrics

    def connectionMade(self) -> None:
        """Close."""
        transport: Any = self.transport
        transport.abortConnection()
