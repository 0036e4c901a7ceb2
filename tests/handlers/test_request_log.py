"""Tests of :mod:`logbus.handlers.request_log`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from logbus.handlers.request_log import RequestLog
from logbus.net.connection_limits import WarningLimiter
from logbus.net.request_context import RequestContext
from tests.handlers.kit import HandlerCase, a_batch

LIST_OFFSETS, FETCH, PRODUCE = 2, 1, 0


class Case(SynchronousTestCase):
    """Collects what is logged."""

    def setUp(self) -> None:
        super().setUp()
        self.lines: list[str] = []
        self.follow()

    def follow(self) -> None:
        def observe(event: LogEvent) -> None:
            if event.get("log_namespace") == "logbus.request":
                self.lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)  # type: ignore[arg-type]
        self.addCleanup(globalLogPublisher.removeObserver, observe)


class RequestLogTests(Case):
    """What is said about which requests."""

    def setUp(self) -> None:
        super().setUp()
        self.clock = Clock()
        self.context = RequestContext(1, "kafka", "10.0.0.1", 4711, client_id="me\x1b[31m" + "x" * 1000)

    def log(self, threshold: float) -> RequestLog:
        return RequestLog(threshold, self.clock.seconds, WarningLimiter(self.clock.seconds))

    def serve(self, log: RequestLog, api_key: int, took: float, **message: Any) -> Any:
        """Have a request served that waits for its answer."""
        request: Any = SimpleNamespace(api_key=api_key, api_version=7, message=SimpleNamespace(**message))
        waiting: Deferred[str] = Deferred()
        answer = log.wrap(api_key, lambda *_: waiting)(self.context, request)
        request.message = None  # as of a request that was served in slices
        self.clock.advance(took)
        waiting.callback("answer")
        return self.successResultOf(answer)

    def test_slow(self) -> None:
        """A line has the API, the client, as short and harmless text, and the time; the answer is as it was."""
        log = self.log(0.5)
        self.assertEqual(self.serve(log, LIST_OFFSETS, 0.4), "answer")
        self.assertEqual(self.lines, [])
        self.assertEqual(self.serve(log, LIST_OFFSETS, 0.5), "answer")
        name = r"'me\x1b[31m" + "x" * 93 + "…'"
        self.assertEqual(self.lines, [f"ListOffsets v7 of {name} ('User:ANONYMOUS', 10.0.0.1:4711) took 500.0 ms"])

    def test_flood(self) -> None:
        """Of many slow requests of an API one a second is told, with the number of the others."""
        log = self.log(0.1)
        for _ in range(9):
            self.serve(log, LIST_OFFSETS, 0.125)
        self.assertEqual(len(self.lines), 2)
        self.assertTrue(self.lines[1].endswith("took 125.0 ms (and 7 more of this API)"), self.lines[1])

    def test_fetch(self) -> None:
        """A Fetch that waits for records as long as it wants is not slow."""
        log = self.log(0.1)
        self.serve(log, FETCH, 0.55, max_wait_ms=500)
        self.assertEqual(self.lines, [])
        self.serve(log, FETCH, 0.75, max_wait_ms=500)
        self.assertEqual(len(self.lines), 1)

    def test_all(self) -> None:
        """Without a threshold each request is told, also one without an answer of its own, and one that fails."""
        log = self.log(0)
        for _ in range(3):
            self.serve(log, LIST_OFFSETS, 0)
        request: Any = SimpleNamespace(api_key=LIST_OFFSETS, api_version=7, message=None)
        self.assertEqual(log.wrap(LIST_OFFSETS, lambda *_: "now")(self.context, request), "now")
        self.assertEqual(len(self.lines), 4)
        failing: Deferred[Any] = Deferred()
        answer = log.wrap(LIST_OFFSETS, lambda *_: failing)(self.context, request)
        failing.errback(ValueError("x"))
        self.failureResultOf(answer, ValueError)
        self.assertIn("failed after 0.0 ms", self.lines[-1])


class BrokerTests(HandlerCase):
    """A broker that logs all requests."""

    config = {"logger.request.ms": "0"}

    def test_fast_paths(self) -> None:
        """Requests that are recognized and not decoded are told as well."""
        lines: list[str] = []

        def observe(event: LogEvent) -> None:
            if event.get("log_namespace") == "logbus.request":
                lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)  # type: ignore[arg-type]
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        for _ in range(4):
            self.client.produce(a_batch())
            self.client.fetch()
        names = [line.partition(" ")[0] for line in lines]
        self.assertEqual((names.count("Produce"), names.count("Fetch")), (4, 4), lines)


class QuietBrokerTests(HandlerCase):
    """A broker that logs none."""

    def test_not_in_the_way(self) -> None:
        """Handlers stand in the router as they are."""
        fetch = self.server.broker.kafka_server.router._handlers[FETCH]
        self.assertNotIn("RequestLog", getattr(fetch, "__qualname__", ""))
