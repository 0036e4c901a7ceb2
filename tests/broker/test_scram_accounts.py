"""The SCRAM credentials of users in the metadata."""

from __future__ import annotations

import pytest

from logbus.broker.scram_accounts import scram_accounts
from logbus.cluster.delegation_tokens import DelegationTokens
from logbus.cluster.security_nodes import SecurityNodes
from logbus.metastore.security_znodes import USER, DelegationToken, DelegationTokenZnode, EntityZnode
from logbus.security.sasl.mechanism import Login, SaslAuthenticationError
from logbus.security.sasl.scram_credential import ScramCredential

CREDENTIAL = ScramCredential.make("SCRAM-SHA-256", "secret")


def node(user: str, **settings: str) -> dict[str, bytes | None]:
    named = {name.replace("_", "-"): value for name, value in settings.items()}
    return {EntityZnode.path({USER: user}): EntityZnode.encode(named)}


def test_credentials_come_and_go() -> None:
    """A user can log in as soon as the credential is there, and no more when it is gone."""
    nodes = SecurityNodes()
    find = scram_accounts(lambda: nodes)
    assert find("SCRAM-SHA-256", "a/b", False) is None
    nodes.change(node("a/b", SCRAM_SHA_256=CREDENTIAL.encode(), producer_byte_rate="1"))
    account = find("SCRAM-SHA-256", "a/b", False)
    assert account is not None
    assert (account.credential, account.login) == (CREDENTIAL, Login("a/b"))
    assert find("SCRAM-SHA-512", "a/b", False) is None
    assert find("SCRAM-SHA-256", "a/b", True) is None
    nodes.change(dict.fromkeys(node("a/b")))
    assert find("SCRAM-SHA-256", "a/b", False) is None


@pytest.mark.parametrize("user", ["", ".", "..", "clients", "<default>", "\N{SNOWMAN}\n", "x/clients/y"])
def test_strange_names(user: str) -> None:
    """Whatever name a client sends, it finds no other node than that of the user."""
    nodes = SecurityNodes()
    nodes.change({"/config/users/<default>": EntityZnode.encode({"SCRAM-SHA-256": CREDENTIAL.encode()})})
    assert scram_accounts(lambda: nodes)("SCRAM-SHA-256", user, False) is None


@pytest.mark.parametrize("data", [b"{", b'{"version": 1, "config": {"SCRAM-SHA-256": "salt=secret"}}'])
def test_broken_nodes(data: bytes) -> None:
    """A user whose credential cannot be read cannot log in; the reason is for the log."""
    nodes = SecurityNodes()
    nodes.change({"/config/users/alice": data})
    with pytest.raises(SaslAuthenticationError, match="'alice' cannot log in") as caught:
        scram_accounts(lambda: nodes)("SCRAM-SHA-256", "alice", False)
    assert "secret" not in str(caught.value)


def test_delegation_tokens() -> None:
    """A token's id is only found by a client that says that it is one, and a user's name only by others."""
    nodes, tokens = SecurityNodes(), DelegationTokens(b"secret")
    tokens.follow(nodes)
    token = DelegationToken("id", "User:ann", "User:ann", (), 1, 3, 2)
    nodes.change(
        {
            DelegationTokenZnode.path("id"): DelegationTokenZnode.encode(token),
            **node("ann", SCRAM_SHA_256=CREDENTIAL.encode()),
        }
    )
    find = scram_accounts(lambda: nodes, tokens)
    account = find("SCRAM-SHA-256", "id", True)
    assert account is not None
    assert account.login == Login("ann", 2, by_delegation_token=True)
    assert find("SCRAM-SHA-256", "id", False) is None
    assert find("SCRAM-SHA-256", "ann", True) is None
