"""
The delegation tokens among the security nodes (KIP-48; Kafka: DelegationTokenCache).

A node that cannot be read is no token: nobody can log in by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from attrs import define, field
from twisted.logger import Logger

from logbus.cluster.security_nodes import Changes, SecurityNodes
from logbus.metastore.security_znodes import DelegationToken, DelegationTokenZnode
from logbus.metastore.znode_json import BadZnode
from logbus.metastore.znodes import DELEGATION_TOKENS
from logbus.security.delegation_tokens import token_credential, token_hmac
from logbus.security.sasl.mechanism import Login
from logbus.security.sasl.scram_server import ScramAccount


@define(eq=False)
class DelegationTokens:
    """
    All tokens, as this broker knows them.

    :param secret: ``delegation.token.secret.key``; empty: there are no tokens.
    :ivar of_principal: the number of tokens that a principal owns, or has asked for.
    """

    _secret: bytes = field(default=b"", repr=False)
    of_principal: Counter[str] = field(factory=Counter, init=False, repr=False)
    _tokens: dict[str, DelegationToken] = field(factory=dict, init=False, repr=False)
    _by_hmac: dict[bytes, DelegationToken] = field(factory=dict, init=False, repr=False)
    # By token id, then by mechanism: a credential takes milliseconds.
    _accounts: dict[str, dict[str, ScramAccount]] = field(factory=dict, init=False, repr=False)
    _log = Logger()

    @property
    def enabled(self) -> bool:
        """Whether there can be tokens."""
        return bool(self._secret)

    def __len__(self) -> int:
        return len(self._tokens)

    def follow(self, nodes: SecurityNodes) -> None:
        """Begin to follow the nodes."""
        if self._secret:
            nodes.subscribe(DELEGATION_TOKENS, self._changed)

    def all(self) -> Collection[DelegationToken]:
        """All tokens, also those that have ended and are not removed yet."""
        return self._tokens.values()

    def hmac(self, token_id: str) -> bytes:
        """The HMAC of a token."""
        return token_hmac(self._secret, token_id)

    def by_hmac(self, code: bytes) -> DelegationToken | None:
        """The token with an HMAC; None: there is none."""
        return self._by_hmac.get(code)

    def account(self, mechanism: str, token_id: str) -> ScramAccount | None:
        """The account that logs in by a token; None: there is no such token."""
        token = self._tokens.get(token_id)
        kind, _, user = ("", "", "") if token is None else token.owner.partition(":")
        if token is None or kind != "User" or not user:
            return None
        known = self._accounts.setdefault(token_id, {})
        account = known.get(mechanism)
        if account is None:
            login = Login(user, min(token.expiry_ms, token.max_ms), by_delegation_token=True)
            account = known[mechanism] = ScramAccount(token_credential(self._secret, mechanism, token_id), login)
        return account

    def _changed(self, changes: Changes) -> None:
        for path, data in changes.items():
            try:
                token_id = DelegationTokenZnode.token_id(path)
            except BadZnode:
                continue
            self._remove(token_id)
            if data is None:
                continue
            try:
                token = DelegationTokenZnode.decode(path, data)
            except BadZnode as error:
                self._log.error("a delegation token is ignored: {error}", error=error)
                continue
            self._tokens[token_id] = self._by_hmac[self.hmac(token_id)] = token
            self.of_principal.update({token.owner, token.requester})

    def _remove(self, token_id: str) -> None:
        self._accounts.pop(token_id, None)
        token = self._tokens.pop(token_id, None)
        if token is not None:
            del self._by_hmac[self.hmac(token_id)]
            for principal in {token.owner, token.requester}:
                self.of_principal[principal] -= 1
                if not self.of_principal[principal]:
                    del self.of_principal[principal]
