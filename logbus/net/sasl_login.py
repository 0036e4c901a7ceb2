"""
The login of a connection by SASL, between the frames it sends and the requests that are served (Kafka: KafkaChannel's
Authenticator).
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from logbus.errors import ProtocolError
from logbus.records.file_slice import Parts
from logbus.security.sasl.sasl_session import (
    API_VERSIONS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SaslReply,
    SaslSession,
    SaslSettings,
)
from logbus.wire.connection import Request, ServerConnection
from logbus.wire.element_budget import UNAUTHENTICATED_ELEMENTS
from logbus.wire.messages import api

_PREFIX = struct.Struct(">i")
_SASL = (SASL_HANDSHAKE, SASL_AUTHENTICATE)


@define(eq=False)
class SaslLogin:
    """
    The SASL login of a listener's clients.

    :ivar settings: for new connections.
    :ivar wall_clock: seconds since the epoch.
    :ivar delay: seconds after which a client learns that its login failed.
    :ivar seconds: in which a client must log in.
    """

    settings: Callable[[], SaslSettings]
    wall_clock: Callable[[], float]
    delay: Callable[[], float]
    seconds: float = 10.0
    _early: ServerConnection | None = field(default=None, init=False)

    def begin(self, clock: IReactorTime, wire: ServerConnection) -> ConnectionLogin:
        """
        Begin the login of a connection.

        :param wire: reads its requests once it has logged in.
        """
        if self._early is None:
            self._early = _early(wire)
        return ConnectionLogin(SaslSession(self.settings(), clock.seconds, self.wall_clock), wire, self._early)


def _early(wire: ServerConnection) -> ServerConnection:
    """Return what reads requests before the login, and those of SASL after it."""
    served = {key: wire.served[key] for key in (API_VERSIONS,) if key in wire.served}
    for key in _SASL:
        versions = api(key).versions
        served[key] = (versions.min, versions.max)
    return ServerConnection(served, UNAUTHENTICATED_ELEMENTS, count_error=wire.count_error)


@define(eq=False)
class ConnectionLogin:
    """The login of one connection."""

    session: SaslSession
    _wire: ServerConnection
    _early: ServerConnection

    def receive(self, frame: memoryview) -> tuple[Request | None, SaslReply | None]:
        """
        Take a frame: a request to be served, or what follows from a message of the login.

        :raises ProtocolError: it is neither, or may not be served now.
        """
        session = self.session
        if session.takes_bare_tokens:
            return None, session.bare_token(bytes(frame))
        key = int.from_bytes(frame[:2], "big")
        if key not in _SASL:
            session.check(key)
            return (self._early if session.login is None else self._wire).receive(frame), None
        request = self._early.receive(frame)
        if request.decoding is not None:
            raise ProtocolError("a request of SASL with too many tagged fields")
        if key == SASL_HANDSHAKE:
            return request, session.handshake(request.message, request.api_version)
        return request, session.authenticate(request.message)

    def encode(self, request: Request | None, reply: SaslReply) -> Parts:
        """Encode what is sent to the client."""
        answer = reply.answer
        if isinstance(answer, bytes):
            return [_PREFIX.pack(len(answer)) + answer]
        return [] if answer is None or request is None else self._early.respond(request, answer)
