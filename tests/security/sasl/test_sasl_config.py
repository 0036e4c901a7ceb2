"""How the clients of a listener log in, from the configuration."""

from __future__ import annotations

import pytest

from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.security.sasl.sasl_config import SaslConfig, read_sasl_config

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = "listener.name.out.plain.sasl.jaas.config"
OAUTH = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "file:///etc/keys.json",
    "listener.name.out.sasl.oauthbearer.expected.issuer": "https://issuer.example",
    "sasl.oauthbearer.expected.audience": "logbus,other",
}


def read(settings: dict[str, str], *, private: bool = True) -> SaslConfig:
    return read_sasl_config(ConfigView.load(set=settings), "OUT", private=private)


def test_defaults() -> None:
    """SCRAM is enabled, which needs no settings."""
    found = read({}, private=False)
    assert found.mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512")
    assert (found.max_receive_bytes, found.max_reauth_ms) == (16_384, 0)


def test_per_listener() -> None:
    """What is set for the listener counts."""
    found = read(
        {
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.out.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "connections.max.reauth.ms": "1",
            "listener.name.out.connections.max.reauth.ms": "2",
            "listener.name.out.sasl.server.max.receive.size": "3",
        }
    )
    assert (found.mechanisms, found.max_reauth_ms, found.max_receive_bytes) == (("SCRAM-SHA-512",), 2, 3)


def test_users_of_plain() -> None:
    """The users are in the JAAS line of the listener and the mechanism, and are not shown."""
    found = read({"sasl.enabled.mechanisms": "PLAIN", USERS: f'{PLAIN} required user_alice="secret";'})
    assert found.passwords == {"alice": "secret"}
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (None, f"PLAIN needs its users in {USERS}"),
        (f'{PLAIN} required user_alice="secret"', "semicolon"),
        (f'{PLAIN} required username="alice" password="secret";', "has no user"),
        ('x.ScramLoginModule required user_alice="secret";', "needs a PlainLoginModule"),
    ],
)
def test_no_users_of_plain(line: str | None, why: str) -> None:
    """Without users nobody could log in; the error names the key, and quotes no password."""
    with pytest.raises(ConfigError, match=why) as caught:
        read({"sasl.enabled.mechanisms": "PLAIN"} | ({} if line is None else {USERS: line}))
    assert "listener OUT: " in str(caught.value)
    assert "secret" not in str(caught.value)


def test_plain_over_the_network() -> None:
    """Passwords are not sent where others can read them, unless that is wanted."""
    settings = {"sasl.enabled.mechanisms": "PLAIN", USERS: f'{PLAIN} required user_alice="secret";'}
    with pytest.raises(ConfigError, match="readable over the network"):
        read(settings, private=False)
    assert read({**settings, "listener.name.out.sasl.plain.allow.unencrypted": "true"}, private=False).passwords


def test_tokens() -> None:
    """OAUTHBEARER needs keys, issuer and audience."""
    found = read(OAUTH).jwt
    assert found is not None
    assert (found.keys_url, found.issuer) == ("file:///etc/keys.json", "https://issuer.example")
    assert (found.audiences, found.user_claim, found.skew_seconds) == (("logbus", "other"), "sub", 30)
    for missing in list(OAUTH)[1:]:
        with pytest.raises(ConfigError, match=missing.removeprefix("listener.name.out.")):
            read({name: value for name, value in OAUTH.items() if name != missing})


@pytest.mark.parametrize("url", ["http://issuer.example/keys", "/etc/keys.json", "data:,{}"])
def test_urls_of_keys(url: str) -> None:
    """Keys come from a file, or by HTTPS: otherwise others could send their own."""
    with pytest.raises(ConfigError, match="file: or https:"):
        read({**OAUTH, "sasl.oauthbearer.jwks.endpoint.url": url})


def test_no_mechanism() -> None:
    """Some mechanism must be enabled."""
    with pytest.raises(ConfigError, match="nobody could log in"):
        read({"sasl.enabled.mechanisms": ""})
