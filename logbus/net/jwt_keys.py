"""
The keys of a token issuer, read from a file or by HTTPS, and again from time to time (Kafka: RefreshingHttpsJwks).

What comes by HTTPS is checked as browsers do, by the system's certificates. An issuer that does not answer leaves the
keys that were read before.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.client import Agent, BrowserLikePolicyForHTTPS, ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers

from logbus.errors import ConfigError
from logbus.security.sasl.jwt_validator import MAX_KEYS_BYTES, JwtKeys, JwtRules, UnknownKey, parse_keys, validate
from logbus.security.sasl.mechanism import Login, SaslAuthenticationError
from logbus.security.sasl.oauthbearer import OAuthBearerServer
from logbus.security.sasl.sasl_config import JwtSettings

_TIMEOUT = 10.0
_SOONEST = 10.0
"""How soon keys are read again because a token has an unknown one, or because reading failed, in seconds."""


@define(eq=False)
class JwtLogins:
    """
    Logs in clients by tokens of one issuer.

    :param agent: sends HTTP requests; None: one on the reactor.
    """

    _reactor: Any
    _settings: JwtSettings
    _agent: Any = None
    _keys: JwtKeys | None = field(default=None, init=False)
    _rules: JwtRules = field(init=False)
    _next: IDelayedCall | None = field(default=None, init=False)
    _reading: Deferred[None] | None = field(default=None, init=False)
    _running: bool = field(default=False, init=False)
    _log = Logger(namespace="logbus.security")

    def __attrs_post_init__(self) -> None:
        of = self._settings
        self._rules = JwtRules(of.issuer, of.audiences, of.skew_seconds, of.user_claim, of.scope_claim)

    def start(self) -> None:
        """
        Read the keys, and go on reading them.

        :raise ConfigError: a file has no keys.
        """
        if self._running:
            return
        if self._file is not None:
            self._keys = parse_keys(self._read_file(self._file))
        self._running = True
        if self._file is not None:
            self._again(self._settings.refresh_ms / 1000)
        else:
            self._refresh()

    def stop(self) -> None:
        """Read nothing any more."""
        self._running = False
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if self._reading is not None:
            self._reading.cancel()

    def server(self) -> OAuthBearerServer:
        """Begin a login."""
        return OAuthBearerServer(self.validate)

    def validate(self, token: str) -> Login:
        """
        Return who has a token.

        :raise SaslAuthenticationError: it is not valid.
        """
        if self._keys is None:
            raise SaslAuthenticationError("the issuer's keys could not be read yet")
        try:
            return validate(token, self._keys, self._rules)
        except UnknownKey:
            self._again(_SOONEST)
            raise

    @property
    def _file(self) -> str | None:
        url = urlsplit(self._settings.keys_url)
        return unquote(url.path) if url.scheme == "file" else None

    def _read_file(self, path: str) -> bytes:
        try:
            with open(path, "rb") as file:
                return file.read(MAX_KEYS_BYTES + 1)
        except OSError as e:
            raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url: {path}: {e.strerror}") from None

    def _again(self, seconds: float) -> None:
        """Read the keys after so many seconds, or sooner if that is planned."""
        if not self._running or self._reading is not None:
            return
        if self._next is not None:
            if self._next.getTime() <= self._reactor.seconds() + seconds:
                return
            self._next.cancel()
        self._next = self._reactor.callLater(seconds, self._refresh)

    def _refresh(self) -> None:
        self._next = None
        self._reading = reading = self._fetch()
        reading.addCallbacks(self._read, self._failed)

    def _fetch(self) -> Deferred[Any]:
        if self._file is not None:
            return succeed(self._file).addCallback(self._read_file)
        if self._agent is None:
            self._agent = Agent(self._reactor, BrowserLikePolicyForHTTPS(), connectTimeout=_TIMEOUT)
        headers = Headers({"Accept": ["application/json"], "User-Agent": ["logbus"]})
        asked: Deferred[Any] = self._agent.request(b"GET", self._settings.keys_url.encode(), headers)
        return asked.addCallback(_body).addTimeout(_TIMEOUT, self._reactor)

    def _read(self, text: bytes) -> None:
        self._reading = None
        try:
            self._keys = parse_keys(text)
        except ConfigError:
            self._failed(Failure())
            return
        self._again(self._settings.refresh_ms / 1000)

    def _failed(self, failure: Failure) -> None:
        self._reading = None
        if self._running:
            self._log.warn(
                "the keys of {issuer} could not be read from {url}: {error}",
                issuer=self._settings.issuer,
                url=self._settings.keys_url,
                error=failure.getErrorMessage(),
            )
            self._again(min(_SOONEST, self._settings.refresh_ms / 1000))


def _body(response: Any) -> Deferred[bytes]:
    if response.code != 200:
        raise ConfigError(f"the answer has status {response.code}")
    done: Deferred[bytes] = Deferred()
    response.deliverBody(_Body(done))
    return done


class _Body(Protocol):
    """Collects the body of a response, up to a limit."""

    def __init__(self, done: Deferred[bytes]) -> None:
        self._done: Deferred[bytes] | None = done
        self._parts = bytearray()

    def dataReceived(self, data: bytes) -> None:
        self._parts += data
        if len(self._parts) > MAX_KEYS_BYTES:
            transport: Any = self.transport
            transport.abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        done, self._done = self._done, None
        if done is None or done.called:
            return
        if len(self._parts) <= MAX_KEYS_BYTES and reason.check(ResponseDone, PotentialDataLoss, ConnectionDone):
            done.callback(bytes(self._parts))
        else:
            done.errback(reason)
