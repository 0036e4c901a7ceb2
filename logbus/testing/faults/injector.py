"""Has the rules in force happen to the requests of a broker, in its thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from logbus.net.request_context import RequestContext
from logbus.records.file_slice import joined, total_length
from logbus.testing.faults.error_answers import error_answer, everything
from logbus.testing.faults.merging import merge, set_all, without
from logbus.testing.faults.rule_book import RuleBook
from logbus.testing.faults.rules import DELAY, DISCONNECT, DROP, FAIL, THROTTLE, Rule
from logbus.testing.requests.apis import OWN_APIS
from logbus.testing.requests.broker_view import METADATA, BrokerView
from logbus.testing.requests.interception import Serve
from logbus.wire.connection import Request
from logbus.wire.element_budget import RESPONSE_ELEMENTS, element_budget
from logbus.wire.fetch_template import FETCH
from logbus.wire.messages import api
from logbus.wire.request_template import PRODUCE
from logbus.wire.schema import decoder, encode, replaced

T = TypeVar("T")


@define(eq=False)
class FaultInjector:
    """
    An :class:`~logbus.testing.requests.interception.Interceptor` that follows a book of rules.

    :ivar book: the rules.
    :param view: looks at the broker.
    :param abort: closes a connection, by its id.
    """

    _reactor: Any
    book: RuleBook
    _view: BrokerView
    _abort: Callable[[int], None]
    # The connections of requests that wait, or never get an answer.
    _waiting: dict[Deferred[Any], int] = field(factory=dict, init=False)
    # When the answers of a throttling rule are out, by its number.
    _busy_until: dict[int, float] = field(factory=dict, init=False)

    def concerns(self, api_key: int, client_id: str | None) -> bool:
        return bool(self.book.active) and self.book.concerned(api_key, client_id)

    def serve(self, context: RequestContext, request: Request, serve: Serve) -> Any:
        if not self.book.active or request.api_key >= OWN_APIS or context.broker is not None:
            # Other brokers are none of its clients.
            return serve(context, request)
        found = self.book.take(request.api_key, request.client_id, lambda: self._view.subjects(request))
        if found is None:
            return serve(context, request)
        rule, number = found
        if rule.action == THROTTLE:
            return self._throttle(rule, number, request, context, serve)
        happen = {FAIL: self._fail, DELAY: self._delay, DROP: self._drop, DISCONNECT: self._disconnect}
        return happen.get(rule.action, self._corrupt)(rule, context, request, serve)

    def release(self) -> None:
        """Close the connections of requests that wait: the broker stops."""
        for connection_id in set(self._waiting.values()):
            self._abort(connection_id)

    # What happens.

    def _fail(self, rule: Rule, context: RequestContext, request: Request, serve: Serve) -> Any:
        key, version = request.api_key, request.api_version
        if key == PRODUCE and request.message.acks == 0:
            # It has no answer; a broker that fails to serve it loses the records.
            return serve(context, request) if rule.after else None

        def wanted(named: Any) -> bool:
            return rule.names(self._view.topic_name(named), named.partition)

        fails = wanted if rule.is_about_topics else everything
        errors = error_answer(key, version, self._view.spelt_out(request), rule.error, rule.message, fails)
        if errors is None:
            return self._then(request, serve(context, request), lambda answer: set_all(answer, rule.error))
        if key == FETCH:
            # Its errors are sent at once.
            request.message = replaced(request.message, max_wait_ms=0)
        elif not (rule.after or key == METADATA):
            rest = (
                without(key, version, request.message, wanted) if errors.place.levels and rule.is_about_topics else None
            )
            if rest is None:
                return errors.message
            request.message = rest
        return self._then(request, serve(context, request), lambda answer: merge(answer, errors))

    def _delay(self, rule: Rule, context: RequestContext, request: Request, serve: Serve) -> Any:
        if rule.after:
            return self._late(context, serve(context, request), rule.seconds)
        self._hold(request)
        return self._later(context, rule.seconds, lambda: serve(context, request))

    def _drop(self, rule: Rule, context: RequestContext, request: Request, serve: Serve) -> Any:
        if rule.after:
            served = serve(context, request)
            return _when_there(served, lambda answer: None if answer is None else self._never(context, request))
        self._hold(request)
        return self._never(context, request)

    def _disconnect(self, rule: Rule, context: RequestContext, request: Request, serve: Serve) -> Any:
        def hang_up(answer: Any) -> Any:
            # Not at once: its connection is serving this request.
            self._reactor.callLater(0, self._abort, context.connection_id)
            return self._never(context, request)

        if rule.after:
            return _when_there(serve(context, request), hang_up)
        self._hold(request)
        return hang_up(None)

    def _corrupt(self, rule: Rule, context: RequestContext, request: Request, serve: Serve) -> Any:
        def damaged(answer: Any) -> Any:
            if answer is None:
                return None
            if rule.how == "correlation":
                request.correlation_id ^= 1 << 20
                return answer
            return _damaged(_encoded(answer, request.api_version), rule.how)

        return _when_there(serve(context, request), damaged)

    def _throttle(self, rule: Rule, number: int, request: Request, context: RequestContext, serve: Serve) -> Any:
        def slow(answer: Any) -> Any:
            if answer is None:
                return None
            size = len(answer) if isinstance(answer, bytes) else total_length(encode(answer, request.api_version))
            now = self._reactor.seconds()
            until = max(now, self._busy_until.get(number, now)) + size / rule.bytes_per_second
            self._busy_until[number] = until
            return self._later(context, until - now, lambda: answer)

        return _when_there(serve(context, request), slow)

    # Waiting.

    @staticmethod
    def _hold(request: Request) -> None:
        """Have later requests of this connection wait, and keep the records, whose memory is used again."""
        if request.api_key == PRODUCE:
            request.exclusive = True
            for topic in request.message.topic_data:
                for each in topic.partition_data:
                    if each.records is not None:
                        each.records = memoryview(bytearray(each.records))

    def _never(self, context: RequestContext, request: Request) -> Deferred[Any]:
        # So it is cancelled with the connection.
        request.held = True
        never: Deferred[Any] = Deferred()
        self._note(context, never)
        return never

    def _later(self, context: RequestContext, seconds: float, then: Callable[[], Any]) -> Deferred[Any]:
        return self._note(context, deferLater(self._reactor, seconds, then))

    def _late(self, context: RequestContext, answer: Any, seconds: float) -> Any:
        return _when_there(
            answer, lambda found: None if found is None else self._later(context, seconds, lambda: found)
        )

    def _note(self, context: RequestContext, waiting: Deferred[T]) -> Deferred[T]:
        self._waiting[waiting] = context.connection_id

        def ended(result: Any) -> Any:
            self._waiting.pop(waiting, None)
            return result

        return waiting.addBoth(ended)

    def _then(self, request: Request, answer: Any, change: Callable[[Any], Any]) -> Any:
        def changed(found: Any) -> Any:
            return None if found is None else change(_decoded(found, request))

        return _when_there(answer, changed)


def _when_there(answer: Any, then: Callable[[Any], Any]) -> Any:
    """What becomes of an answer, now or when it is there."""
    return answer.addCallback(then) if isinstance(answer, Deferred) else then(answer)


def _decoded(answer: Any, request: Request) -> Any:
    if not isinstance(answer, bytes):
        return answer
    read = decoder(api(request.api_key).response, request.api_version)
    return read(answer, 0, element_budget(len(answer), RESPONSE_ELEMENTS))[0]


def _encoded(answer: Any, version: int) -> bytes:
    return answer if isinstance(answer, bytes) else joined(encode(answer, version))


def _damaged(body: bytes, how: str) -> bytes:
    """A body of an answer that a client cannot take for what it was."""
    if how == "garbage":
        return b"\xff" * len(body)
    if how == "cut":
        return body[: len(body) // 2]
    at = len(body) * 3 // 4
    return body[:at] + bytes([body[at] ^ 0x10]) + body[at + 1 :]
