"""The admin client's part for delegation tokens (KIP-48)."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from attrs import field, frozen

from logbus.client.admin.config_admin import response_error
from logbus.client.cluster.cluster import Cluster
from logbus.client.validators import InvalidOption
from logbus.coroutines import returns_deferred
from logbus.wire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
    TokenPrincipal,
)


@frozen
class DelegationToken:
    """
    A delegation token. Times are in milliseconds since the epoch.

    :ivar password: logs in by SCRAM, with the token's id as the user: whoever has it acts for the owner.
    :ivar owner: the principal that it stands for, such as ``User:alice``.
    :ivar requester: who asked for it; empty: an older broker does not say.
    """

    token_id: str
    password: str = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int


class TokenAdmin:
    """The part of :class:`~logbus.client.admin.admin_client.AdminClient` for delegation tokens."""

    _cluster: Cluster

    @returns_deferred
    async def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """
        Create a token; the connection must have logged in, but not by a token.

        :param owner: its owner; None: this client's principal.
        :param renewers: who may renew it besides; principals such as ``User:alice``.
        :param max_lifetime_ms: milliseconds after which it cannot be renewed any more; -1: as the broker says.
        :raise ApiError: it was refused.
        """
        given = tuple(renewers)
        request = CreateDelegationTokenRequest(
            renewers=[_principal(each) for each in given], max_lifetime_ms=max_lifetime_ms
        )
        if owner is not None:
            named = _principal(owner)
            request.owner_principal_type, request.owner_principal_name = named.principal_type, named.principal_name
        channel = await self._cluster.controller()
        response: CreateDelegationTokenResponse = await channel.request(request)
        _check(response.error_code)
        return DelegationToken(
            response.token_id,
            _text(response.hmac),
            f"{response.principal_type}:{response.principal_name}",
            _joined(response.token_requester_principal_type, response.token_requester_principal_name),
            given,
            response.issue_timestamp_ms,
            response.expiry_timestamp_ms,
            response.max_timestamp_ms,
        )

    @returns_deferred
    async def renew_delegation_token(self, password: str, period_ms: int = -1) -> int:
        """
        Let a token live longer, for a period from now; -1: as the broker says.

        :return: when it ends.
        :raise ApiError: it was refused.
        """
        request = RenewDelegationTokenRequest(hmac=_hmac(password), renew_period_ms=period_ms)
        channel = await self._cluster.controller()
        response: RenewDelegationTokenResponse = await channel.request(request)
        _check(response.error_code)
        return response.expiry_timestamp_ms

    @returns_deferred
    async def expire_delegation_token(self, password: str, period_ms: int = -1) -> int:
        """
        Let a token end a period from now; -1: at once.

        :return: when it ends.
        :raise ApiError: it was refused.
        """
        request = ExpireDelegationTokenRequest(hmac=_hmac(password), expiry_time_period_ms=period_ms)
        channel = await self._cluster.controller()
        response: ExpireDelegationTokenResponse = await channel.request(request)
        _check(response.error_code)
        return response.expiry_timestamp_ms

    @returns_deferred
    async def describe_delegation_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """
        The tokens that one may see.

        :param owners: only those that these principals own, asked for, or may renew; None: all.
        :raise ApiError: it was refused.
        """
        wanted = None if owners is None else [_principal(each) for each in owners]
        channel = await self._cluster.any_channel()
        response: DescribeDelegationTokenResponse = await channel.request(DescribeDelegationTokenRequest(owners=wanted))
        _check(response.error_code)
        return [
            DelegationToken(
                each.token_id,
                _text(each.hmac),
                f"{each.principal_type}:{each.principal_name}",
                _joined(each.token_requester_principal_type, each.token_requester_principal_name),
                tuple(f"{one.principal_type}:{one.principal_name}" for one in each.renewers),
                each.issue_timestamp,
                each.expiry_timestamp,
                each.max_timestamp,
            )
            for each in response.tokens
        ]


def _check(code: int) -> None:
    error = response_error(code, "delegation token", None)
    if error is not None:
        raise error


def _principal(text: str) -> TokenPrincipal:
    kind, _, name = text.partition(":")
    if not kind or not name:
        raise InvalidOption(f"{text!r} is not a principal such as User:alice")
    return TokenPrincipal(principal_type=kind, principal_name=name)


def _joined(kind: str, name: str) -> str:
    return f"{kind}:{name}" if name else ""


def _text(code: bytes) -> str:
    return base64.b64encode(bytes(code)).decode()


def _hmac(password: str) -> bytes:
    try:
        return base64.b64decode(password, validate=True)
    except ValueError:
        # Without the password, which is a secret.
        raise InvalidOption("the password of a delegation token is base64, as it was given when it was made") from None
