"""
Hands the fetches of a connection over to a thread, while its consumer reads on, and takes the connection back.

The thread (:mod:`logbus.net.native_fetches`) answers the fetches that :mod:`logbus.net.prepared_fetches` has prepared.
Until it gives the connection back, nothing is received or sent here.
"""

from __future__ import annotations

from attrs import define, field
from twisted.python.failure import Failure

from logbus.net.flow_control import IN_THREAD, FlowControl
from logbus.net.pending_responses import Responder
from logbus.net.prepared_fetches import AnsweredFetches
from logbus.net.request_dispatcher import RequestDispatcher
from logbus.net.response_sender import ResponseSender
from logbus.wire.frame_buffer import FrameBuffer


@define(eq=False)
class FetchHandover:
    """The handover of one connection."""

    _dispatcher: RequestDispatcher
    _frames: FrameBuffer
    _flow: FlowControl
    _sender: ResponseSender
    _responder: Responder
    # When the thread was asked to give the connection back, in seconds of the reactor.
    _recalled: float | None = field(default=None, init=False)

    def begin(self) -> None:
        """Have a thread answer the next fetches, if they can be prepared, and nothing else is to be done first."""
        dispatcher, flow = self._dispatcher, self._flow
        transport = flow.transport
        if flow.stops or self._frames.held or dispatcher.order.waiting or self._sender.parts or transport.unsent:
            return
        try:
            prepared = dispatcher.prepare_fetches() if transport.may_answer_fetches else None
        except Exception:
            self._responder.request_failed(Failure())
            return
        if prepared is None:
            dispatcher.fetches.answered(0)
            return
        flow.leave_to_thread()
        if not transport.answer_fetches(prepared):
            dispatcher.fetches.answered(0)
            flow.resume(IN_THREAD)

    def recall(self) -> None:
        """Ask the thread to give the connection back, if it has it."""
        if self._flow.stops & IN_THREAD:
            self._flow.transport.recall_fetches()

    def is_stuck(self, now: float, patience: float) -> bool:
        """
        Called now and then while the thread has the connection: takes it back.

        :param patience: seconds.
        :returns: whether the thread cannot give it back for so long, since the peer takes nothing of a response.
        """
        if self._recalled is None:
            self._recalled = now
            self._flow.transport.recall_fetches()
            return False
        return now - self._recalled > patience

    def finished(self, answered: AnsweredFetches) -> None:
        """The thread has given the connection back; what it has received is not in the buffer yet."""
        self._dispatcher.fetches_answered(answered)
        self._recalled = None
