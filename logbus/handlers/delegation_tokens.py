"""
CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken (KIP-48, KIP-373; Kafka:
DelegationTokenControlManager).

Whoever has a token's HMAC can act for its owner, so that it is in no log and no error.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from typing import Self
from uuid import UUID

from attrs import define, evolve, field

from logbus.cluster.controller.security_admin import SecurityAdmin
from logbus.cluster.delegation_tokens import DelegationTokens
from logbus.config import ConfigView, keys
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import serves, task
from logbus.metastore.security_znodes import DelegationToken, DelegationTokenZnode
from logbus.metastore.znode_json import BadZnode, uuid_text
from logbus.net.request_context import ANONYMOUS, RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
    TokenPrincipal,
)

MAX_RENEWERS = 100
"""Of one token."""

MAX_NAME = 1024
"""Characters of a principal's name."""


@define(eq=False)
class DelegationTokenHandlers:
    """
    Serves requests for delegation tokens.

    :param wall_clock: seconds since 1970.
    """

    _tokens: DelegationTokens
    _admin: SecurityAdmin
    _config: ConfigView
    _wall_clock: Callable[[], float]
    # Tokens that are being created, of owners and of those who asked for them: the copy follows later.
    _creating: Counter[str] = field(factory=Counter, init=False)
    _created: int = field(default=0, init=False)

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.delegation_tokens, broker.security_admin, broker.config, broker.wall_clock)

    @serves(38, 1, 3, forwarded=True)
    @task
    async def create(self, context: RequestContext, request: Request) -> CreateDelegationTokenResponse:
        message: CreateDelegationTokenRequest = request.message
        requester, owner = context.principal, owner_of(context, message)
        answer = CreateDelegationTokenResponse()
        answer.principal_type, answer.principal_name = _divided(owner)
        answer.token_requester_principal_type, answer.token_requester_principal_name = _divided(requester)
        try:
            self._check(context)
            token = self._new(requester, owner, message)
            self._check_room(token)
            await self._store(token)
        except ApiError as e:
            answer.error_code = e.code
            return answer
        answer.issue_timestamp_ms, answer.max_timestamp_ms = token.issue_ms, token.max_ms
        answer.expiry_timestamp_ms, answer.token_id = token.expiry_ms, token.token_id
        answer.hmac = self._tokens.hmac(token.token_id)
        return answer

    @serves(39, 1, 2, forwarded=True)
    @task
    async def renew(self, context: RequestContext, request: Request) -> RenewDelegationTokenResponse:
        message: RenewDelegationTokenRequest = request.message
        try:
            self._check(context)
            token, now = self._known(context, message.hmac), self._now()
            if token.is_expired(now):
                raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            period = message.renew_period_ms
            if period < 0:
                period = self._config.get(keys.DELEGATION_TOKEN_EXPIRY_TIME_MS)
            expiry = await self._set_expiry(token, now + period)
        except ApiError as e:
            return RenewDelegationTokenResponse(error_code=e.code)
        return RenewDelegationTokenResponse(expiry_timestamp_ms=expiry)

    @serves(40, 1, 2, forwarded=True)
    @task
    async def expire(self, context: RequestContext, request: Request) -> ExpireDelegationTokenResponse:
        message: ExpireDelegationTokenRequest = request.message
        try:
            self._check(context)
            token, now = self._known(context, message.hmac), self._now()
            period = message.expiry_time_period_ms
            if period < 0:
                await self._admin.change(DelegationTokenZnode.path(token.token_id), lambda data: None)
                return ExpireDelegationTokenResponse(expiry_timestamp_ms=now)
            if token.is_expired(now):
                raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            expiry = await self._set_expiry(token, now + period)
        except ApiError as e:
            return ExpireDelegationTokenResponse(error_code=e.code)
        return ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry)

    @serves(41, 1, 3, waits_for_metadata=True)
    @task
    async def describe(self, context: RequestContext, request: Request) -> DescribeDelegationTokenResponse:
        message: DescribeDelegationTokenRequest = request.message
        try:
            self._check(context)
        except ApiError as e:
            return DescribeDelegationTokenResponse(error_code=e.code, tokens=[])
        time_slice = context.time_slice(request)
        wanted: set[str] | None = None
        if message.owners is not None:
            wanted = set()
            async for each in time_slice.over(message.owners):
                wanted.add(_name(each))
        found = [
            self._described(token)
            async for token in time_slice.over(list(self._tokens.all()), 2)
            if wanted is None or not wanted.isdisjoint((token.owner, token.requester, *token.renewers))
        ]
        return DescribeDelegationTokenResponse(tokens=found)

    def _check(self, context: RequestContext) -> None:
        """
        :raise ApiError: there are no tokens, or this connection may not ask for them.
        """
        if context.by_delegation_token or context.principal == ANONYMOUS:
            # Else a token could be renewed for ever by tokens made of it, and one for nobody would be one for all.
            raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        if not self._tokens.enabled:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def _now(self) -> int:
        return int(self._wall_clock() * 1000)

    def _new(self, requester: str, owner: str, message: CreateDelegationTokenRequest) -> DelegationToken:
        """
        :raise ApiError: the request is wrong.
        """
        principals = [owner, *map(_name, message.renewers)]
        if any(not each.startswith("User:") or each == "User:" for each in principals):
            raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        if len(message.renewers) > MAX_RENEWERS or max(map(len, principals)) > MAX_NAME or owner == ANONYMOUS:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        now = self._now()
        lifetime: int = self._config.get(keys.DELEGATION_TOKEN_MAX_LIFETIME_MS)
        if message.max_lifetime_ms > 0:
            lifetime = min(lifetime, message.max_lifetime_ms)
        return DelegationToken(
            token_id=uuid_text(UUID(bytes=secrets.token_bytes(16))),
            owner=owner,
            requester=requester,
            renewers=tuple(dict.fromkeys(principals[1:])),
            issue_ms=now,
            max_ms=now + lifetime,
            expiry_ms=now + min(lifetime, self._config.get(keys.DELEGATION_TOKEN_EXPIRY_TIME_MS)),
        )

    def _check_room(self, token: DelegationToken) -> None:
        """
        :raise ApiError: there are too many tokens.
        """
        most: int = self._config.get(keys.DELEGATION_TOKEN_MAX_COUNT_PER_OWNER)
        if len(self._tokens) + self._created >= self._config.get(keys.DELEGATION_TOKEN_MAX_COUNT) or any(
            self._tokens.of_principal[each] + self._creating[each] >= most for each in (token.owner, token.requester)
        ):
            raise ApiError(ErrorCode.POLICY_VIOLATION)

    async def _store(self, token: DelegationToken) -> None:
        concerned = {token.owner, token.requester}
        self._creating.update(concerned)
        self._created += 1
        try:
            path, data = DelegationTokenZnode.path(token.token_id), DelegationTokenZnode.encode(token)
            await self._admin.change(path, lambda _: data)
        finally:
            self._creating -= Counter(concerned)
            self._created -= 1

    def _known(self, context: RequestContext, code: bytes) -> DelegationToken:
        """
        The token with an HMAC, if it concerns the principal of the request.

        :raise ApiError: it does not, or there is none.
        """
        token = self._tokens.by_hmac(bytes(code))
        if token is None:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        if not token.is_of(context.principal):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        return token

    async def _set_expiry(self, token: DelegationToken, expiry: int) -> int:
        expiry = min(token.max_ms, expiry)
        path = DelegationTokenZnode.path(token.token_id)

        def edit(data: bytes | None) -> bytes:
            if data is None:
                raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
            try:
                return DelegationTokenZnode.encode(evolve(DelegationTokenZnode.decode(path, data), expiry_ms=expiry))
            except BadZnode as e:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(e)) from None

        await self._admin.change(path, edit)
        return expiry

    def _described(self, token: DelegationToken) -> DescribedDelegationToken:
        kind, name = _divided(token.owner)
        requester_kind, requester = _divided(token.requester)
        return DescribedDelegationToken(
            principal_type=kind,
            principal_name=name,
            token_requester_principal_type=requester_kind,
            token_requester_principal_name=requester,
            issue_timestamp=token.issue_ms,
            expiry_timestamp=token.expiry_ms,
            max_timestamp=token.max_ms,
            token_id=token.token_id,
            hmac=self._tokens.hmac(token.token_id),
            renewers=[
                TokenPrincipal(principal_type=kind, principal_name=name) for kind, name in map(_divided, token.renewers)
            ],
        )


def owner_of(context: RequestContext, message: CreateDelegationTokenRequest) -> str:
    """The owner of a new token: the principal of the request, unless it names another."""
    if message.owner_principal_name:
        return f"{message.owner_principal_type or ''}:{message.owner_principal_name}"
    return context.principal


def _name(principal: TokenPrincipal) -> str:
    return f"{principal.principal_type}:{principal.principal_name}"


def _divided(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name
