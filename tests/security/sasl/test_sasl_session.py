"""The login of a connection."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logbus.errors import ErrorCode, ProtocolError
from logbus.security.sasl.mechanism import Login, Mechanisms, SaslAuthenticationError
from logbus.security.sasl.plain import PlainServer, plain_message, verifier
from logbus.security.sasl.sasl_session import SaslReply, SaslSession, SaslSettings, SessionExpired
from logbus.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

ALICE = plain_message("alice", "secret")
METADATA, API_VERSIONS = 3, 18
SECONDS_OF_TOKENS = 60.0


class TokenServer:
    """Takes the name of a user as token; it ends after a minute."""

    def __init__(self, ends_ms: float) -> None:
        self.login: Login | None = None
        self._ends_ms = ends_ms

    def evaluate(self, response: bytes) -> bytes:
        if response == b"bad":
            raise SaslAuthenticationError("a bad token")
        self.login = Login(response.decode(), self._ends_ms)
        return b"welcome"


class Kit:
    """A session with clocks; the epoch is the clocks' start."""

    def __init__(self, max_reauth_ms: int = 0) -> None:
        self.now = 0.0
        mechanisms: Mechanisms = {
            "PLAIN": lambda: PlainServer(verifier({"alice": "secret", "bob": "secret"})),
            "TOKEN": lambda: TokenServer((self.now + SECONDS_OF_TOKENS) * 1000),
        }
        settings = SaslSettings(mechanisms, 1000, max_reauth_ms)
        self.session = SaslSession(settings, lambda: self.now, lambda: self.now)

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> SaslReply:
        return self.session.handshake(SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, token: bytes = ALICE) -> SaslReply:
        return self.session.authenticate(SaslAuthenticateRequest(auth_bytes=token))

    def log_in(self, mechanism: str = "PLAIN", token: bytes = ALICE) -> Any:
        assert self.handshake(mechanism).failure is None
        reply = self.authenticate(token)
        assert reply.login is not None
        return reply.answer


def code(reply: SaslReply) -> int:
    answer: Any = reply.answer
    return int(answer.error_code)


def test_log_in() -> None:
    """After handshake and token every request is served."""
    kit = Kit()
    kit.session.check(API_VERSIONS)
    with pytest.raises(ProtocolError, match="Metadata before the client has logged in"):
        kit.session.check(METADATA)
    handshake: Any = kit.handshake().answer
    assert handshake.mechanisms == ["PLAIN", "TOKEN"]
    assert not kit.session.is_open
    answer: Any = kit.authenticate().answer
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
    assert kit.session.is_open
    kit.session.check(METADATA)


def test_bare_tokens() -> None:
    """After a handshake of version 0 the token is a frame of its own, and so is the answer."""
    kit = Kit()
    assert kit.handshake(version=0).failure is None
    assert kit.session.takes_bare_tokens
    reply = kit.session.bare_token(ALICE)
    assert (reply.answer, reply.login, reply.failure) == (b"", Login("alice"), None)
    assert not kit.session.takes_bare_tokens
    assert kit.session.is_open


def test_a_bare_token_that_is_wrong() -> None:
    """There is no answer to it: the connection is closed."""
    kit = Kit()
    kit.handshake(version=0)
    reply = kit.session.bare_token(plain_message("alice", "wrong"))
    assert (reply.answer, reply.login) == (None, None)
    assert "wrong user or password" in str(reply.failure)


def test_wrong_credentials() -> None:
    """The client is told that it failed, with the same words whatever was wrong; the log has more."""
    answers = set()
    for user, password in (("alice", "wrong"), ("nobody", "secret")):
        kit = Kit()
        kit.handshake()
        reply = kit.authenticate(plain_message(user, password))
        assert code(reply) == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert user in str(reply.failure)
        answers.add(reply.answer.error_message)  # type: ignore[union-attr]
        assert not kit.session.is_open
        with pytest.raises(ProtocolError):
            kit.session.check(API_VERSIONS)
    assert len(answers) == 1


def test_a_mechanism_that_is_not_enabled() -> None:
    """The answer lists those that are, and the connection is closed."""
    reply = Kit().handshake("GSSAPI")
    assert code(reply) == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert reply.answer.mechanisms == ["PLAIN", "TOKEN"]  # type: ignore[union-attr]
    assert "GSSAPI" in str(reply.failure)


