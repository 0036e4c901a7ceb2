"""Finds the SCRAM credentials of users in the broker's copy of the metadata."""

from __future__ import annotations

from collections.abc import Callable

from logbus.cluster.security_nodes import SecurityNodes
from logbus.metastore.security_znodes import USER, EntityZnode
from logbus.metastore.znode_json import BadZnode
from logbus.security.sasl.mechanism import Login, SaslAuthenticationError, shown
from logbus.security.sasl.scram_credential import ScramCredential
from logbus.security.sasl.scram_server import ScramAccount, ScramAccounts


def scram_accounts(nodes: Callable[[], SecurityNodes]) -> ScramAccounts:
    """Return what finds the account of a user."""

    def find(mechanism: str, user: str, by_token: bool) -> ScramAccount | None:
        if by_token or not user:
            return None
        path = EntityZnode.path({USER: user})
        try:
            text = EntityZnode.decode(path, nodes().get(path)).get(mechanism)
            return None if text is None else ScramAccount(ScramCredential.decode(text), Login(user))
        except (BadZnode, ValueError) as e:
            raise SaslAuthenticationError(f"user {shown(user)} cannot log in by {mechanism}: {e}") from None

    return find
