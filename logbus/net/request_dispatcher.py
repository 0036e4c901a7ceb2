"""
Serves the requests of one connection: frames to requests, requests to the router, what is ready to the sender.

Those behind a request that must be answered first stay, undecoded, in the receive buffer; when that is full, in the
kernel; and then at the client. So a peer cannot make requests pile up here.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from attrs import define, evolve, field
from twisted.internet.defer import CancelledError, Deferred

from logbus.net.client_throttle import ClientThrottle
from logbus.net.flow_control import PREPARING, FlowControl
from logbus.net.large_requests import LARGE, LargeRequestScheduler
from logbus.net.pending_responses import PendingResponses, Responder
from logbus.net.prepared_fetches import AnsweredFetches, FetchSequence, PreparedFetches
from logbus.net.produce_gatherer import may_be_gathered
from logbus.net.read_turn import ReadTurn
from logbus.net.request_context import RequestContext
from logbus.net.request_routing import Answer, CoalescedProduceRouter, ProducePreparer, RequestRouting
from logbus.net.request_times import RequestTimes
from logbus.net.response_order import ResponseOrder, ResponseSlot
from logbus.net.response_sender import ResponseSender
from logbus.net.sasl_login import ConnectionLogin
from logbus.quotas.quota_managers import QuotaManagers
from logbus.records.file_slice import Parts
from logbus.wire.codegen import ELEMENTS_PER_STEP
from logbus.wire.connection import Request
from logbus.wire.fetch_template import FETCH, FetchTemplate, RepeatedFetch
from logbus.wire.frame_buffer import PREFIX, FrameBuffer
from logbus.wire.request_template import PRODUCE, CoalescedProduce, RequestTemplate

TURN_SECONDS = 0.005
"""Time after the first decoded request of a turn after which other connections get theirs."""
_FETCH = FETCH.to_bytes(2, "big")


class Requester(Responder, Protocol):
    """The connection, as its dispatcher sees it."""

    def finish_run(self, run: CoalescedProduce, answer: bytes | Deferred[bytes] | None) -> None:
        """Answer Produce requests that were left to the gatherer; None: serve them."""

    def logged_in(self) -> None:
        """The client has logged in, or logged in again."""

    def login_failed(self, parts: Parts, why: str) -> None:
        """The client could not log in: send it ``parts``, and close the connection."""


class _WaitingProduce(NamedTuple):
    """
    A Produce that waits before it is served.

    :ivar ready: what it waits for.
    :ivar received: when it was received.
    :ivar since: when it would have been served, by the clock of :class:`.RequestTimes`.
    :ivar small_before: small Produce requests that all connections had served by then.
    """

    request: Request
    ready: Deferred[None]
    received: float
    since: float
    small_before: int


@define(eq=False)
class RequestDispatcher:
    """
    The requests of one connection, and their responses.

    :ivar context: describes the peer.
    :ivar requests: served so far.
    :ivar fetches: of a consumer that reads on.
    :ivar order: responses that are not ready, or wait for earlier ones.
    """

    _routing: RequestRouting
    context: RequestContext
    _frames: FrameBuffer
    _flow: FlowControl
    _sender: ResponseSender
    _requester: Requester
    # None: clients do not log in.
    _login: ConnectionLogin | None = None
    requests: int = field(default=0, init=False)
    fetches: FetchSequence = field(factory=FetchSequence, init=False)
    order: ResponseOrder = field(init=False)
    # None until a Produce request was recognized as one that will be repeated.
    _coalesced_router: CoalescedProduceRouter | None = field(default=None, init=False)
    _template: RequestTemplate | None = field(default=None, init=False)
    # Of the last Fetch that was recognized.
    _fetch_template: FetchTemplate | None = field(default=None, init=False)
    _preparing: _WaitingProduce | None = field(default=None, init=False)
    _pending: PendingResponses = field(init=False)
    _quotas: QuotaManagers = field(init=False)
    _throttle: ClientThrottle = field(init=False)
    _turn: ReadTurn = field(init=False)
    _times: RequestTimes = field(init=False)
    _large: LargeRequestScheduler = field(init=False)
    # When the requests that are being served were received; and since when there are requests in the buffer, or 0.
    _received: float = field(default=0.0, init=False)
    _held_since: float = field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        shared = self._routing.shared
        self._quotas = shared.client_quotas
        self._turn = shared.turn
        self._times = shared.times
        self._large = shared.large_requests
        self._throttle = ClientThrottle(shared.client_quotas, self._flow)
        self.order = ResponseOrder(shared.limits.max_pending, shared.limits.max_unsent, shared.metrics)
        self._pending = PendingResponses(
            self.order,
            self._routing.wire,
            self._flow,
            self._sender,
            self._times,
            self._quotas,
            self._throttle,
            self._requester,
        )

    @property
    def frame_in_use(self) -> bool:
        """Whether the last frame is still being read, though its request was handed to the router."""
        return self._preparing is not None or self._pending.frame_in_use

    @property
    def is_blocked(self) -> bool:
        """Whether an earlier request must be answered before the next one is served."""
        return self._pending.is_blocked

    def serve(self) -> bool:
        """
        Serve the frames in the buffer, until there is a reason to wait or other connections get their turn.

        :returns: whether there was a frame.
        :raises ProtocolError: a frame is no request that is served here.
        """
        flow, frames, shared, turn = self._flow, self._frames, self._routing.shared, self._turn
        is_large = frames.held >= LARGE and self._preparing is None and not frames.missing
        if is_large:
            if turn.finish is not None:
                turn.end()
            if flow.gives_way():
                self.held_back()
                return False
        before, ends, frame = self.requests, 0.0, None
        last, left = before + shared.limits.turn_requests, shared.limits.turn_bytes
        is_open = self._login is None or self._login.session.is_open
        flow.serving = True
        self._received = self._times.begin(self._held_since, turn.begun)
        begun = self._times.mark
        if self._quotas.is_active:
            self._throttle.begin_turn()
        try:
            if self._preparing is not None:
                if turn.finish is not None:
                    turn.end()
                left -= self._serve_prepared()
            while not flow.stops:
                run = (
                    self._next_run(last - self.requests, left)
                    if is_open and self._coalesced_router is not None
                    else None
                )
                if run is not None and turn.reading is self._sender.transport and self._gather(run):
                    break
                if turn.finish is not None:
                    turn.end()
                if run is not None and self._serve_run(run):
                    left -= run.size
                elif (frame := frames.next_frame()) is not None:
                    left -= len(frame)
                    if not is_open or frame[:2] != _FETCH:
                        self._serve_frame(frame, run is None)
                    elif (fetch := self._recognize(frame)) is None or not self._serve_repeated(fetch):
                        self._serve_frame(frame, fetch is None)
                else:
                    break
                if not frames.held or flow.stops & PREPARING:
                    break
                if self.requests == last or left <= 0:
                    flow.end_turn()
                elif frame is not None:
                    # Runs of Produce are bounded by their bytes; other requests may take long whatever their size.
                    if not ends:
                        ends = shared.clock.seconds() + TURN_SECONDS
                    elif shared.clock.seconds() >= ends:
                        flow.end_turn()
        finally:
            flow.serving = False
            if is_large and not flow.stops & PREPARING:
                self._large.served(begun)
            if flow.stops:
                self._held_since = self._received if frames.held else 0.0
            elif self._held_since:
                self._held_since = 0.0
            if self._quotas.is_active:
                self._throttle.end_turn(self.context)
            shared.metrics.requests += self.requests - before
        return self.requests > before

    def held_back(self) -> None:
        """Bytes were received that are not served yet."""
        if not self._held_since:
            self._held_since = self._times.seconds()

    def connection_lost(self) -> None:
        """Give up what only this peer waits for."""
        self._throttle.flush()
        if self._preparing is not None:
            ready = self._preparing.ready
            self._preparing = None
            ready.addErrback(lambda failure: failure.trap(CancelledError))
            ready.cancel()
        self._pending.connection_lost()

    # Requests that are decoded.

    def _serve_frame(self, frame: memoryview, may_repeat: bool) -> None:
        """
        Decode a request, and have it answered.

        :param may_repeat: whether it matches no template, and one may be made of it.
        """
        if self._login is None:
            request = self._routing.wire.receive(frame)
        elif (unlocked := self._receive(self._login, frame)) is not None:
            request = unlocked
        else:
            return
        if request.api_key == FETCH:
            self.fetches.ended()
        if request.api_key == FETCH and may_repeat:
            fetch = self._learn(request, frame)
            if fetch is not None and self._serve_repeated(fetch):
                return
        if request.decoding is not None:
            self.requests += 1
            self._serve_in_slices(self._context_for(request.client_id), request)
            return
        if request.api_key == PRODUCE:
            routing = self._routing
            if may_repeat and routing.templates.learn(request, frame):
                self._coalesced_router = routing.coalesced_router
            if routing.preparer is not None and self._prepare(routing.preparer, request):
                return
        self._route(request)

    def _receive(self, login: ConnectionLogin, frame: memoryview) -> Request | None:
        """Decode a request of a client that logs in, or has; None: it was part of the login, and is answered."""
        request, reply = login.receive(frame)
        if reply is None:
            return request
        self.requests += 1
        parts = login.encode(request, reply)
        if reply.failure is not None:
            self._requester.login_failed(parts, reply.failure)
            return None
        if reply.login is not None:
            self.context = evolve(
                self.context,
                principal=f"User:{reply.login.user}",
                by_delegation_token=reply.login.by_delegation_token,
            )
            self._requester.logged_in()
        if self.order.waiting and request is not None:
            self._pending.append(ResponseSlot(request, None, parts))
        else:
            self._sender.add(parts)
        return None

    def _context_for(self, client_id: str | None) -> RequestContext:
        """The request context with the request's client id."""
        context = self.context
        if client_id != context.client_id:
            context = self.context = evolve(context, client_id=client_id)
        return context

    def _route(self, request: Request) -> None:
        """Have a request answered."""
        self.requests += 1
        context, routing = self._context_for(request.client_id), self._routing
        if request.api_key == PRODUCE:
            self._large.small += 1
        if self._quotas.is_active:
            answer = self._throttle.serve(context, request, routing.router)
        else:
            answer = routing.router(context, request)
        # Bytes are checked first: isinstance() of Deferred, an abstract class, is slow.
        if answer.__class__ is not bytes and isinstance(answer, Deferred):
            self._pending.wait(context, request, answer, self._received)
        elif answer is not None:
            parts = routing.wire.respond(request, answer)
            self._times.served(request.api_key, 1, self._received)
            if self.order.waiting:
                self._pending.append(ResponseSlot(request, None, parts))
            else:
                self._sender.add(parts)
        else:
            self._times.served(request.api_key, 1, self._received)

    # Requests with many elements, which are decoded in time slices.

    def _serve_in_slices(self, context: RequestContext, request: Request) -> None:
        """Serve a request with more elements than are decoded in one go; those after it wait."""
        # The frame is decoded in place; bytes received meanwhile go to other memory.
        self._frames.detach_frames()
        request.exclusive = request.held = request.sliced = True
        scheduler = self._routing.shared.scheduler
        begun = scheduler.processor_seconds()
        self._pending.wait(
            context, request, Deferred.fromCoroutine(self._decode_and_route(context, request)), self._received
        )
        scheduler.used(context.connection_id, scheduler.processor_seconds() - begun)

    async def _decode_and_route(self, context: RequestContext, request: Request) -> Answer:
        assert request.decoding is not None
        await context.time_slice(request).finish(request.decoding, ELEMENTS_PER_STEP)
        if self._quotas.is_active:
            answer = self._throttle.serve(context, request, self._routing.router)
        else:
            answer = self._routing.router(context, request)
        return await answer if isinstance(answer, Deferred) else answer

    # Produce requests that wait before they are served.

    def _prepare(self, preparer: ProducePreparer, request: Request) -> bool:
        """Have a Produce wait, if it has to: nothing is received meanwhile."""
        if not self._sender.transport.receives_in_place:
            return False
        ready = preparer(self._context_for(request.client_id), request)
        if ready is None:
            return False
        self._preparing = _WaitingProduce(request, ready, self._received, self._times.mark, self._large.small)
        self._flow.stop_reading(PREPARING)
        ready.addCallback(lambda _: self._flow.resume(PREPARING))
        return True

    def _serve_prepared(self) -> int:
        """Serve the request that waited; returns its bytes."""
        waited, self._preparing = self._preparing, None
        assert waited is not None
        self._received, self._times.mark = waited.received, waited.since
        others = self._large.small - waited.small_before
        self._route(waited.request)
        if waited.request.size >= LARGE:
            self._large.served(waited.since, others)
        return waited.request.size

    # Produce requests that repeat an earlier one, and come in runs.

    def _next_run(self, most: int, most_bytes: int) -> CoalescedProduce | None:
        """The next Produce requests in the buffer, if they differ only in their batches."""
        if self.order.waiting:
            most = min(most, self.order.room)
        if self._quotas.is_active:
            most_bytes = self._throttle.most_bytes(self.context, most_bytes)
        run = self._routing.templates.take(self._frames, self._template, most, most_bytes)
        if run is not None:
            self._template = run.template
        return run

    def _serve_run(self, run: CoalescedProduce) -> bool:
        """Have these requests answered together; False: the first one must be served by itself."""
        assert self._coalesced_router is not None
        answer = self._coalesced_router(self._context_for(run.template.client_id), run)
        if answer is None:
            return False
        self._routing.templates.passed(run, self._frames)
        if self._quotas.is_active:
            answer = self._throttle.served_run(self.context, run, answer)
        self._answer_run(run, answer)
        return True

    def _answer_run(self, run: CoalescedProduce, answer: bytes | Deferred[bytes], together: bool = False) -> None:
        count = len(run.batches)
        self.requests += count
        self._large.small += count
        if not isinstance(answer, bytes):
            self._pending.wait(self.context, run, answer, self._received, count)
            return
        self._times.served(PRODUCE, count, self._received, together)
        if self.order.waiting:
            self._pending.append(ResponseSlot(run, None, [answer], count))
        else:
            self._sender.add_small(answer)

    def _gather(self, run: CoalescedProduce) -> bool:
        """Leave these requests to the gatherer, to be served with those of other connections; False: they cannot be."""
        router = self._routing.gathered_router
        if (
            router is None
            or self._quotas.is_active
            or run.size + PREFIX * len(run.batches) != self._frames.held
            or not may_be_gathered(run)
        ):
            return False
        context = self._context_for(run.template.client_id)
        self._routing.shared.gatherer.add(router, context, run, self._requester)
        return True

    def finish_run(self, run: CoalescedProduce, answer: bytes | Deferred[bytes]) -> None:
        """Answer requests that the gatherer has served."""
        self._routing.templates.passed(run, self._frames)
        self._routing.shared.metrics.requests += len(run.batches)
        self._answer_run(run, answer, together=True)

    def serve_ungathered(self, run: CoalescedProduce) -> bool:
        """Serve requests that the gatherer could not; False: the first one must be served by itself."""
        if self._flow.stops or self._quotas.is_active:
            return False
        self._flow.serving = True
        # Since it was left other connections were served: that was no work for this request.
        self._times.begin()
        try:
            served = self._serve_run(run)
        finally:
            self._flow.serving = False
        if served:
            self._routing.shared.metrics.requests += len(run.batches)
        return served

    # Fetch requests that repeat an earlier one.

    @property
    def _fetches_repeat(self) -> bool:
        """Whether Fetch requests may be served without decoding them."""
        return self._routing.repeated_router is not None and not self._quotas.is_active

    def _recognize(self, frame: memoryview) -> RepeatedFetch | None:
        """The Fetch in a frame, if it repeats an earlier one."""
        if not self._fetches_repeat:
            return None
        fetch = self._routing.fetch_templates.recognize(frame, self._fetch_template)
        if fetch is not None:
            self._fetch_template = fetch.template
        return fetch

    def _learn(self, request: Request, frame: memoryview) -> RepeatedFetch | None:
        """Remember a Fetch, so that it is recognized from now on; None: it is none that will be repeated."""
        if not self._fetches_repeat or request.decoding is not None:
            return None
        templates = self._routing.fetch_templates
        return templates.recognize(frame) if templates.learn(request, frame) else None

    def _serve_repeated(self, request: RepeatedFetch) -> bool:
        """Serve a Fetch that repeats an earlier one; False: it must be decoded."""
        router = self._routing.repeated_router
        assert router is not None
        context = self._context_for(request.template.client_id)
        answer = router(context, request)
        if answer is None:
            return False
        self.requests += 1
        if not isinstance(answer, list):
            self.fetches.ended()
            self._pending.wait(context, request, answer, self._received)
            return True
        self.fetches.served(request)
        self._times.served(FETCH, 1, self._received)
        if self.order.waiting:
            self._pending.append(ResponseSlot(request, None, answer))
        else:
            self._sender.add(answer)
        return True

    def prepare_fetches(self) -> PreparedFetches | None:
        """The responses to the next fetches, if it is time to prepare some, and they can be."""
        last, prepare = self.fetches.last, self._routing.fetch_preparer
        self.fetches.ended()
        if last is None or prepare is None or self._quotas.is_active:
            return None
        if self._login is not None and not self._login.session.is_open:
            return None
        return prepare(self._context_for(last.template.client_id), last)

    def fetches_answered(self, answered: AnsweredFetches) -> None:
        """A thread has answered fetches."""
        count, metrics = answered.requests, self._routing.shared.metrics
        self.requests += count
        metrics.requests += count
        metrics.requests_in_threads += count
        self._times.add(FETCH, answered.counts, answered.seconds)
        self.fetches.answered(count)
