"""
The requests of one connection that wait for their answers, and responses in the order of the requests.

Only a Produce that waits for its acks may overlap later requests; any other that waits blocks those after it.
"""

from __future__ import annotations

from typing import Any
from typing import Protocol as Shape

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from logbus.net.client_throttle import ClientThrottle
from logbus.net.flow_control import BLOCKED, PENDING, FlowControl
from logbus.net.request_context import RequestContext
from logbus.net.request_times import RequestTimes
from logbus.net.response_order import AnyRequest, ResponseOrder, ResponseSlot
from logbus.net.response_sender import ResponseSender
from logbus.quotas.quota_managers import QuotaManagers
from logbus.records.file_slice import Parts
from logbus.wire.codegen import ELEMENTS_PER_STEP
from logbus.wire.connection import Request, ServerConnection
from logbus.wire.fetch_template import RepeatedFetch
from logbus.wire.message_release import arrays_of, release_in_steps
from logbus.wire.request_template import PRODUCE, CoalescedProduce


class Responder(Shape):
    """The connection, as what waits sees it."""

    def response_ready(self) -> None:
        """A response that was waited for is sent, or waits for those before it."""

    def request_failed(self, failure: Failure) -> None:
        """A request that was waited for has no response; the connection must be closed."""


@define(eq=False)
class PendingResponses:
    """
    The responses of one connection that are not ready, or wait for earlier ones.

    :ivar order: these.
    """

    order: ResponseOrder
    _wire: ServerConnection
    _flow: FlowControl
    _sender: ResponseSender
    _times: RequestTimes
    _quotas: QuotaManagers
    _throttle: ClientThrottle
    _responder: Responder
    _blocker: ResponseSlot | None = field(default=None, init=False)
    _lost: bool = field(default=False, init=False)

    @property
    def frame_in_use(self) -> bool:
        """Whether the frame of the request that is waited for is still being read."""
        return self._blocker is not None and self._blocker.request.held

    @property
    def is_blocked(self) -> bool:
        """Whether an earlier request must be answered before the next one is served."""
        return self._blocker is not None

    def connection_lost(self) -> None:
        """Cancel requests that only this peer waits for. A Produce whose records are in the log runs to its end."""
        self._lost = True
        for slot in self.order.clear():
            if slot.deferred is not None and (slot.request.api_key != PRODUCE or slot.request.held):
                slot.deferred.cancel()

    def append(self, slot: ResponseSlot) -> None:
        """Add a response that is ready, behind those that are not."""
        self.order.add(slot)
        if self.order.full:
            self._flow.stop_reading(PENDING)

    def wait(
        self, context: RequestContext, request: AnyRequest, answer: Deferred[Any], received: float, count: int = 1
    ) -> None:
        """
        Wait for the answer to a request.

        :param received: when it was received, as :class:`.RequestTimes` has it.
        :param count: how many requests it stands for.
        """
        slot = ResponseSlot(request, answer, [], count)
        slot.received = received
        slot.since = self._times.handed_over(request.api_key, count, received)
        self.append(slot)
        answer.addCallbacks(self._answered, self._failed, callbackArgs=(slot, context))
        if not slot.ready and (request.api_key != PRODUCE or request.exclusive):
            self._blocker = slot
            self._flow.stops |= BLOCKED

    def _answered(self, answer: Any, slot: ResponseSlot, context: RequestContext) -> None:
        if self._lost:
            return
        if not self._quotas.is_active or self._flow.serving:
            self._respond(answer, slot, context)
            return
        self._throttle.begin_turn()
        self._respond(answer, slot, context)
        self._throttle.end_turn(context)

    def _respond(self, answer: Any, slot: ResponseSlot, context: RequestContext) -> None:
        """Encode the answer to a request that had to wait."""
        request = slot.request
        try:
            if isinstance(request, RepeatedFetch):
                parts: Parts = answer
            elif isinstance(request, CoalescedProduce):
                parts = [answer]
            elif request.sliced and answer is not None:
                slot.deferred = Deferred.fromCoroutine(self._encode_in_slices(request, answer, context))
                slot.deferred.addCallbacks(self._settle, self._failed, callbackArgs=(slot,))
                return
            else:
                parts = [] if answer is None else self._wire.respond(request, answer)
        except Exception:
            self._responder.request_failed(Failure())
            return
        self._settle(parts, slot)

    async def _encode_in_slices(self, request: Request, answer: Any, context: RequestContext) -> Parts:
        """Encode the answer to a request of many elements, and free both."""
        time_slice = context.time_slice(request)
        parts = await time_slice.finish(self._wire.respond_in_steps(request, answer), ELEMENTS_PER_STEP)
        arrays = [*arrays_of(request.message), *arrays_of(answer)]
        request.message = answer = None
        await time_slice.finish(release_in_steps(arrays), ELEMENTS_PER_STEP)
        return parts

    def _settle(self, parts: Parts, slot: ResponseSlot) -> None:
        """Send a response, once those before it are ready."""
        if self._lost:
            return
        flow, sender = self._flow, self._sender
        self._times.answered(slot.request.api_key, slot.count, slot.received, slot.since)
        for ready in self.order.settle(slot, parts):
            sender.parts += ready
        if sender.parts and not flow.serving:
            if slot.request.held and self.order.waiting:
                # The requests that waited with it are most likely answered in the same turn: send them together.
                sender.flush_later()
            else:
                sender.flush()
        if slot is self._blocker:
            self._blocker = None
            flow.resume_later(BLOCKED)
        if flow.stops & PENDING and not self.order.full:
            flow.resume_later(PENDING)
        self._responder.response_ready()

    def _failed(self, failure: Failure) -> None:
        if not (self._lost and failure.check(CancelledError)):
            self._responder.request_failed(failure)
