"""Finds the SCRAM credentials of users, and of delegation tokens, in the broker's copy of the metadata."""

from __future__ import annotations

from collections.abc import Callable

from logbus.cluster.delegation_tokens import DelegationTokens
from logbus.cluster.security_nodes import SecurityNodes
from logbus.metastore.security_znodes import USER, EntityZnode
from logbus.metastore.znode_json import BadZnode
from logbus.security.sasl.mechanism import Login, SaslAuthenticationError, shown
from logbus.security.sasl.scram_credential import ScramCredential
from logbus.security.sasl.scram_server import ScramAccount, ScramAccounts


def scram_accounts(nodes: Callable[[], SecurityNodes], tokens: DelegationTokens | None = None) -> ScramAccounts:
    """
    Return what finds the account of a user, or of a delegation token.

    :param tokens: those by which clients can log in; None: by none.
    """

    def find(mechanism: str, user: str, by_token: bool) -> ScramAccount | None:
        if by_token:
            return None if tokens is None else tokens.account(mechanism, user)
        if not user:
            return None
        path = EntityZnode.path({USER: user})
        try:
            text = EntityZnode.decode(path, nodes().get(path)).get(mechanism)
            return None if text is None else ScramAccount(ScramCredential.decode(text), Login(user))
        except (BadZnode, ValueError) as e:
            raise SaslAuthenticationError(f"user {shown(user)} cannot log in by {mechanism}: {e}") from None

    return find
