"""
The server's side of a connection: decodes frames to requests, routes them, and sends responses in the order of the
requests.

Only a Produce that waits for its acks may overlap later requests; any other request without a response blocks those
after it. They stay, undecoded, in the receive buffer; when that is full, in the kernel; and then at the client. So a
peer cannot make requests pile up here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias
from typing import Protocol as Shape

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IHalfCloseableProtocol
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.errors import ProtocolError
from logbus.net.itransport import IFrameTransport
from logbus.net.metrics import NetMetrics
from logbus.net.request_context import RequestContext
from logbus.net.response_order import ResponseOrder, ResponseSlot
from logbus.net.sendfile import StreamTransport
from logbus.net.shared_resources import SharedResources
from logbus.records.file_slice import Parts
from logbus.wire.codegen import ELEMENTS_PER_STEP
from logbus.wire.connection import Request, ServerConnection
from logbus.wire.frame_buffer import FLOOR, FrameBuffer
from logbus.wire.request_template import CoalescedProduce, RequestTemplate, TemplateCache

Answer: TypeAlias = Any
"""A response message, or ``bytes`` (a response body already encoded), or None: nothing is sent (acks=0)."""

Router: TypeAlias = Callable[[RequestContext, Request], "Answer | Deferred[Answer]"]

CoalescedProduceRouter: TypeAlias = Callable[[RequestContext, CoalescedProduce], "bytes | Deferred[bytes] | None"]
"""
Serves several Produce requests together; returns their encoded responses, or a Deferred of them. None: nothing was
done, and the first request must be served by itself.
"""

PRODUCE = 0

# Reasons why a connection serves no further request at the moment; any number of these.
_BLOCKED = 1  # an earlier request must be answered first
_PENDING = 2  # too many requests wait for their responses
_UNSENT = 4  # the peer does not take its responses
_MEMORY = 8  # the next frame must wait for memory
_LATER = 16  # other connections get their turn
_CLOSING = 32

_KEEP = 4 << 20
_SEND_NOW = 1 << 16
_MAX_READ_AHEAD = 1 << 16


class Listener(Shape):
    """The state that the connections of one listener share: :class:`logbus.net.factory.KafkaServerFactory`."""

    shared: SharedResources
    wire: ServerConnection
    router: Router
    coalesced_router: CoalescedProduceRouter | None
    templates: TemplateCache

    def opened(self, connection: KafkaServerProtocol) -> None:
        """Add an open connection."""

    def closed(self, connection: KafkaServerProtocol) -> None:
        """Remove a closed connection."""


@implementer(IHalfCloseableProtocol)
class KafkaServerProtocol(Protocol):
    """
    One client's connection. Made by :class:`logbus.net.factory.KafkaServerFactory`.

    :ivar context: describes the peer.
    :ivar frames: received bytes that are not served yet; the transport fills it.
    """

    _log = Logger()

    def __init__(self, listener: Listener, context: RequestContext) -> None:
        shared = listener.shared
        limits = shared.limits
        self._listener = listener
        self._shared = shared
        self.context = context
        self.metrics = shared.metrics
        self.frames = FrameBuffer(limits.request_max_bytes)
        self.requests = 0
        self._limits = limits
        self._wire = listener.wire
        self._router = listener.router
        # None until a Produce request was recognized as one that will be repeated.
        self._coalesced_router: CoalescedProduceRouter | None = None
        self._template: RequestTemplate | None = None
        self._budget = shared.budget
        self._frame_transport: IFrameTransport
        self._out: Parts = []
        self._all_unsent = shared.unsent
        # This connection's part of it.
        self._unsent = 0
        self._pending = ResponseOrder(limits.max_pending, limits.max_unsent, shared.metrics)
        self._blocker: ResponseSlot | None = None
        self._stops = 0
        self._serving = False
        self._lost = False
        self._ended = False
        self._aborted = False
        self._grown = 0
        self._later: IDelayedCall | None = None
        self._flush_call: IDelayedCall | None = None
        # This connection's progress at the last sweep, the time since which it has been there, and for how many
        # seconds the first frame has been waiting for the peer to complete it.
        self._mark = (0, 0, 0)
        self._still_since = self._checked = shared.clock.seconds()
        self._frame_age: float | None = None

    # Called by Twisted.

    def connectionMade(self) -> None:
        """Choose the transport for replies."""
        transport: Any = self.transport
        if IFrameTransport.providedBy(transport):
            self._frame_transport = transport
            if self._limits.send_buffer > 0:
                self._frame_transport.set_send_buffer(self._limits.send_buffer)
        else:
            self._frame_transport = StreamTransport(transport, self, self.metrics)
        self._listener.opened(self)

    def dataReceived(self, data: bytes) -> None:
        """Append bytes from a transport with memory of its own."""
        self.metrics.bytes_in += len(data)
        if self._stops & _CLOSING:
            return
        frames = self.frames
        frames.append(data)
        received = frames.capacity - FLOOR - self._grown
        if received > 0:
            self._grown += received
            self._budget.charge(self, received)
        self.frames_ready()
        if received > 0 and not self._stops and frames.partial:
            self._wait_for_memory(0)
        if not (self._stops & _CLOSING or self._may_read()):
            self._frame_transport.pause_reading()

    def readConnectionLost(self) -> None:
        """
        The peer sends no more. It may still read (or be gone: that looks the same), so its requests are served and
        answered; but none keeps waiting.
        """
        self._ended = True
        if self._blocker is not None:
            self._stops |= _CLOSING
            self._frame_transport.loseConnection()
        else:
            self._finish_if_ended()

    def writeConnectionLost(self) -> None:
        """Never called: we never close only one direction."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Cancel requests that only this peer waits for. A Produce whose records are in the log runs to its end."""
        self._count_unsent(0)
        self._lost = True
        self._stops |= _CLOSING
        self._out = []
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._flush_call is not None:
            self._flush_call.cancel()
            self._flush_call = None
        for entry in self._pending.clear():
            request = entry.request
            if entry.deferred is not None and (request.api_key != PRODUCE or request.held):
                entry.deferred.cancel()
        self._budget.forget(self)
        self._listener.closed(self)

    # Called by the transport.

    def frames_ready(self) -> None:
        """Bytes were received: serve whole frames, unless there is a reason to wait."""
        if not self._stops:
            self._serve()

    def sent(self) -> None:
        """Fewer bytes are unsent than before: continue if that was the reason to wait."""
        unsent = self._frame_transport.unsent
        self._count_unsent(unsent)
        if self._stops & _UNSENT and unsent <= self._all_unsent.allowed(self._limits.max_unsent) // 2:
            self._resume(_UNSENT)

    def enlarge(self) -> None:
        """A read filled the buffer: enlarge it, so that one read receives more of the small requests in flight."""
        if not self._stops:
            size = self.frames.capacity
            if self._budget.try_reserve(self, size):
                self._grown += self.frames.grow(2 * size)

    # Called by the budget.

    @property
    def host(self) -> str:
        """The peer's address; empty on a UNIX socket."""
        return self.context.host

    def memory_granted(self, size: int) -> None:
        """More memory was reserved for the next frame."""
        self._grown += size
        self._stops &= ~_MEMORY
        try:
            self.frames.grow(self.frames.capacity + size)
        except (OSError, MemoryError) as e:
            self._warn("no memory for its request: {error}", e)
            self._close()
            return
        if not self._stops:
            self._frame_transport.resume_reading()

    def give_back_memory(self) -> None:
        """Shrink the buffer to its content, if that is worth it."""
        if self._frame_in_use:
            return
        self.frames.shrink()
        spare = self._grown - (self.frames.capacity - FLOOR)
        if spare > 0:
            self._grown -= spare
            self._budget.release(self, spare)

    def progress(self) -> tuple[int, int] | None:
        """Frames received, and bytes of the unfinished one; None if the peer is not expected to send."""
        frames = self.frames
        if self._stops & ~_UNSENT or not frames.partial:
            return None
        return self.requests, frames.held

    def evict(self, why: str) -> None:
        """Close the connection: others need the memory of its incomplete frame."""
        self._expire(why)

    # Called by the listener.

    def check(self, now: float) -> None:
        """
        Close the connection if the peer has been idle for too long, or has left a frame incomplete. Called
        periodically, so that serving a request never reads the clock.
        """
        seconds, self._checked = now - self._checked, now
        mark = (self.requests, self._frame_transport.unsent, self.frames.held)
        if mark[0] != self._mark[0] or not self.frames.partial:
            self._frame_age = None
        elif not self._stops:
            # The time in which we do not read is not added to the frame's age; but it does not reset it either.
            self._frame_age = 0.0 if self._frame_age is None else self._frame_age + seconds
            if self._frame_age >= self._limits.frame_seconds + self.frames.held / self._limits.frame_rate:
                self._expire(f"a frame was not complete after {self._frame_age:.0f} s")
        if mark != self._mark:
            self._mark = mark
            self._still_since = now
            return
        self.give_back_memory()
        # A connection that is closing, and whose peer does not take the rest of its replies, has less time.
        patience = self._limits.frame_seconds if self._stops & _CLOSING else self._limits.idle_seconds
        if not self._pending and now - self._still_since >= patience:
            self._expire(f"nothing moved for {now - self._still_since:.0f} s")

    def drain(self) -> None:
        """Serve no further request, finish those begun, then close."""
        self._ended = True
        self._stops |= _CLOSING
        self._frame_transport.pause_reading()
        self._finish_if_ended()

    def abort(self) -> None:
        """Close now, with what is unfinished."""
        self._stops |= _CLOSING
        self._aborted = True
        self._frame_transport.abortConnection()

    # Internals.

    def _serve(self) -> None:
        frames = self.frames
        next_frame = frames.next_frame
        receive = self._wire.receive
        respond = self._wire.respond
        router = self._router
        pending = self._pending
        templates = self._listener.templates
        most, left = self._limits.turn_requests, self._limits.turn_bytes
        served = collected = 0
        run: CoalescedProduce | None = None
        self._serving = True
        try:
            while not self._stops:
                if (coalesced_router := self._coalesced_router) is not None:
                    room = min(most - served, pending.room) if pending else most - served
                    run = templates.take(frames, self._template, room, left)
                    if run is not None:
                        self._template = run.template
                        answers = coalesced_router(self._context_for(run.template.client_id), run)
                    if run is not None and answers is not None:
                        templates.passed(run, frames)
                        served += len(run.batches)
                        left -= run.size
                        if pending or answers.__class__ is not bytes:
                            self._wait_coalesced(run, answers)
                        else:
                            self._out.append(answers)
                            collected += len(answers)
                        if not frames.held:
                            break
                        if served == most or left <= 0:
                            self._serve_later()
                        continue
                frame = next_frame()
                if frame is None:
                    break
                request = receive(frame)
                served += 1
                context = self._context_for(request.client_id)
                if request.decoding is not None:
                    self._serve_in_slices(context, request)
                    continue
                if request.api_key == PRODUCE and run is None and templates.learn(request, frame):
                    self._coalesced_router = self._listener.coalesced_router
                answer = router(context, request)
                # Bytes are checked first: isinstance() of Deferred, an abstract class, is slow.
                if answer.__class__ is not bytes and isinstance(answer, Deferred):
                    self._wait(request, answer)
                elif answer is None:
                    pass
                elif pending:
                    self._append(ResponseSlot(request, None, respond(request, answer)))
                else:
                    parts = respond(request, answer)
                    self._out += parts
                    # Small replies are sent together at the end; large ones, and slices of files, at once.
                    collected += len(parts[0]) if len(parts) == 1 else _SEND_NOW
                    if collected >= _SEND_NOW:
                        self._flush()
                        collected = 0
                left -= request.size
                if (served == most or left <= 0) and frames.held:
                    self._serve_later()
        except ProtocolError as e:
            self._protocol_error(e)
        except Exception:
            self._fail(Failure())
        finally:
            self._serving = False
            self.requests += served
            self.metrics.requests += served
        if self._out:
            self._flush()
        if self._ended:
            self._finish_if_ended()
            return
        if self._grown and (served or not frames.held):
            self._release_spare_memory()
        if not self._stops and frames.held and (shortage := frames.shortage):
            self._wait_for_memory(shortage)

    @property
    def _frame_in_use(self) -> bool:
        """Whether the last frame is still being read, though its request was handed to the router."""
        return self._blocker is not None and self._blocker.request.held

    def _release_spare_memory(self) -> None:
        """Release much memory, or memory that others need, after a frame is complete."""
        if self._grown and (self._grown > _KEEP or self._budget.short) and not self._frame_in_use:
            self.give_back_memory()
            self._budget.release(self, 0)

    def _wait_for_memory(self, size: int) -> None:
        self._stops |= _MEMORY
        self._budget.reserve(self, size, self.frames.missing)
        if self._stops & _MEMORY:
            self._throttle()

    def _may_read(self) -> bool:
        """
        Whether more may be received. Reading on while a response is not ready detects the loss of a connection; but the
        bytes waiting in memory are bounded, whatever the transport.
        """
        stops = self._stops
        return not stops or (not stops & ~(_BLOCKED | _LATER) and self.frames.held <= _MAX_READ_AHEAD)

    def _context_for(self, client_id: str | None) -> RequestContext:
        """The request context with the request's client id."""
        context = self.context
        if client_id != context.client_id:
            context = self.context = evolve(context, client_id=client_id)
        return context

    def _append(self, entry: ResponseSlot) -> None:
        self._pending.add(entry)
        if self._pending.full:
            self._stops |= _PENDING
            self._throttle()

    def _wait(self, request: Request, answer: Deferred[Answer]) -> None:
        entry = ResponseSlot(request, answer, [])
        self._append(entry)
        answer.addCallbacks(self._answered, self._failed, callbackArgs=(entry,), errbackArgs=(entry,))
        if not entry.ready and (request.api_key != PRODUCE or request.exclusive):
            self._blocker = entry
            self._stops |= _BLOCKED

    def _serve_in_slices(self, context: RequestContext, request: Request) -> None:
        """Serve a request with more elements than are decoded in one go; those after it wait."""
        # The frame is decoded in place; bytes received meanwhile go to other memory.
        self.frames.detach_frames()
        request.exclusive = request.held = request.sliced = True
        self._wait(request, Deferred.fromCoroutine(self._decode_and_route(context, request)))

    async def _decode_and_route(self, context: RequestContext, request: Request) -> Answer:
        assert request.decoding is not None
        await context.time_slice(request).finish(request.decoding, ELEMENTS_PER_STEP)
        answer = self._router(context, request)
        return await answer if isinstance(answer, Deferred) else answer

    def _wait_coalesced(self, run: CoalescedProduce, answers: bytes | Deferred[bytes]) -> None:
        if isinstance(answers, bytes):
            self._append(ResponseSlot(run, None, [answers], len(run.batches)))
            return
        entry = ResponseSlot(run, answers, [], len(run.batches))
        self._append(entry)
        answers.addCallbacks(self._answered, self._failed, callbackArgs=(entry,), errbackArgs=(entry,))

    def _answered(self, answer: Answer, entry: ResponseSlot) -> None:
        if self._lost:
            return
        request = entry.request
        try:
            if isinstance(request, CoalescedProduce):
                parts: Parts = [answer]
            elif request.sliced and answer is not None:
                steps = self._wire.respond_in_steps(request, answer)
                encoding = self.context.time_slice(request).finish(steps, ELEMENTS_PER_STEP)
                entry.deferred = Deferred.fromCoroutine(encoding)
                entry.deferred.addCallbacks(self._settle, self._failed, callbackArgs=(entry,), errbackArgs=(entry,))
                return
            else:
                parts = [] if answer is None else self._wire.respond(request, answer)
        except Exception:
            self._fail(Failure())
            return
        self._settle(parts, entry)

    def _settle(self, parts: Parts, entry: ResponseSlot) -> None:
        """Send a response, once those before it are ready."""
        if self._lost:
            return
        for ready in self._pending.settle(entry, parts):
            self._out += ready
        if self._out and not self._serving:
            if entry.request.held and self._pending:
                # The requests that waited with it are most likely answered in the same turn: send them together.
                self._flush_later()
            else:
                self._flush()
        # The caller that gave the response may be in the middle of something: continue in a turn of its own.
        if entry is self._blocker:
            self._blocker = None
            self._resume_later(_BLOCKED)
        if self._stops & _PENDING and not self._pending.full:
            self._resume_later(_PENDING)
        self._finish_if_ended()

    def _failed(self, failure: Failure, entry: ResponseSlot) -> None:
        if self._lost and failure.check(CancelledError):
            return
        if isinstance(failure.value, ProtocolError):
            self._protocol_error(failure.value)
        else:
            self._fail(failure)

    def _flush(self) -> None:
        transport = self._frame_transport
        out, self._out = self._out, []
        transport.send(out)
        unsent = transport.unsent
        if unsent or self._unsent:
            self._count_unsent(unsent)
            if unsent > self._all_unsent.allowed(self._limits.max_unsent) and not self._stops & _UNSENT:
                self._stops |= _UNSENT
                self._throttle()

    def _count_unsent(self, unsent: int) -> None:
        if not self._lost:
            self._all_unsent.total += unsent - self._unsent
            self._unsent = unsent

    def _flush_later(self) -> None:
        if self._flush_call is None:
            self._flush_call = self._shared.clock.callLater(0, self._flush_now)

    def _flush_now(self) -> None:
        self._flush_call = None
        if self._out and not self._serving:
            self._flush()

    def _finish_if_ended(self) -> None:
        """Close if the peer sends nothing more and all its requests are answered."""
        if not self._ended or self._pending:
            return
        if self._stops & _CLOSING or not self._stops & (_LATER | _UNSENT | _PENDING):
            self._stops |= _CLOSING
            self._frame_transport.loseConnection()

    def _throttle(self) -> None:
        if not self._lost:
            self.metrics.throttled_reads += 1
            self._frame_transport.pause_reading()

    def _resume(self, reason: int) -> None:
        """Remove a reason to wait; continue if it was the last one."""
        self._stops &= ~reason
        if not self._stops:
            # Before more is received: a peer that sends faster than it is served must not fill our memory.
            if not self._serving:
                self._serve()
            if self._may_read():
                self._frame_transport.resume_reading()

    def _resume_later(self, reason: int) -> None:
        self._stops &= ~reason
        if not self._stops:
            if not self.frames.held:
                self._release_spare_memory()
            elif not self._serving:
                self._serve_later()
            if self._may_read():
                self._frame_transport.resume_reading()

    def _serve_later(self) -> None:
        self._stops |= _LATER
        self._later = self._shared.clock.callLater(0, self._serve_now)

    def _serve_now(self) -> None:
        self._later = None
        self._resume(_LATER)

    def _protocol_error(self, error: ProtocolError) -> None:
        self.metrics.broken_frames += 1
        self._warn("{error}", error)
        self._close()

    def _expire(self, why: str) -> None:
        if self._aborted:
            return
        self.metrics.connections_expired += 1
        self._log.info("closing {host}:{port}: {why}", host=self.context.host, port=self.context.port, why=why)
        self.abort()

    def _warn(self, message: str, error: Exception) -> None:
        context = self.context
        suppressed = self._shared.warning_limiter.admit(context.host)
        if suppressed is not None:
            self._log.warn(
                "closing {host}:{port} on listener {listener}: {error} ({suppressed} more warnings suppressed)",
                host=context.host,
                port=context.port,
                listener=context.listener,
                error=error,
                suppressed=suppressed,
            )

    def _fail(self, failure: Failure) -> None:
        """Log a bug, and close the connection; the client will reconnect."""
        self.metrics.failures += 1
        self._log.failure("a request of {host} failed", failure, host=self.context.host)
        self._close()

    def _close(self) -> None:
        """Send ready responses, then close."""
        self._stops |= _CLOSING
        if self._lost:
            return
        if self._out and not self._serving:
            self._flush()
        if self._serving:
            out, self._out = self._out, []
            if out:
                self._frame_transport.send(out)
        self._frame_transport.loseConnection()


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
