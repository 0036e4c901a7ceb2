"""
Relays requests over HTTP among the brokers of a cluster, so that any of them answers for all.

A route names the broker that serves a request (``Route.served_by``), such as the coordinator of a group; another
broker sends it the request, over the authenticated connections between brokers, and passes its response on. The pages
of lists that each broker has a part of are merged (``Route.merged_by``). The request goes with the client's principal,
and the broker that serves it asks for its rights: a broker trusts another one in who the client is, nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from logbus.admin.authorization import HttpAccess
from logbus.admin.routing import Headers, Route, ViewRequest, ViewResponse, failure_response
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

NAME = "http"
"""Under which brokers ask each other (:meth:`.IBroker.ask_plugin`)."""

SECONDS = 25.0
"""Timeout of another broker's response: less than that of a client's."""

MAX_BYTES = 4 << 20
"""Of another broker's response."""

Ask = Callable[[int, str, bytes, float], Deferred[bytes]]
"""Sends a request to another broker; :meth:`.IBroker.ask_plugin`."""


@frozen
class RelayedRequest:
    """
    A client's request, as one broker passes it to another.

    :ivar target: path and query.
    :ivar headers: values by lower-case name, without credentials.
    :ivar principal: ``User:name`` of the client, ``host`` its address.
    """

    method: str
    target: str
    headers: Headers
    body: bytes
    principal: str
    host: str

    def encode(self) -> bytes:
        """Return a line of JSON, and the body."""
        told = {
            "method": self.method,
            "target": self.target,
            "headers": {name: list(values) for name, values in self.headers.items()},
            "principal": self.principal,
            "host": self.host,
        }
        return json.dumps(told).encode() + b"\n" + self.body

    @classmethod
    def decode(cls, data: bytes) -> RelayedRequest:
        """
        Read a request.

        :raise ApiError: INVALID_REQUEST.
        """
        line, _, body = data.partition(b"\n")
        try:
            told = json.loads(line)
            headers = {str(name): [str(value) for value in values] for name, values in told["headers"].items()}
            return cls(told["method"], told["target"], headers, body, told["principal"], told["host"])
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"a relayed request cannot be read: {e!r}") from None


def encode_response(response: ViewResponse, body: bytes) -> bytes:
    """Return a response as a line of JSON, and the body."""
    told = {
        "status": int(response.status),
        "content_type": response.content_type,
        "headers": dict(response.headers),
    }
    return json.dumps(told).encode() + b"\n" + body


def decode_response(data: bytes) -> ViewResponse:
    """
    Read a response.

    :raise ValueError: it is none.
    """
    line, _, body = data.partition(b"\n")
    told = json.loads(line)
    try:
        return ViewResponse(HTTPStatus(told["status"]), told["content_type"], body, told["headers"])
    except (KeyError, TypeError) as e:
        raise ValueError(repr(e)) from None


_CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization"})

Serve = Callable[[RelayedRequest], "ViewResponse | Deferred[ViewResponse]"]


