"""
HTTP connections of the admin listener: :mod:`twisted.web` with the limits that it lacks.

A connection serves one request at a time: bytes behind a request that is not answered yet are discarded, and the answer
says ``Connection: close``. Pipelining clients must expect that (RFC 9112, 9.3.2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress, IDelayedCall, IReactorTime, ITCPTransport
from twisted.internet.protocol import Protocol
from twisted.internet.task import Cooperator
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel, datetimeToString
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from logbus.addresses import unmapped_address
from logbus.admin import strict_json
from logbus.admin.address_share import address_share
from logbus.admin.authentication import HttpAuthentication
from logbus.admin.authorization import HttpAuthorization
from logbus.admin.connection_slots import ConnectionSlots
from logbus.admin.http_limits import HttpLimits
from logbus.admin.pages import Pages
from logbus.admin.problem_details import CONTENT_TYPE, RETRY_AFTER_SECONDS, problem
from logbus.admin.request import AdminRequest
from logbus.admin.request_guard import SECURITY_HEADERS, RequestGuard
from logbus.admin.routing import Router

if TYPE_CHECKING:
    from logbus.admin.site import MountedResource

MAX_DISCARDED = 1 << 20
"""Bytes that a refused client may still send before its connection is aborted."""

_NO_ROOM = strict_json.dumps(
    problem(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "This listener has all connections that it may have, or all of your address, or it is being stopped; close "
        "those that are not needed, and try again.",
    )
)
_SECURITY_LINES = "".join(f"{name}: {value}\r\n" for name, value in SECURITY_HEADERS.items()).encode()

_NO_HTTP = (b"\0", b"\x16")
"""How clients of Kafka and of TLS begin: with the length of a frame, with a handshake."""


class AdminChannel(HTTPChannel):
    """
    A connection.

    :ivar host: the client's address; empty on a UNIX socket.
    :ivar health_only: whether it was admitted for health checks only.
    :ivar refused: whether a request was refused; further bytes are discarded.
    :ivar logging_in: whether it is not known yet who sends the request.
    """

    site: AdminHTTPFactory
    host = ""
    health_only = False
    refused = False
    logging_in = False
    _busy = False
    _discarded = 0
    _deadline: IDelayedCall | None = None

    def __init__(self, limits: HttpLimits) -> None:
        super().__init__()
        self.maxHeaders = limits.header_count
        self.totalHeadersSize = limits.head_bytes
        self.MAX_LENGTH = limits.line_bytes

    # One timer for the next deadline; the idle timer is twisted.web's.

    def _within(self, seconds: float, otherwise: Callable[[], None]) -> None:
        self._no_deadline()
        self._deadline = self.site.clock.callLater(seconds, self._expired, otherwise)

    def _expired(self, otherwise: Callable[[], None]) -> None:
        self._deadline = None
        otherwise()

    def _no_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def timeoutConnection(self) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        """Close after the written bytes are sent, or after a short time in any case."""
        self.refused = True
        self._within(self.site.limits.linger_seconds, self.abort)
        self.loseConnection()

    def abort(self) -> None:
        """Close at once."""
        self.refused = True
        transport = cast(ITCPTransport, self.transport)  # TLS and UNIX sockets have it, too
        transport.abortConnection()

    def close_when_idle(self) -> None:
        """Close now if idle, else after the current answer."""
        self.persistent = 0
        if self._busy:
            self.requests[0].responseHeaders.setRawHeaders(b"Connection", [b"close"])
        else:
            self.hang_up()

    # The connection.

    def connectionMade(self) -> None:
        super().connectionMade()
        self.site.opened(self)
        if self.health_only:
            # It is admitted for one request only.
            self._within(self.site.limits.health_seconds, self.abort)

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        self._no_deadline()
        super().connectionLost(reason)
        self.site.closed(self)

    def dataReceived(self, data: bytes) -> None:
        if self.refused:
            self._discarded += len(data)
            if self._discarded > MAX_DISCARDED:
                self.abort()
        elif self._busy:
            self._no_successors()
        else:
            if self._deadline is None:
                self._within(self.site.limits.request_seconds, self._too_slow)
                if data[:1] in _NO_HTTP:
                    # They would wait for an answer as long as we for the end of the line.
                    self._respondToBadRequestAndDisconnect()
                    return
            super().dataReceived(data)

    def lineReceived(self, line: bytes) -> None:
        if not self.refused:
            super().lineReceived(line)

    def rawDataReceived(self, data: bytes) -> None:
        if not self.refused:
            super().rawDataReceived(data)

    # A request.

    def allHeadersReceived(self) -> None:
        if self.length is not None and self.length > self.body_bytes:
            self.refuse_body()
            return
        super().allHeadersReceived()

    def allContentReceived(self) -> None:
        if self.refused:
            return
        self._no_deadline()
        # Old browsers send an empty line after a POST.
        following = (self.clearLineBuffer() + b"".join(self._dataBuffer)).strip(b"\r\n")
        self._dataBuffer = []
        self._busy = True
        if following:
            self._no_successors()
        super().allContentReceived()

    @property
    def answering(self) -> bool:
        """Whether a complete request of somebody known is not answered yet."""
        return self._busy and not self.logging_in

    @property
    def body_bytes(self) -> int:
        """The longest body allowed for the request."""
        first = self._path.removeprefix(b"/").partition(b"/")[0].partition(b"?")[0]
        mounted = self.site.mounted.get(first)
        return self.site.limits.body_bytes if mounted is None else mounted.body_bytes

    def _no_successors(self) -> None:
        self.persistent = 0
        request = self.requests[0]
        if not request.startedWriting:
            request.responseHeaders.setRawHeaders(b"Connection", [b"close"])

    def requestDone(self, request: Request) -> None:
        self._busy = False
        self.site.slots.answered(self)
        if not self.persistent:
            # twisted.web's timers are off now, and the client may never read the end of the answer.
            self._within(self.site.limits.idle_seconds, self.abort)
        super().requestDone(request)

    # Refusals before a request is complete.

    def refuse_body(self) -> None:
        """Refuse a body that is too long."""
        self.refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body is longer than {self.body_bytes} bytes.")

    def _too_slow(self) -> None:
        seconds = self.site.limits.request_seconds
        self.refuse(HTTPStatus.REQUEST_TIMEOUT, f"The request was not whole after {seconds:g} seconds.")

    def lineLengthExceeded(self, line: bytes) -> None:
        self.refuse(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"A line is longer than {self.site.limits.line_bytes} bytes."
        )

    def _respondToBadRequestAndDisconnect(self) -> None:
        limits = self.site.limits
        self.refuse(
            HTTPStatus.BAD_REQUEST,
            f"This is not HTTP/1.1 as RFC 9112 has it, or it has more than {limits.header_count} headers "
            f"or {limits.head_bytes} bytes of them.",
        )

    def refuse(self, status: HTTPStatus, detail: str) -> None:
        """Refuse an incomplete request, and close after the client has had time to read the answer."""
        if self.refused:
            return
        self.refused = True
        body = strict_json.dumps(problem(status, detail))
        head = {
            "Server": "logbus",
            "Date": datetimeToString(self.site.wall_clock()).decode(),
            "Content-Type": CONTENT_TYPE,
            "Content-Length": str(len(body)),
            "Connection": "close",
            **SECURITY_HEADERS,
        }
        lines = [f"HTTP/1.1 {int(status)} {status.phrase}", *(f"{name}: {value}" for name, value in head.items())]
        cast(ITCPTransport, self.transport).write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        self._within(self.site.limits.linger_seconds, self.hang_up)


class RejectedConnection(Protocol):
    """
    Answers 503 to a connection beyond the limits, and closes it.

    (A factory may return None instead of a protocol, but wrapping factories, such as TLS, do not support that.)
    """

    def connectionMade(self) -> None:
        """Answer before any request, and close."""
        transport = cast(ITCPTransport, self.transport)
        transport.write(
            b"HTTP/1.1 503 Service Unavailable\r\nServer: logbus\r\nRetry-After: %d\r\nContent-Type: %b\r\n"
            b"Content-Length: %d\r\nConnection: close\r\n%b\r\n%b"
            % (RETRY_AFTER_SECONDS, CONTENT_TYPE.encode(), len(_NO_ROOM), _SECURITY_LINES, _NO_ROOM)
        )
        transport.loseConnection()


class AdminHTTPFactory(Site):
    """
    The factory and shared state of a listener's connections.

    :ivar pages: the pages for browsers.
    :ivar mounted: resources of plugins, by the first segment of their paths.
    :ivar public_paths: paths that everybody may ask for.
    """

    def __init__(
        self,
        *,
        router: Router,
        pages: Pages,
        guard: RequestGuard,
        authentication: HttpAuthentication,
        authorization: HttpAuthorization,
        public_paths: Callable[[], Collection[str]],
        mounted: Mapping[bytes, MountedResource],
        clock: IReactorTime,
        wall_clock: Callable[[], float],
        limits: HttpLimits,
    ) -> None:
        super().__init__(Resource(), AdminRequest, timeout=limits.idle_seconds, reactor=clock)
        self.router = router
        self.pages = pages
        self.guard = guard
        self.authentication = authentication
        self.authorization = authorization
        self.public_paths = public_paths
        self.mounted = mounted
        self.clock = clock
        self.wall_clock = wall_clock
        self.limits = limits
        self.connections: set[AdminChannel] = set()
        self.slots: ConnectionSlots[AdminChannel] = ConnectionSlots(limits)
        self.cooperator = Cooperator(
            terminationPredicateFactory=lambda: lambda: True,  # one step per reactor turn
            scheduler=lambda step: clock.callLater(0, step),
        )
        self._drained: Deferred[None] | None = None

    noisy = False

    def protocol(self) -> AdminChannel:  # type: ignore[override]
        return AdminChannel(self.limits)

    def buildProtocol(self, addr: IAddress | None) -> Protocol | None:  # type: ignore[override]
        host = unmapped_address(getattr(addr, "host", ""))
        admission = None if self._drained is not None else self.slots.admit(address_share(host))
        if admission is None:
            return RejectedConnection()
        if admission.evict is not None:
            self.slots.leave(admission.evict)
            admission.evict.abort()
        channel = cast(AdminChannel, super().buildProtocol(addr))
        channel.host = host
        channel.health_only = admission.health_only
        return cast(Protocol, channel)

    def opened(self, channel: AdminChannel) -> None:
        """Register a connection."""
        self.connections.add(channel)
        self.slots.enter(channel, address_share(channel.host), channel.health_only)

    def closed(self, channel: AdminChannel) -> None:
        """Unregister a connection."""
        self.slots.leave(channel)
        self.connections.discard(channel)
        if self._drained is not None and not self.connections and not self._drained.called:
            self._drained.callback(None)

    def drain(self) -> Deferred[None]:
        """Close idle connections now and the others after their answers; fires when all are closed."""
        if not self.connections:
            return succeed(None)
        if self._drained is None:
            self._drained = Deferred()
            late = self.clock.callLater(self.limits.drain_seconds, self._abort_all)
            self._drained.addCallback(lambda _: late.cancel() if late.active() else None)
            for channel in list(self.connections):
                channel.close_when_idle()
        waiting: Deferred[None] = Deferred()
        self._drained.addCallback(lambda _: waiting.callback(None))
        return waiting

    def _abort_all(self) -> None:
        for channel in list(self.connections):
            channel.abort()
