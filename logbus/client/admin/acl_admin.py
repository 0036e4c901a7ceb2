"""The admin client's part for ACLs (KIP-140)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from logbus.client.admin.config_admin import response_error
from logbus.client.cluster.cluster import Cluster
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError
from logbus.security.acl.acls import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from logbus.wire.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

EVERYTHING = AclBindingFilter()


class AclAdmin:
    """The part of :class:`~logbus.client.admin.admin_client.AdminClient` for ACLs."""

    _cluster: Cluster

    @returns_deferred
    async def describe_acls(self, wanted: AclBindingFilter = EVERYTHING) -> list[AclBinding]:
        """
        The ACLs that a filter selects.

        :raises ApiError: SECURITY_DISABLED: the brokers have no authorizer.
        """
        channel = await self._cluster.any_channel()
        response: DescribeAclsResponse = await channel.request(DescribeAclsRequest(**_fields(wanted)))
        error = response_error(response.error_code, "ACLs", response.error_message)
        if error is not None:
            raise error
        return [
            _binding(
                resource.resource_type,
                resource.resource_name,
                resource.pattern_type,
                (acl.principal, acl.host, acl.operation, acl.permission_type),
            )
            for resource in response.resources
            for acl in resource.acls
        ]

    @returns_deferred
    async def create_acls(self, bindings: Iterable[AclBinding]) -> dict[AclBinding, ApiError | None]:
        """Create ACLs; those that exist already stay."""
        wanted = list(dict.fromkeys(bindings))
        channel = await self._cluster.controller()
        response: CreateAclsResponse = await channel.request(
            CreateAclsRequest(
                creations=[
                    AclCreation(
                        resource_type=pattern.resource_type,
                        resource_name=pattern.name,
                        resource_pattern_type=pattern.pattern_type,
                        principal=entry.principal,
                        host=entry.host,
                        operation=entry.operation,
                        permission_type=entry.permission,
                    )
                    for pattern, entry in wanted
                ]
            )
        )
        return {
            binding: response_error(result.error_code, _shown(binding), result.error_message)
            for binding, result in zip(wanted, response.results, strict=True)
        }

    @returns_deferred
    async def delete_acls(self, wanted: AclBindingFilter) -> dict[AclBinding, ApiError | None]:
        """
        Delete the ACLs that a filter selects.

        :returns: the ACLs that it selected, each with None, or the error because of which it is still there.
        """
        channel = await self._cluster.controller()
        response: DeleteAclsResponse = await channel.request(
            DeleteAclsRequest(filters=[DeleteAclsFilter(**_fields(wanted))])
        )
        (result,) = response.filter_results
        error = response_error(result.error_code, "ACLs", result.error_message)
        if error is not None:
            raise error
        found = {}
        for match in result.matching_acls:
            binding = _binding(
                match.resource_type,
                match.resource_name,
                match.pattern_type,
                (match.principal, match.host, match.operation, match.permission_type),
            )
            found[binding] = response_error(match.error_code, _shown(binding), match.error_message)
        return found


def _fields(wanted: AclBindingFilter) -> dict[str, Any]:
    """A filter as the fields of a request."""
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def _binding(kind: int, name: str, pattern_type: int, entry: tuple[str, str, int, int]) -> AclBinding:
    principal, host, operation, permission = entry
    return AclBinding(
        ResourcePattern(ResourceType(kind), name, PatternType(pattern_type)),
        AccessControlEntry(principal, host, AclOperation(operation), AclPermission(permission)),
    )


def _shown(binding: AclBinding) -> str:
    pattern, entry = binding
    return f"the ACL of {entry.principal} for {pattern.resource_type.title} {pattern.name!r}"