def test_out_of_order() -> None:
    """A token before the handshake, and a second handshake, are illegal."""
    reply = Kit().authenticate()
    assert code(reply) == ErrorCode.ILLEGAL_SASL_STATE
    assert reply.failure
    kit = Kit()
    kit.handshake()
    with pytest.raises(ProtocolError):
        kit.session.check(API_VERSIONS)
    assert code(reply := kit.handshake()) == ErrorCode.ILLEGAL_SASL_STATE
    assert reply.failure


def test_long_tokens() -> None:
    """A token beyond the limit fails before it is looked at."""
    kit = Kit()
    kit.handshake()
    assert "1001 bytes" in str(kit.authenticate(b"x" * 1001).failure)


@pytest.mark.parametrize(
    ("mechanism", "token", "max_reauth_ms", "lifetime"),
    [
        ("PLAIN", ALICE, 0, 0),
        ("PLAIN", ALICE, 5000, 5000),
        ("TOKEN", b"alice", 0, 60_000),
        ("TOKEN", b"alice", 5000, 5000),
        ("TOKEN", b"alice", 90_000, 60_000),
    ],
)
def test_lifetime(mechanism: str, token: bytes, max_reauth_ms: int, lifetime: int) -> None:
    """A session ends with its credential, or after connections.max.reauth.ms, whatever comes first."""
    kit = Kit(max_reauth_ms)
    assert kit.log_in(mechanism, token).session_lifetime_ms == lifetime
    kit.now = (lifetime or 10**9) / 1000 - 0.001
    assert kit.session.is_open
    kit.session.check(METADATA)
    if lifetime:
        kit.now += 0.001
        assert not kit.session.is_open
        with pytest.raises(SessionExpired, match="'alice'"):
            kit.session.check(METADATA)


def test_log_in_again() -> None:
    """A session is renewed, also when it has just ended; not more than once a second."""
    kit = Kit(5000)
    kit.log_in()
    kit.now = 5.5
    kit.log_in()
    kit.now = 10.0
    assert kit.session.is_open
    kit.log_in()
    kit.now = 10.9
    assert code(reply := kit.handshake()) == ErrorCode.ILLEGAL_SASL_STATE
    assert reply.failure is None
    assert kit.session.is_open


def test_log_in_again_in_vain() -> None:
    """With another user, another mechanism, or a wrong password, the connection is closed."""
    kit = Kit(5000)
    kit.log_in()
    kit.handshake()
    with pytest.raises(ProtocolError):
        kit.session.check(METADATA)
    assert "logs in again as 'bob'" in str(kit.authenticate(plain_message("bob", "secret")).failure)
    kit = Kit(5000)
    kit.log_in()
    reply = kit.handshake("TOKEN")
    assert code(reply) == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert "another mechanism" in str(reply.failure)
    kit = Kit(5000)
    kit.log_in()
    kit.handshake()
    assert kit.authenticate(plain_message("alice", "wrong")).failure


def test_sasl_without_need() -> None:
    """Where sessions have no end, SASL after the login is illegal, and the connection stays."""
    kit = Kit()
    kit.log_in()
    for reply in (kit.handshake(), kit.authenticate()):
        assert code(reply) == ErrorCode.ILLEGAL_SASL_STATE
        assert reply.failure is None
    assert kit.session.is_open


STEPS = st.one_of(
    st.tuples(st.just("handshake"), st.sampled_from(["PLAIN", "TOKEN", "GSSAPI"]), st.integers(0, 1)),
    st.tuples(st.just("token"), st.sampled_from([b"", b"bad", b"\0alice\0wrong", b"\0eve\0secret"]), st.just(0)),
    st.tuples(st.just("other"), st.sampled_from([METADATA, API_VERSIONS]), st.just(0)),
)


@given(st.lists(STEPS, max_size=8))
def test_nobody_gets_in_without_credentials(steps: list[Any]) -> None:
    """No order of messages opens a session without right credentials; a failure is final."""
    kit = Kit(1000)
    failed = False
    for kind, what, version in steps:
        try:
            if kind == "handshake":
                reply = kit.handshake("PLAIN" if what == "TOKEN" else what, version)
            elif kind == "token":
                reply = kit.session.bare_token(what) if kit.session.takes_bare_tokens else kit.authenticate(what)
            else:
                kit.session.check(what)
                assert what == API_VERSIONS and not failed
                continue
        except ProtocolError:
            continue
        assert reply.login is None
        assert not failed or reply.failure
        failed = failed or reply.failure is not None
        assert not kit.session.is_open
