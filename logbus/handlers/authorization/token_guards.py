"""Guards of delegation tokens (KIP-48, KIP-373; Kafka: KafkaApis, DelegationTokenManager.filterToken)."""

from __future__ import annotations

from typing import Any

from logbus.handlers.authorization.access import Access
from logbus.handlers.authorization.guard import Serve, guards
from logbus.handlers.delegation_tokens import owner_of
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.security.audit import REFUSED
from logbus.wire.connection import Request
from logbus.wire.messages.delegation_tokens import (
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
)


@guards(38)
async def create_delegation_token(access: Access, request: Request, serve: Serve) -> Any:
    """CreateDelegationToken: for oneself; for others CreateTokens on each of them."""
    owner = owner_of(access.context, request.message)
    if owner == access.context.principal or access.allows(AclOperation.CREATE_TOKENS, ResourceType.USER, owner):
        return await serve()
    return CreateDelegationTokenResponse(error_code=REFUSED[ResourceType.USER])


@guards(39, 40)
async def change_delegation_token(access: Access, request: Request, serve: Serve) -> Any:
    """RenewDelegationToken, ExpireDelegationToken: the handlers check that the token concerns the principal."""
    return await serve()


@guards(41)
async def describe_delegation_token(access: Access, request: Request, serve: Serve) -> Any:
    """DescribeDelegationToken: one's own; those of others by Describe on them, or by DescribeTokens on the owners."""
    answer: DescribeDelegationTokenResponse = await serve()
    time_slice = access.context.time_slice(request)
    answer.tokens = [token async for token in time_slice.over(answer.tokens) if _may_see(access, token)]
    return answer


def _may_see(access: Access, token: DescribedDelegationToken) -> bool:
    owner = f"{token.principal_type}:{token.principal_name}"
    principals = {
        owner,
        f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
        *(f"{each.principal_type}:{each.principal_name}" for each in token.renewers),
    }
    return (
        access.context.principal in principals
        or access.may(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or access.may(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, owner)
    )
