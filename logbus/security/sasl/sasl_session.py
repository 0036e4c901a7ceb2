"""
The login of one connection, and its repetition (Kafka: SaslServerAuthenticator; KIP-43, KIP-152, KIP-368). Pure.

::

    handshake ──SaslHandshake 0──▶ bare tokens ──────────┐
        │                                                ▼
        └──────SaslHandshake 1──▶ SaslAuthenticate ──▶ open ──SaslHandshake──▶ SaslAuthenticate ──▶ open
                                                          (re-authentication)

Whatever is wrong ends the connection: the client learns that its login failed, but not which part of it was wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from attrs import define, field, frozen

from logbus.errors import ErrorCode, ProtocolError
from logbus.security.sasl.mechanism import Login, Mechanisms, SaslAuthenticationError, SaslServer, shown
from logbus.wire.messages import api_name
from logbus.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36

LOGIN_MAX_BYTES = 65_536
"""The longest frame before the login, and the longest token of OAUTHBEARER."""

REAUTHENTICATION_SECONDS = 1.0
"""How often a connection may log in again."""


class SessionExpired(ProtocolError):
    """A client did not log in again before its session ended (KIP-368)."""


@frozen
class SaslSettings:
    """
    The SASL settings of a listener.

    :ivar mechanisms: those enabled.
    :ivar max_receive_bytes: of a message, except in OAUTHBEARER (``sasl.server.max.receive.size``).
    :ivar max_reauth_ms: how long a session lasts (``connections.max.reauth.ms``); 0: as long as its credential.
    """

    mechanisms: Mechanisms
    max_receive_bytes: int = 16_384
    max_reauth_ms: int = 0


@frozen
class SaslReply:
    """
    The reaction to a message of the client.

    :ivar answer: the response, or a bare token; None: nothing is sent.
    :ivar login: set if the client has logged in now.
    :ivar failure: the reason to close the connection, for the log.
    """

    answer: SaslHandshakeResponse | SaslAuthenticateResponse | bytes | None
    login: Login | None = None
    failure: str | None = None


class _State(Enum):
    HANDSHAKE = auto()
    BARE_TOKENS = auto()
    AUTHENTICATE = auto()
    OPEN = auto()
    FAILED = auto()


@define(eq=False)
class SaslSession:
    """
    The state of a connection.

    :param seconds: a monotonic clock.
    :param wall_clock: seconds since the epoch.
    :ivar login: who has logged in; None: nobody yet.
    """

    _settings: SaslSettings
    _seconds: Callable[[], float]
    _wall_clock: Callable[[], float]
    login: Login | None = field(default=None, init=False)
    _state: _State = field(default=_State.HANDSHAKE, init=False)
    _mechanism: str = field(default="", init=False)
    _server: SaslServer | None = field(default=None, init=False, repr=False)
    _expires: float | None = field(default=None, init=False)
    _began_again: float | None = field(default=None, init=False)

    @property
    def takes_bare_tokens(self) -> bool:
        """Whether the next frame is a token, without header."""
        return self._state is _State.BARE_TOKENS

    @property
    def is_open(self) -> bool:
        """Whether all requests are served, without a look at each."""
        return self._state is _State.OPEN and (self._expires is None or self._seconds() < self._expires)

    def check(self, api_key: int) -> None:
        """
        Check that a request other than those of SASL may be served now.

        :raises ProtocolError: it may not.
        """
        if self._state is _State.OPEN:
            if self._expires is not None and self._seconds() >= self._expires:
                user = "" if self.login is None else shown(self.login.user)
                raise SessionExpired(f"the session of user {user} has ended, and it did not log in again")
        elif self._state is not _State.HANDSHAKE or api_key != API_VERSIONS:
            raise ProtocolError(f"a request of {api_name(api_key)} before the client has logged in by SASL")

    def handshake(self, request: SaslHandshakeRequest, version: int) -> SaslReply:
        """Choose the mechanism."""
        again = self._state is _State.OPEN
        if not again and self._state is not _State.HANDSHAKE:
            return self._failed(_handshake_error(ErrorCode.ILLEGAL_SASL_STATE), "a second SaslHandshake")
        if again and not self._may_begin_again():
            return SaslReply(_handshake_error(ErrorCode.ILLEGAL_SASL_STATE))
        name, enabled = request.mechanism, self._settings.mechanisms
        begin = enabled.get(name)
        if begin is None or (again and name != self._mechanism):
            why = "another mechanism than before" if begin is not None else "a mechanism that is not enabled"
            response = _handshake_error(ErrorCode.UNSUPPORTED_SASL_MECHANISM, *enabled)
            return self._failed(response, f"{why}: {shown(name)}; enabled are {', '.join(enabled) or 'none'}")
        self._mechanism, self._server = name, begin()
        self._state = _State.AUTHENTICATE if version or again else _State.BARE_TOKENS
        return SaslReply(SaslHandshakeResponse(mechanisms=list(enabled)))

    def authenticate(self, request: SaslAuthenticateRequest) -> SaslReply:
        """Take a token that is in a request."""
        if self._state is not _State.AUTHENTICATE:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE,
                error_message="SaslAuthenticate must follow a SaslHandshake of version 1",
                auth_bytes=b"",
            )
            if self._state is _State.OPEN:
                return SaslReply(response)
            return self._failed(response, "SaslAuthenticate without SaslHandshake")
        try:
            token, login = self._evaluate(bytes(request.auth_bytes))
        except SaslAuthenticationError as e:
            return self._failed(
                SaslAuthenticateResponse(
                    error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                    error_message=f"Authentication failed: the credentials for {self._mechanism} are not valid.",
                    auth_bytes=b"",
                ),
                str(e),
            )
        lifetime = 0 if login is None else self._opened(login)
        response = SaslAuthenticateResponse(error_message=None, auth_bytes=token, session_lifetime_ms=lifetime)
        return SaslReply(response, login)

    def bare_token(self, token: bytes) -> SaslReply:
        """Take a token that is a frame by itself."""
        try:
            answer, login = self._evaluate(token)
        except SaslAuthenticationError as e:
            return self._failed(None, str(e))
        if login is not None:
            self._opened(login)
        return SaslReply(answer, login)

    def _may_begin_again(self) -> bool:
        now, before = self._seconds(), self._began_again
        if self._expires is None or (before is not None and now - before < REAUTHENTICATION_SECONDS):
            return False
        self._began_again = now
        return True

    def _evaluate(self, token: bytes) -> tuple[bytes, Login | None]:
        assert self._server is not None
        most = LOGIN_MAX_BYTES if self._mechanism == "OAUTHBEARER" else self._settings.max_receive_bytes
        if len(token) > most:
            raise SaslAuthenticationError(f"a message of {len(token)} bytes; there may be {most}")
        answer = self._server.evaluate(token)
        login = self._server.login
        if login is not None:
            if self.login is not None and login.user != self.login.user:
                raise SaslAuthenticationError(f"user {shown(self.login.user)} logs in again as {shown(login.user)}")
            if login.expires_ms is not None and login.expires_ms <= self._wall_clock() * 1000:
                raise SaslAuthenticationError(f"the credential of user {shown(login.user)} has ended")
        return answer, login

    def _opened(self, login: Login) -> int:
        """Begin a session; returns its milliseconds, 0: it has no end."""
        ends = [] if login.expires_ms is None else [login.expires_ms - self._wall_clock() * 1000]
        if self._settings.max_reauth_ms:
            ends.append(self._settings.max_reauth_ms)
        lifetime = min(ends, default=None)
        self._expires = None if lifetime is None else self._seconds() + lifetime / 1000
        self.login, self._server, self._state = login, None, _State.OPEN
        return 0 if lifetime is None else max(1, int(lifetime))

    def _failed(self, answer: SaslHandshakeResponse | SaslAuthenticateResponse | None, why: str) -> SaslReply:
        self._state, self._server = _State.FAILED, None
        return SaslReply(answer, failure=why)


def _handshake_error(code: ErrorCode, *mechanisms: str) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=code, mechanisms=list(mechanisms))
