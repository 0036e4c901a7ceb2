"""Records the requests of a broker, in its thread."""

from __future__ import annotations

from itertools import islice
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.net.request_context import RequestContext
from logbus.records.file_slice import Parts, total_length
from logbus.testing.requests.apis import OWN_APIS
from logbus.testing.requests.broker_view import BrokerView
from logbus.testing.requests.history import RequestHistory
from logbus.testing.requests.partitions import Named
from logbus.testing.requests.recorded import RecordedRequest, codes_of
from logbus.testing.settings import KIT_CLIENT_ID
from logbus.wire.connection import Request
from logbus.wire.fetch_template import FETCH, RepeatedFetch
from logbus.wire.headers import response_is_tagged
from logbus.wire.messages import api
from logbus.wire.request_template import PRODUCE, CoalescedProduce

SUBJECTS = 200
"""The most topics and partitions that are kept of a request."""

_LENGTH = 4
_SMALL = 4096
"""Bytes of the longest answer to a repeated Fetch that is kept: longer ones have records, and no error."""


@define(eq=False)
class Recorder:
    """
    Writes the requests that pass into a history.

    :ivar history: where they are.
    """

    history: RequestHistory
    _view: BrokerView

    def received(self, context: RequestContext, request: Request) -> RecordedRequest | None:
        """Record a request; None: it is none of a client."""
        key = request.api_key
        if key >= OWN_APIS or context.broker is not None or request.client_id == KIT_CLIENT_ID:
            return None
        subjects = tuple(islice(self._view.subjects(request), SUBJECTS))
        return self.history.add(key, request.api_version, request.client_id, context.connection_id, subjects)

    def watch(self, recorded: RecordedRequest, answer: Any) -> Any:
        """Record the answer to a request, now or when it is there; returns the answer."""
        if isinstance(answer, Deferred):
            return answer.addBoth(self._answered_later, recorded)
        self._answered(recorded, answer)
        return answer

    def run(self, context: RequestContext, run: CoalescedProduce, answer: bytes | Deferred[bytes]) -> Any:
        """Record several Produce requests that are served together; returns their answers."""
        template = run.template
        topic = self._view.topic_name(Named(template.topic, template.topic_id, template.index))
        subjects = ((topic, template.index),)
        recorded = [
            self.history.add(PRODUCE, template.api_version, template.client_id, context.connection_id, subjects)
            for _ in run.batches
        ]
        if isinstance(answer, Deferred):
            return answer.addCallback(self._split, recorded)
        return self._split(answer, recorded)

    def repeated(self, context: RequestContext, fetch: RepeatedFetch, answer: Parts | Deferred[Parts]) -> Any:
        """Record a Fetch that was not decoded; returns its answer."""
        template = fetch.template
        if template.client_id == KIT_CLIENT_ID:
            return answer
        partition = template.partition.partition
        topic = self._view.topic_name(Named(template.topic, template.topic_id, partition))
        recorded = self.history.add(
            FETCH, template.api_version, template.client_id, context.connection_id, ((topic, partition),)
        )
        if isinstance(answer, Deferred):
            return answer.addBoth(self._parts_later, recorded)
        return self._parts(answer, recorded)

    def _answered_later(self, answer: Any, recorded: RecordedRequest) -> Any:
        if not isinstance(answer, Failure):
            self._answered(recorded, answer)
        return answer

    def _answered(self, recorded: RecordedRequest, answer: Any) -> None:
        if answer is None:
            return
        if isinstance(answer, bytes):
            self.history.answered(recorded, body=answer)
        else:
            self.history.answered(recorded, codes_of(recorded.api_key, recorded.version, answer))

    def _split(self, answers: bytes, recorded: list[RecordedRequest]) -> bytes:
        start, version = 0, recorded[0].version
        head = 8 + int(response_is_tagged(PRODUCE, api(PRODUCE).flexible.includes(version)))
        for each in recorded:
            end = start + _LENGTH + int.from_bytes(answers[start : start + _LENGTH], "big")
            self.history.answered(each, body=answers[start + head : end])
            start = end
        return answers

    def _parts_later(self, parts: Any, recorded: RecordedRequest) -> Any:
        return parts if isinstance(parts, Failure) else self._parts(parts, recorded)

    def _parts(self, parts: Parts, recorded: RecordedRequest) -> Parts:
        body = None
        if total_length(parts) <= _SMALL and all(isinstance(part, bytes) for part in parts):
            head = 8 + int(response_is_tagged(FETCH, api(FETCH).flexible.includes(recorded.version)))
            body = b"".join(part for part in parts if isinstance(part, bytes))[head:]
        self.history.answered(recorded, body=body)
        return parts
