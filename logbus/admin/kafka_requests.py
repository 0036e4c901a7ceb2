"""
Serves Kafka requests for clients of HTTP, as if they had connected to this broker: with their principal, through the
same guards, quotas and handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from logbus.admin.authorization import HttpAccess
from logbus.errors import ApiError, ErrorCode
from logbus.net.request_context import NO_TERMS, ChangeTerms, RequestContext
from logbus.net.time_slices import SliceScheduler, TimeSlice
from logbus.records.file_slice import joined
from logbus.wire.connection import Request, ServerConnection, api_key_of
from logbus.wire.encoder_runtime import EncodeError
from logbus.wire.headers import RequestHeader, encode_request_header
from logbus.wire.messages import api
from logbus.wire.schema import decode, encode

CLIENT_ID = "http"
"""The client id, by which quotas and logs know these requests."""

MAX_THROTTLE_SECONDS = 10.0
"""For how long a client that has used up its quota waits for a response."""

Serve = Callable[[RequestContext, Request], Any]


@define(eq=False)
class KafkaRequests:
    """
    Sends requests to this broker's own handlers.

    :param serve: the broker's request router.
    :param served: returns the versions that it serves, by API key.
    :param listener: name of the listener of the clients.
    :param scheduler: gives time slices to large requests, and to reading large responses.
    """

    _serve: Serve
    _served: Callable[[], Mapping[int, tuple[int, int]]]
    _listener: str
    _clock: IReactorTime
    _scheduler: SliceScheduler | None = None
    _wire: ServerConnection | None = field(default=None, init=False)

    async def send(self, access: HttpAccess, message: Any, version: int, terms: ChangeTerms = NO_TERMS) -> Any:
        """
        Have a request served, and return its response.

        A response to a client that has used up its quota comes later (KIP-219: the client would be muted).

        :param terms: those of a change, which its handler must know. With some, changes that are the controller's
            fail with NOT_CONTROLLER on other brokers.
        :raise ApiError: as the handler says; most errors are in the response. INVALID_REQUEST: it cannot be encoded.
        """
        if self._wire is None:
            self._wire = ServerConnection(self._served())
        key = api_key_of(message)
        described = api(key)
        header = RequestHeader(key, version, 0, CLIENT_ID)
        try:
            body = joined(encode(message, version))
        except EncodeError as e:
            # What the client gave does not fit, such as a name of more bytes than a string has.
            raise ApiError(ErrorCode.INVALID_REQUEST, str(e)) from None
        frame = encode_request_header(header, described.flexible.includes(version)) + body
        context = RequestContext(
            id(access),
            self._listener,
            access.host,
            0,
            access.principal,
            client_id=CLIENT_ID,
            terms=terms,
            scheduler=self._scheduler,
        )
        response = self._serve(context, self._wire.receive(frame))
        if isinstance(response, Deferred):
            response = await response
        if isinstance(response, bytes):
            response, _ = decode(described.response, version, response)
        throttle_ms: int = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            await self.pause(min(throttle_ms / 1000, MAX_THROTTLE_SECONDS))
        return response

    def pause(self, seconds: float) -> Deferred[None]:
        """Wait before a request is sent again."""
        return deferLater(self._clock, seconds)

    def time_slice(self, access: HttpAccess) -> TimeSlice:
        """Begin work on a large response."""
        return TimeSlice(self._scheduler, None, id(access))
