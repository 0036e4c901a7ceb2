"""What a client logs in with, read from properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from logbus.errors import ConfigError
from logbus.security.sasl.client_login import MECHANISMS, ClientLogin
from logbus.security.sasl.mechanism import SaslAuthenticationError
from logbus.security.sasl.oauthbearer import oauthbearer_message
from logbus.security.sasl.plain import plain_message

USER = {"sasl.username": "alice", "sasl.password": "secret"}
JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="secret"{more};'


def test_plain() -> None:
    """One message with both."""
    login = ClientLogin.of({"sasl.mechanism": "PLAIN", **USER})
    assert list(login.exchange()) == [plain_message("alice", "secret")]
    assert "secret" not in repr(login) + str(login)


def test_scram() -> None:
    """As in Java's configuration, too; a delegation token is told by an extension."""
    for more, said in (("", b""), (' tokenauth="true"', b",tokenauth=true")):
        login = ClientLogin.of({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": JAAS.format(more=more)})
        first = next(login.exchange())
        assert first.startswith(b"n,,n=alice,r=")
        assert first.endswith(said)


def test_token_file(tmp_path: Path) -> None:
    """The file is read at each login; one that is missing is an error of the login."""
    path = tmp_path / "a token"
    login = ClientLogin.of({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": path.as_uri()})
    for token in ("first", "second"):
        path.write_text(f"{token}\n")
        assert next(login.exchange()) == oauthbearer_message(token)
    path.unlink()
    with pytest.raises(SaslAuthenticationError, match="cannot be read"):
        next(login.exchange())


def test_refused_token() -> None:
    """The server's error is answered, as RFC 7628 has it."""
    exchange = ClientLogin.of({"sasl.mechanism": "OAUTHBEARER"}, lambda: "token").exchange()
    next(exchange)
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "sasl.mechanism: it is missing; accepted: " + ", ".join(MECHANISMS)),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism: GSSAPI: not a mechanism that is known here"),
        ({"sasl.mechanism": "PLAIN"}, "PLAIN needs a user and a password, and the user is missing"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a"}, "the password is missing"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": "x", **USER}, "not both"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": "nonsense secret"},
            "sasl.jaas.config: it is not",
        ),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": 'x.Krb5LoginModule required a="secret";'}, "Krb5LoginModule"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "file:///path"),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "https://x/"}, "https://x/"),
    ],
)
def test_wrong(given: dict[str, str], said: str) -> None:
    """Each error names the property and what would be right, and no password."""
    with pytest.raises(ConfigError) as caught:
        ClientLogin.of(given)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