@define(eq=False)
class Relay:
    """
    Relays requests from and to the other brokers.

    :ivar broker_id: of this broker.
    :param ask: sends bytes to another broker.
    :ivar serve: serves another broker's request here.
    """

    broker_id: int
    _metadata: ClusterMetadata
    _ask: Ask
    _clock: IReactorTime
    serve: Serve = field(init=False)
    _log = Logger()

    @property
    def has_others(self) -> bool:
        """Whether the cluster has other live brokers."""
        return len(self._metadata.brokers) > 1

    # -- To other brokers

    async def send(
        self, broker_id: int, method: str, target: str, headers: Headers, body: bytes, access: HttpAccess
    ) -> ViewResponse:
        """
        Have another broker serve a request, and return its response, be it an error.

        :raise ApiError: LEADER_NOT_AVAILABLE: it is not alive, or not reached; REQUEST_TIMED_OUT and NETWORK_EXCEPTION:
            it may have served the request; UNSUPPORTED_VERSION: it has no HTTP listener.
        """
        if broker_id not in self._metadata.brokers:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"Broker {broker_id}, which this concerns, is not alive.")
        kept = {name: values for name, values in headers.items() if name not in _CREDENTIALS}
        request = RelayedRequest(method, target, kept, body, access.principal, access.host)
        try:
            return decode_response(await self._ask(broker_id, NAME, request.encode(), SECONDS))
        except ApiError as e:
            code, why = e.code, e.message
            if code is ErrorCode.UNSUPPORTED_VERSION:
                why = "it has no admin listener, or is of an older version"
            elif code is ErrorCode.BROKER_NOT_AVAILABLE:
                # It was not sent; by the next time another broker may serve it.
                code = ErrorCode.LEADER_NOT_AVAILABLE
            raise ApiError(code, f"Broker {broker_id}, which this concerns, did not answer: {why}") from None
        except ValueError as e:
            why = f"Broker {broker_id} answered what is no response: {e}"
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, why) from None

    async def merge(
        self, route: Route, call: ViewRequest, target: str, own: ViewResponse | Deferred[ViewResponse]
    ) -> dict[str, Any]:
        """
        Return a page of what all brokers have.

        Brokers that do not answer are named in ``unanswered``: what they have is missing.

        :param own: this broker's page.
        """
        others = sorted(self._metadata.brokers.keys() - {self.broker_id})
        asked = [Deferred.fromCoroutine(self._page_of(broker_id, call, target)) for broker_id in others]
        pages = [json.loads(await self._body_of(await own if isinstance(own, Deferred) else own))]
        unanswered = []
        for broker_id, answered in zip(others, await gatherResults(asked, consumeErrors=True), strict=True):
            if isinstance(answered, str):
                unanswered.append({"broker": broker_id, "reason": answered})
            else:
                pages.append(answered)
        return merged(pages, route.merged_by, call.query["limit"]) | {"unanswered": unanswered}

    async def _page_of(self, broker_id: int, call: ViewRequest, target: str) -> dict[str, Any] | str:
        """Return another broker's page, or why there is none."""
        try:
            response = await self.send(broker_id, "GET", target, call.headers, b"", call.access)
        except ApiError as e:
            return e.message
        told: dict[str, Any] = json.loads(await self._body_of(response))
        return told if response.status is HTTPStatus.OK else str(told["detail"])

    # -- From other brokers

    async def answer(self, data: bytes) -> bytes:
        """
        Serve another broker's request.

        :raise ApiError: INVALID_REQUEST: it is none; MESSAGE_TOO_LARGE: the response is.
        """
        request = RelayedRequest.decode(data)
        try:
            served = self.serve(request)
            response = await served if isinstance(served, Deferred) else served
        except Exception as e:
            self._log.failure(
                "{method} {target} of another broker failed", method=request.method, target=request.target
            )
            response = failure_response(e)
        return encode_response(response, await self._body_of(response))

    async def _body_of(self, response: ViewResponse) -> bytes:
        """Return the whole body, which a long response makes over several turns of the reactor."""
        if isinstance(response.body, bytes):
            return response.body
        parts, size = [], 0
        for part in response.body():
            if isinstance(part, Deferred):
                await part
                continue
            parts.append(part)
            size += len(part)
            if size > MAX_BYTES:
                raise ApiError(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"The response has more than {MAX_BYTES >> 20} MB, which brokers do not pass on to each other; "
                    "ask for less of a list by ?limit=, or ask the broker itself.",
                )
            await deferLater(self._clock, 0)
        return b"".join(parts)


def merged(pages: Sequence[Mapping[str, Any]], name: str, limit: int) -> dict[str, Any]:
    """
    Merge pages of one list, each with the first rows that its broker has.

    :param name: the member by which rows are ordered, and which a page continues after.
    :param limit: rows of a page.
    """
    # What is moving from one broker to another may be on both.
    found = {row[name]: row for page in pages for row in page["items"]}
    rows = [found[each] for each in sorted(found)]
    # A page that is not its list's last says nothing of what comes behind it.
    ends = [page["next"] for page in pages if page["next"] is not None]
    if ends:
        rows = [row for row in rows if row[name] <= min(ends)]
    shown = rows[:limit]
    more = len(rows) > limit or bool(ends)
    rest = {key: any(page[key] for page in pages) for key in pages[0] if key not in ("items", "next", "unanswered")}
    return {"items": shown, "next": shown[-1][name] if more and shown else None, **rest}


def leader_of(metadata: ClusterMetadata, partition: TopicPartition) -> int | None:
    """
    Return the broker that leads a partition; None: there is no such partition, which any broker can say.

    :raise ApiError: LEADER_NOT_AVAILABLE.
    """
    image = metadata.partition(partition)
    if image is None:
        return None
    if image.leader < 0:
        raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader at present; try again.")
    return image.leader


def live(metadata: ClusterMetadata, broker_id: int) -> int | None:
    """Return a broker's id if it is alive; None: it is not, which any broker can say."""
    return broker_id if broker_id in metadata.brokers else None
