"""SCRAM: the server's side, against the examples of the RFCs and our client's side."""

from __future__ import annotations

import base64
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logbus.security.sasl.mechanism import Login, SaslAuthenticationError
from logbus.security.sasl.scram_client import scram_exchange
from logbus.security.sasl.scram_credential import ScramCredential, salted_password
from logbus.security.sasl.scram_server import ScramAccount, ScramServer, UnknownUsers

SHA_256 = "SCRAM-SHA-256"
UNKNOWN = UnknownUsers(b"secret")
RFC_CREDENTIAL = ScramCredential.make(SHA_256, "pencil", 4096, base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))


def account(mechanism: str, user: str, by_token: bool) -> ScramAccount | None:
    if by_token:
        return ScramAccount(RFC_CREDENTIAL, Login("owner", None, True)) if user == "token" else None
    if user in ("user", "a=b,c"):
        return ScramAccount(ScramCredential.make(mechanism, "pencil", 4096, b"salt"), Login(user))
    return None


def log_in(user: str, password: str, mechanism: str = SHA_256, **extensions: str) -> Login | None:
    server = ScramServer(mechanism, account, UNKNOWN)
    exchange = scram_exchange(mechanism, user, password, "nonce", extensions)
    message = next(exchange)
    with pytest.raises(StopIteration):
        while True:
            message = exchange.send(server.evaluate(message))
    return server.login


def test_rfc_7677() -> None:
    """The example of RFC 7677, byte by byte."""
    server = ScramServer(
        SHA_256,
        lambda mechanism, user, by_token: ScramAccount(RFC_CREDENTIAL, Login(user)),
        UNKNOWN,
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    )
    assert server.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert server.evaluate(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.login == Login("user")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", ["user", "a=b,c"])
def test_our_client(mechanism: str, user: str) -> None:
    """Our client's side logs in, also with a name that must be escaped."""
    assert log_in(user, "pencil", mechanism) == Login(user)


def test_librdkafka_before_2_2() -> None:
    """Its last message has its own nonce twice, which Kafka accepts: the end is the server's."""
    server = ScramServer(SHA_256, account, UNKNOWN, "server")
    exchange = scram_exchange(SHA_256, "user", "pencil", "client")
    first = server.evaluate(next(exchange))
    key = ScramCredential.make(SHA_256, "pencil", 4096, b"salt").stored_key
    client_key = hmac.digest(salted_password(SHA_256, "pencil", b"salt", 4096), b"Client Key", "sha256")
    final = b"c=biws,r=clientclientserver"
    signature = hmac.digest(key, b",".join([b"n=user,r=client", first, final]), "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server.evaluate(final + b",p=" + base64.b64encode(proof))
    assert server.login == Login("user")


def test_a_delegation_token() -> None:
    """A delegation token's id stands for its owner, but only if the client says that it is one."""
    assert log_in("token", "pencil", tokenauth="true") == Login("owner", None, True)
    with pytest.raises(SaslAuthenticationError):
        log_in("token", "pencil")


@pytest.mark.parametrize(("user", "password"), [("user", "pen"), ("nobody", "pencil")])
def test_wrong_credentials(user: str, password: str) -> None:
    """A wrong password and a user who does not exist fail alike, at the end."""
    with pytest.raises(SaslAuthenticationError, match=f"wrong user or password for user '{user}'"):
        log_in(user, password)


def test_unknown_users_have_constant_salts() -> None:
    """Somebody who does not exist has the same salt each time, and another one than others."""

    def first(user: bytes) -> bytes:
        return ScramServer(SHA_256, account, UNKNOWN, "x").evaluate(b"n,,n=" + user + b",r=abc")

    assert first(b"nobody") == first(b"nobody") != first(b"noone")
    assert first(b"nobody").endswith(b",i=4096")


def test_brokers_make_up_the_same_salts() -> None:
    """All brokers of a cluster have the same salt for somebody who does not exist, and other clusters another one."""
    one, same, other = (UnknownUsers.of_brokers(secret).credential(SHA_256, "nobody") for secret in (b"a", b"a", b"b"))
    assert one == same
    assert one.salt != other.salt


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "header"),
        (b"p=tls-unique,,n=user,r=abc", "channel binding"),
        (b"x,,n=user,r=abc", "header"),
        (b"n,admin,n=user,r=abc", "header"),
        (b"n,a=admin,n=user,r=abc", "act as 'admin'"),
        (b"n,,r=abc,n=user", "user's name"),
        (b"n,,n=,r=abc", "name"),
        (b"n,,n=a=b,r=abc", "escaped"),
        (b"n,,n=user", r"nonce|name"),
        (b"n,,n=user,r=", "nonce"),
        (b"n,,n=user,r=a b", "nonce"),
        (b"n,,n=user,r=abc,oops", "extension"),
        (b"n,,n=\xff,r=abc", "UTF-8"),
    ],
)
def test_broken_first_messages(message: bytes, why: str) -> None:
    """What is no first message is refused with the reason, for the log."""
    with pytest.raises(SaslAuthenticationError, match=why):
        ScramServer(SHA_256, account, UNKNOWN).evaluate(message)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"c=biws,r=abcx", "lacks"),
        (b"r=abcx,c=biws,p=YQ==", "lacks"),
        (b"c=biws,r=abcy,p=YQ==", "another nonce"),
        (b"c=eSws,r=abcx,p=YQ==", "channel binding"),
        (b"c=biws,r=abcx,p=!", "base64"),
        (b"c=biws,r=abcx,p=YQ==", "wrong user or password"),
    ],
)
def test_broken_last_messages(message: bytes, why: str) -> None:
    """The same for the last message."""
    server = ScramServer(SHA_256, account, UNKNOWN, "x")
    server.evaluate(b"n,,n=user,r=abc")
    with pytest.raises(SaslAuthenticationError, match=why):
        server.evaluate(message)
    assert server.login is None


@given(st.lists(st.binary(max_size=60), max_size=3))
def test_any_bytes(messages: list[bytes]) -> None:
    """Whatever a client sends, it is refused in an orderly way, or answered."""
    server = ScramServer(SHA_256, account, UNKNOWN)
    try:
        for message in messages:
            server.evaluate(message)
    except SaslAuthenticationError:
        pass
    assert server.login is None
