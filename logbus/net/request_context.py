"""The peer that sent a request, and its terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen

from logbus.net.time_slices import SliceScheduler, TimeSlice
from logbus.security.broker_challenge import BrokerChallenge
from logbus.wire.connection import Request

ANONYMOUS = "User:ANONYMOUS"
"""Kafka's principal of a connection that did not authenticate."""

BROKER_ITSELF = ""
"""The principal of a request that a broker sends to the controller of its own accord: it may do everything."""


@frozen
class ChangeTerms:
    """
    Terms of a change that Kafka's requests have no fields for; requests of this broker's HTTP API have them.

    :ivar validate_only: all is checked, and nothing changed.
    :ivar check: called where the change is made, with what is there; raises ApiError to refuse the change.
    """

    validate_only: bool = False
    check: Callable[[Any], None] = lambda present: None


NO_TERMS = ChangeTerms()


def quota_user(principal: str) -> str:
    """The user whose quotas apply to a principal: its name, of whatever type it is."""
    return principal.partition(":")[2]


@define
class RequestContext:
    """
    The peer of a connection, passed with each of its requests.

    One object serves a whole connection. When a request has another client id than the one before, the connection
    continues with a copy, so that the client id of an unfinished request never changes.

    :ivar connection_id: unique in this process.
    :ivar listener: the name of the listener that was connected to.
    :ivar host: the peer's address (:func:`.unmapped_address`); empty on a UNIX socket.
    :ivar port: the peer's port; 0 on a UNIX socket.
    :ivar principal: ``User:name``; set by authentication.
    :ivar by_delegation_token: whether the client has logged in by a delegation token (KIP-48).
    :ivar client_id: sent by the client; may be None.
    :ivar software_name: the client library, from ApiVersions 3 and later (KIP-511); the handler sets it.
    :ivar software_version: its version.
    :ivar broker: the id of the broker at the other end, once it has proved its identity; None: a client.
    :ivar challenge: what a peer that said to be a broker must prove next.
    :ivar channel: identifies the TLS connection (:mod:`.channel_binding`); empty without TLS.
    :ivar terms: those of a change; they are not forwarded, so that only the controller serves a request with some.
    :ivar scheduler: gives time slices to requests of many elements; None: they are served at once.
    """

    connection_id: int
    listener: str
    host: str
    port: int
    principal: str = ANONYMOUS
    client_id: str | None = None
    software_name: str = "unknown"
    software_version: str = "unknown"
    broker: int | None = None
    challenge: BrokerChallenge | None = None
    channel: bytes = field(default=b"", repr=False)
    by_delegation_token: bool = False
    terms: ChangeTerms = NO_TERMS
    scheduler: SliceScheduler | None = field(default=None, eq=False, repr=False)

    def time_slice(self, request: Request) -> TimeSlice:
        """
        Begin to serve a request of many elements.

        .. code-block:: python

            time_slice = context.time_slice(request)
            async for topic in time_slice.over(request.message.topics):
                ...
        """
        return TimeSlice(self.scheduler, request, self.connection_id)
