"""The delegation tokens that a broker knows."""

from __future__ import annotations

from attrs import evolve

from logbus.cluster.delegation_tokens import DelegationTokens
from logbus.cluster.security_nodes import SecurityNodes
from logbus.metastore.security_znodes import DelegationToken, DelegationTokenZnode
from logbus.security.delegation_tokens import token_hmac, token_password

TOKEN = DelegationToken("id", "User:ann", "User:root", ("User:bob",), 1, 100, 50)
PATH = DelegationTokenZnode.path("id")


def followed(secret: bytes = b"secret") -> tuple[DelegationTokens, SecurityNodes]:
    nodes = SecurityNodes()
    tokens = DelegationTokens(secret)
    nodes.change({PATH: DelegationTokenZnode.encode(TOKEN)})
    tokens.follow(nodes)
    return tokens, nodes


def test_life_of_a_token() -> None:
    """A token is found by its HMAC and logs in for its owner, until it is gone; a renewed one lasts longer."""
    tokens, nodes = followed()
    code = token_hmac(b"secret", "id")
    assert (tokens.hmac("id"), tokens.by_hmac(code), list(tokens.all())) == (code, TOKEN, [TOKEN])
    account = tokens.account("SCRAM-SHA-256", "id")
    assert account is not None
    assert account is tokens.account("SCRAM-SHA-256", "id")
    assert account.credential.fits("SCRAM-SHA-256", token_password(code))
    assert (account.login.user, account.login.expires_ms, account.login.by_delegation_token) == ("ann", 50, True)
    assert tokens.of_principal == {"User:ann": 1, "User:root": 1}
    nodes.change({PATH: DelegationTokenZnode.encode(evolve(TOKEN, expiry_ms=70))})
    account = tokens.account("SCRAM-SHA-256", "id")
    assert account is not None
    assert account.login.expires_ms == 70
    nodes.change({PATH: None})
    assert (len(tokens), tokens.by_hmac(code), tokens.account("SCRAM-SHA-256", "id")) == (0, None, None)
    assert not tokens.of_principal


def test_without_a_secret() -> None:
    """Without delegation.token.secret.key there are none, whatever is stored."""
    tokens, _ = followed(b"")
    assert (tokens.enabled, len(tokens), tokens.account("SCRAM-SHA-256", "id")) == (False, 0, None)


def test_unreadable() -> None:
    """A node that cannot be read, or of a principal that no client has, is nobody's."""
    tokens, nodes = followed()
    other = DelegationTokenZnode.path("other")
    nodes.change({PATH: b"{", other: DelegationTokenZnode.encode(evolve(TOKEN, owner="Group:x"))})
    assert [tokens.account("SCRAM-SHA-256", each) for each in ("id", "other", "none", "")] == [None] * 4


def test_no_secrets_are_shown() -> None:
    """The secret and the tokens are in no text."""
    tokens, _ = followed()
    assert "secret" not in repr(tokens)
