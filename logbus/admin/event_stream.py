"""
Server-sent events (HTML Living Standard, 9.2): an answer without an end, of which a browser's EventSource reads one
event after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from http import HTTPStatus
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.admin import strict_json
from logbus.admin.json_schema import string
from logbus.admin.problem_details import HttpProblem, problem_of
from logbus.admin.routing import ViewResponse
from logbus.errors import LogbusError

EVENT_STREAM = "text/event-stream"
RETRY_MS = 2000
"""After which a client that was cut off comes back."""

HEARTBEAT = b": still here\n\n"
"""A comment, which keeps connections open on their way through proxies."""

Piece = bytes | Deferred[None]
"""A part of an answer; or a Deferred, which never fails, of which the stream waits."""

LAST_EVENT_ID = {"Last-Event-ID": string("What a client that was cut off sends: the id of the last event it has.")}
"""Header fields of requests for streams."""


@define(eq=False)
class EventStreams:
    """
    The streams that a listener has at present, and how many it may have.

    :ivar limit: returns the upper bound.
    """

    limit: Callable[[], int]
    open: int = field(default=0, init=False)

    def respond(self, events: Callable[[], Generator[Piece, None, None]]) -> ViewResponse:
        """
        Return a response that sends events until they end, or the client has gone; then the generator is closed.

        :raise HttpProblem: there are too many streams.
        """
        if self.open >= self.limit():
            raise HttpProblem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"This listener has {self.open} event streams, as many as admin.event.streams allows; close one, or "
                "raise it.",
            )
        headers = {"X-Accel-Buffering": "no"}
        return ViewResponse(HTTPStatus.OK, EVENT_STREAM, lambda: self._counted(events()), headers)

    def _counted(self, events: Iterator[Piece]) -> Iterator[Piece]:
        self.open += 1
        try:
            yield b"retry: %d\n\n" % RETRY_MS
            yield from events
        except LogbusError as e:
            yield event("error", problem_of(e)[1])
        finally:
            self.open -= 1


def event(name: str, data: Any, event_id: str = "") -> bytes:
    """
    Return an event.

    :param data: becomes JSON, which has no line breaks.
    :param event_id: what a client that was cut off sends as ``Last-Event-ID`` when it comes back.
    """
    line = f"id: {event_id}\n" if event_id else ""
    return f"event: {name}\n{line}data: ".encode() + strict_json.dumps(data) + b"\n"


def wait_for(work: Deferred[Any]) -> Generator[Piece, None, Any]:
    """
    Have a stream wait for a result (``result = yield from wait_for(work)``); it is cancelled if the client goes.

    :raise BaseException: the error of ``work``.
    """
    over: Deferred[None] = Deferred()
    kept: list[Any] = []
    work.addBoth(kept.append).addBoth(over.callback)
    try:
        if not kept:
            yield over
    finally:
        if not kept:
            work.cancel()
    (result,) = kept
    if isinstance(result, Failure):
        result.raiseException()
    return result
