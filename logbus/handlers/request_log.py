"""
Logs requests, all or only slow ones (Kafka: the request logger), one line each by the logger ``logbus.request``.

It stands before the handlers of a broker that is told to log requests; any other has none of it in its way. The time
is that from the decoded request to its answer; a Fetch is not slow because it waits for records, as it is asked to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.handlers.request_router import Handler
from logbus.net.connection_limits import WarningLimiter
from logbus.net.produce_gatherer import GatheredProduceRouter, GatheredRuns
from logbus.net.request_context import RequestContext
from logbus.wire.fetch_template import FETCH, RepeatedFetch
from logbus.wire.messages import api_name

LONGEST_NAME = 100

# Not of the class, whose name it would have.
_log = Logger(namespace="logbus.request")


@frozen
class RequestLog:
    """
    Wraps handlers so that their requests are logged.

    :param threshold: seconds that a request takes at least; 0: all are logged.
    :param seconds: a monotonic clock.
    :param limiter: of lines about slow requests, by API; they come in floods, when the broker has other troubles.
    """

    _threshold: float
    _seconds: Callable[[], float]
    _limiter: WarningLimiter

    def wrap(self, api_key: int, handler: Handler) -> Handler:
        """Wrap the handler of an API."""

        def handle(context: RequestContext, request: Any) -> Any:
            begun = self._seconds()
            return self._followed(handler(context, request), context, request, begun)

        return handle

    def wrap_fast(self, kind: str, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a fast path; see :class:`.FastPath`."""
        if kind == "prepared":
            return handler  # served by its handler
        if kind == "ahead":
            return lambda context, request: None  # Each is logged, so each is served by itself.
        if kind == "gathered":
            return self._gathered(handler)
        return self.wrap(-1, handler)

    def _gathered(self, handler: GatheredProduceRouter) -> GatheredProduceRouter:
        def handle(runs: GatheredRuns) -> Any:
            begun = self._seconds()
            answers = handler(runs)
            if answers is None:
                return None
            return [
                self._followed(answer, context, run, begun)
                for answer, (context, run) in zip(answers, runs, strict=True)
            ]

        return handle

    def _followed(self, answer: Any, context: RequestContext, request: Any, begun: float) -> Any:
        if isinstance(answer, Deferred):
            wait = _wait_of(request)  # now, since a message may be gone at the end

            def ended(result: Any) -> Any:
                self._ended(context, request, self._seconds() - begun, wait, failed=isinstance(result, Failure))
                return result

            answer.addBoth(ended)
        elif answer is not None:
            self._ended(context, request, self._seconds() - begun, 0.0, failed=False)
        return answer

    def _ended(self, context: RequestContext, request: Any, took: float, wait: float, *, failed: bool) -> None:
        suppressed: int | None = 0
        if self._threshold:
            if took - wait < self._threshold:
                return
            suppressed = self._limiter.admit(api_name(request.api_key))
            if suppressed is None:
                return
        template = getattr(request, "template", request)
        _log.info(
            "{api} v{version} of {client} ({principal}, {host}:{port}) {how} {ms:.1f} ms{others}",
            api=api_name(request.api_key),
            version=template.api_version,
            client=_short(context.client_id),
            principal=_short(context.principal),
            host=context.host,
            port=context.port,
            how="failed after" if failed else "took",
            ms=1000 * took,
            others=f" (and {suppressed} more of this API)" if suppressed else "",
        )


def _wait_of(request: Any) -> float:
    """Seconds that a request is asked to wait for records."""
    if request.api_key != FETCH:
        return 0.0
    message = request.template.message if isinstance(request, RepeatedFetch) else request.message
    return max(0, message.max_wait_ms) / 1000


def _short(text: str | None) -> str:
    shown = text if text is None or len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…"
    return repr(shown)
