"""
The server's side of a connection: receives, has the requests served, and closes when that is due.

Its parts: :class:`.RequestDispatcher` serves requests; :class:`.FlowControl` says when; :class:`.ResponseSender` sends;
:class:`.FrameMemory` has the memory; :class:`.ConnectionDeadlines` finds peers that are idle, and :class:`.LoginLimits`
those that do not log in; :class:`.FetchHandover` has a thread answer fetches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from typing import Protocol as Shape

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHalfCloseableProtocol, IHandshakeListener
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.errors import ProtocolError
from logbus.net.channel_binding import channel_binding
from logbus.net.connection_deadlines import ConnectionDeadlines, ConnectionProgress
from logbus.net.connection_limits import more_suppressed
from logbus.net.fetch_handover import FetchHandover
from logbus.net.flow_control import (
    CLOSING,
    GIVING_WAY,
    IN_THREAD,
    LATER,
    PENDING,
    PREPARING,
    THROTTLED,
    UNSENT,
    FlowControl,
)
from logbus.net.frame_memory import FrameMemory
from logbus.net.itransport import IFrameTransport
from logbus.net.login_limits import LoginLimits
from logbus.net.prepared_fetches import AnsweredFetches
from logbus.net.request_context import RequestContext
from logbus.net.request_dispatcher import RequestDispatcher
from logbus.net.request_routing import RequestRouting
from logbus.net.response_sender import ResponseSender
from logbus.net.sasl_login import SaslLogin
from logbus.net.stream_transport import StreamTransport
from logbus.records.file_slice import Parts
from logbus.security.sasl.sasl_session import SessionExpired
from logbus.security.tls.ssl_principal_mapper import NoMatchingRule
from logbus.wire.frame_buffer import FrameBuffer
from logbus.wire.request_template import CoalescedProduce

PrincipalBuilder = Callable[[Any], str | None]
"""Returns the principal of a TLS connection, given its transport; raises NoMatchingRule if it has none."""


class ConnectionListener(RequestRouting, Shape):
    """
    The listener that accepted a connection: :class:`logbus.net.factory.KafkaServerFactory`.

    :ivar principal_builder: of TLS connections.
    :ivar login: how clients log in; None: they do not.
    """

    principal_builder: PrincipalBuilder | None
    login: SaslLogin | None

    def opened(self, connection: KafkaServerProtocol) -> None:
        """Add an open connection."""

    def closed(self, connection: KafkaServerProtocol) -> None:
        """Remove a closed connection."""


@implementer(IHalfCloseableProtocol, IHandshakeListener)
class KafkaServerProtocol(Protocol):
    """
    One client's connection. Made by :class:`logbus.net.factory.KafkaServerFactory`.

    :ivar frames: received bytes that are not served yet; the transport fills it.
    :ivar memory: its memory.
    """

    _log = Logger()
    _frame_transport: IFrameTransport

    def __init__(self, listener: ConnectionListener, context: RequestContext) -> None:
        shared = listener.shared
        self._listener = listener
        self._shared = shared
        self.metrics = shared.metrics
        self.frames = FrameBuffer(shared.limits.request_max_bytes, pool=shared.buffers)
        login = None
        self._login_limits: LoginLimits | None = None
        if (policy := listener.login) is not None:
            login = policy.begin(shared.clock, listener.wire)
            self._login_limits = LoginLimits(policy, self.frames, shared)
        self._flow = FlowControl(self.frames, shared, self._serve)
        self._sender = ResponseSender(shared, self._stop_for_unsent)
        self.dispatcher = RequestDispatcher(listener, context, self.frames, self._flow, self._sender, self, login)
        self._handover = FetchHandover(self.dispatcher, self.frames, self._flow, self._sender, self)
        self.memory = FrameMemory(self.frames, shared.budget, self._flow, self.dispatcher, self, shared.buffers)
        self._deadlines = ConnectionDeadlines(shared.limits, shared.clock.seconds())
        # The peer sends no more; the connection is closed for the peer; it is closed.
        self._ended = False
        self._aborted = False
        self._lost = False

    @property
    def context(self) -> RequestContext:
        """Describes the peer."""
        return self.dispatcher.context

    # Called by Twisted.

    def connectionMade(self) -> None:
        """Choose the transport for replies."""
        transport: Any = self.transport
        limits = self._shared.limits
        if not IFrameTransport.providedBy(transport):
            transport = StreamTransport(transport, self, self.metrics)
        elif limits.send_buffer > 0:
            transport.set_send_buffer(limits.send_buffer)
        self._frame_transport = self._flow.transport = self._sender.transport = transport
        self._listener.opened(self)

    def handshakeCompleted(self) -> None:
        """The TLS handshake is over: learn who the peer is, by its certificate."""
        self.context.channel = channel_binding(self.transport)
        build = self._listener.principal_builder
        if build is None:
            return
        try:
            principal = build(self.transport)
        except NoMatchingRule as e:
            self._warn(str(e))
            self._close()
            return
        if principal is not None:
            self.context.principal = principal

    def dataReceived(self, data: bytes) -> None:
        """Append bytes from a transport with memory of its own."""
        self.metrics.bytes_in += len(data)
        flow = self._flow
        if flow.stops & CLOSING:
            return
        self.frames.append(data)
        grown = self.memory.count_received()
        self.frames_ready()
        if grown and not flow.stops and self.frames.partial:
            self.memory.wait_for(0)
        if not (flow.stops & CLOSING or flow.may_read):
            self._frame_transport.pause_reading()

    def readConnectionLost(self) -> None:
        """
        The peer sends no more. It may still read (or be gone: that looks the same), so its requests are served and
        answered; but none keeps waiting.
        """
        self._ended = True
        if self.dispatcher.is_blocked:
            self._close_when_sent()
        else:
            self._finish_if_ended()

    def writeConnectionLost(self) -> None:
        """Never called: we never close only one direction."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Give up what only this peer waits for."""
        self._lost = True
        if self._login_limits is not None:
            self._login_limits.connection_lost()
        self._sender.connection_lost()
        self._flow.connection_lost()
        self.dispatcher.connection_lost()
        self.memory.connection_lost()
        self._listener.closed(self)

    # Called by the transport.

    def frames_ready(self) -> None:
        """Bytes were received: serve whole frames, unless there is a reason to wait."""
        flow = self._flow
        if not flow.stops:
            self._serve()
            return
        self.dispatcher.held_back()
        if flow.stops & UNSENT:
            self._frame_transport.pause_reading()

    def sent(self) -> None:
        """Fewer bytes are unsent than before: continue if that was the reason to wait."""
        self._sender.sent()
        if self._flow.stops & UNSENT and self._sender.caught_up:
            self._flow.resume(UNSENT)
        if self.dispatcher.fetches.last is not None and not self._ended:
            self._handover.begin()

    def fetches_answered(self, answered: AnsweredFetches) -> None:
        """A thread has answered the peer's fetches, and gives the connection back."""
        self._handover.finished(answered)
        if self._lost:
            return
        if self._ended:
            self._flow.stops &= ~IN_THREAD
            self._finish_if_ended()
        elif answered.error is None:
            self.frames.append(answered.received)
            self._flow.resume(IN_THREAD)

    def enlarge(self) -> None:
        """A read filled the buffer: enlarge it, so that one read receives more of the small requests in flight."""
        if not self._flow.stops:
            self.memory.double()

    # Called by the listener.

    def check(self, now: float) -> None:
        """Close the connection if the peer has been idle for too long, or has left a frame incomplete."""
        limits, stops = self._shared.limits, self._flow.stops
        if stops & IN_THREAD:
            if self._handover.is_stuck(now, limits.frame_seconds if stops & CLOSING else limits.idle_seconds):
                self.evict("it does not take its response")
            return
        if self.dispatcher.order.waiting or stops & (THROTTLED | CLOSING) == THROTTLED:
            patience = math.inf
        else:
            # A connection that is closing, and whose peer does not take the rest of its replies, has less time.
            patience = limits.frame_seconds if stops & CLOSING else limits.idle_seconds
        overdue = self._deadlines.check(
            now,
            ConnectionProgress(self.dispatcher.requests, self._frame_transport.unsent, self.frames.held),
            partial=self.frames.partial,
            reading=not stops,
            patience=patience,
        )
        if self._deadlines.is_still:
            self.memory.give_back_memory()
        if self._login_limits is not None and self._login_limits.is_overdue(now):
            overdue = "it did not log in in time"
        if overdue is not None:
            self.evict(overdue)

    def drain(self) -> None:
        """Serve no further request, finish those begun, then close."""
        self._ended = True
        self._flow.stops |= CLOSING
        self._frame_transport.pause_reading()
        self._handover.recall()
        self._finish_if_ended()

    def abort(self) -> None:
        """Close now, with what is unfinished."""
        self._flow.stops |= CLOSING
        self._aborted = True
        self._frame_transport.abortConnection()

    # Called by the parts.

    def _serve(self) -> None:
        served = False
        try:
            served = self.dispatcher.serve()
        except Exception:
            self.request_failed(Failure())
        self._after_serving(served)

    def finish_run(self, run: CoalescedProduce, answer: bytes | Deferred[bytes] | None) -> None:
        """Answer Produce requests that were left to the gatherer; None: serve them."""
        if self._lost:
            return
        try:
            if answer is not None:
                self.dispatcher.finish_run(run, answer)
            elif not self.dispatcher.serve_ungathered(run):
                self.frames_ready()
                return
        except Exception:
            self.request_failed(Failure())
        self._after_serving(True)

    def _after_serving(self, served: bool) -> None:
        """After requests were served, or there were none: send responses, and decide how to go on."""
        if self._sender.parts:
            self._sender.flush()
        if self._ended:
            self._finish_if_ended()
            return
        frames, memory = self.frames, self.memory
        if memory.reserved and (served or not frames.held):
            memory.release_spare()
        if not self._flow.stops and frames.held and (shortage := frames.shortage):
            memory.wait_for(shortage)
        if self.dispatcher.fetches.last is not None:
            self._handover.begin()

    def response_ready(self) -> None:
        """A response that was waited for is sent, or waits for those before it."""
        if not self._flow.stops and not self.frames.held:
            self.memory.release_spare()
        self._finish_if_ended()

    def logged_in(self) -> None:
        """The client has logged in, or logged in again."""
        assert self._login_limits is not None
        self._login_limits.logged_in()

    def login_failed(self, parts: Parts, why: str) -> None:
        """Send ``parts`` to a client that could not log in, and close the connection, after a delay."""
        assert self._login_limits is not None

        def say_farewell() -> None:
            if not self.dispatcher.order.waiting:
                self._sender.parts += parts
            self._close()

        self._warn(f"authentication failed: {why}")
        self._flow.stops |= CLOSING
        self._frame_transport.pause_reading()
        self._login_limits.failed(say_farewell)

    def request_failed(self, failure: Failure) -> None:
        """Close the connection; the client will reconnect. What is not the client's fault is a bug, and logged."""
        if isinstance(failure.value, ProtocolError):
            if isinstance(failure.value, SessionExpired):
                self.metrics.sessions_expired += 1
            else:
                self.metrics.broken_frames += 1
            self._warn(str(failure.value))
        else:
            self.metrics.failures += 1
            self._log.failure("a request of {host} failed", failure, host=self.context.host)
        self._close()

    def out_of_memory(self, error: Exception) -> None:
        """The system has no memory for a frame that the budget admits: close the connection."""
        self._warn(f"no memory for its request: {error}")
        self._close()

    def evict(self, why: str) -> None:
        """Close the connection of a peer that is idle or slow."""
        if self._aborted:
            return
        self.metrics.connections_expired += 1
        self._log.info("closing {host}:{port}: {why}", host=self.context.host, port=self.context.port, why=why)
        self.abort()

    def _stop_for_unsent(self) -> None:
        if not self._flow.stops & UNSENT:
            self._flow.stop_serving(UNSENT)

    # Internals.

    def _finish_if_ended(self) -> None:
        """Close if the peer sends nothing more and all its requests are answered."""
        if not self._ended or self.dispatcher.order.waiting:
            return
        stops = self._flow.stops
        if stops & IN_THREAD:
            return
        if stops & CLOSING or not stops & (LATER | UNSENT | PENDING | THROTTLED | PREPARING | GIVING_WAY):
            self._close_when_sent()

    def _close(self) -> None:
        """Send ready responses, then close."""
        self._flow.stops |= CLOSING
        if not self._lost:
            if self._sender.parts:
                self._sender.flush()
            self._close_when_sent()

    def _close_when_sent(self) -> None:
        """Serve nothing more, and close once the transport has sent what it was given."""
        self._flow.stops |= CLOSING
        self._frame_transport.loseConnection()

    def _warn(self, problem: str) -> None:
        context = self.context
        suppressed = self._shared.warning_limiter.admit(context.host)
        if suppressed is not None:
            self._log.warn(
                "closing {host}:{port} on listener {listener}: {problem}{more}",
                host=context.host,
                port=context.port,
                listener=context.listener,
                problem=problem,
                more=more_suppressed(suppressed),
            )
