"""
DescribeAcls, CreateAcls, DeleteAcls (KIP-140; Kafka: AclApis, AclControlManager).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Self, TypeVar

from attrs import define

from logbus.cluster.acl_subscriber import content_of, entries_of, path_of
from logbus.cluster.controller.security_admin import MAX_NODE_BYTES, NodeEdit, SecurityAdmin
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import serves, task
from logbus.metastore.znode_json import BadZnode
from logbus.net.request_context import ChangeTerms, RequestContext
from logbus.security.acl.acl_index import Entries
from logbus.security.acl.acls import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermission,
    CodedEnum,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from logbus.security.acl.standard_authorizer import StandardAuthorizer
from logbus.wire.connection import Request
from logbus.wire.messages.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

E = TypeVar("E", bound=CodedEnum)

NO_AUTHORIZER = ApiError(
    ErrorCode.SECURITY_DISABLED,
    "there are no ACLs: authorizer.class.name names none of Kafka's authorizers, such as "
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)

UNITS_TO_BEGIN = 20
"""Units of a time slice that it takes to begin to compare a filter with all ACLs."""

UNITS_A_STEP = 5
"""Units that each step of the comparison takes."""

MAX_ENTRIES = MAX_NODE_BYTES // 70
"""Upper bound of the ACLs of one resource, each of which takes more than so many bytes as it is stored."""

MAX_PRINCIPAL = 1024
"""Characters of a principal or a host."""


def _member(enum: type[E], number: int) -> E:
    try:
        return enum(number)
    except ValueError:
        return enum(0)  # Unknown, in each of them.


def binding_of(creation: AclCreation) -> AclBinding:
    """
    The ACL of a request.

    :raise ApiError: INVALID_REQUEST: it cannot be stored.
    """
    binding = AclBinding(
        ResourcePattern(
            _member(ResourceType, creation.resource_type),
            creation.resource_name,
            _member(PatternType, creation.resource_pattern_type),
        ),
        AccessControlEntry(
            creation.principal,
            creation.host,
            _member(AclOperation, creation.operation),
            _member(AclPermission, creation.permission_type),
        ),
    )
    try:
        binding.check()
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
    if max(len(creation.principal), len(creation.host)) > MAX_PRINCIPAL:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"principals and hosts have at most {MAX_PRINCIPAL} characters")
    return binding


def filter_of(wanted: Any) -> AclBindingFilter:
    """
    The filter of a request.

    :raise ApiError: INVALID_REQUEST: it has a value that is unknown.
    """
    selected = AclBindingFilter(
        _member(ResourceType, wanted.resource_type_filter),
        wanted.resource_name_filter,
        _member(PatternType, wanted.pattern_type_filter),
        wanted.principal_filter,
        wanted.host_filter,
        _member(AclOperation, wanted.operation),
        _member(AclPermission, wanted.permission_type),
    )
    try:
        selected.check()
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
    return selected


def adding(entries: Collection[AccessControlEntry], path: str) -> NodeEdit:
    """The edit of a node that adds ACLs, each of which is there once."""

    def add(known: Entries) -> Entries:
        merged = tuple(dict.fromkeys((*known, *entries)))
        _check_number(merged)
        return merged

    edit = _edit(path, add)

    def edit_or_refuse(data: bytes | None) -> bytes | None:
        _check_number(entries)
        return edit(data)

    return edit_or_refuse


def removing(entries: Collection[AccessControlEntry], path: str) -> NodeEdit:
    """The edit of a node that removes ACLs."""
    return _edit(path, lambda known: tuple(each for each in known if each not in entries))


def _check_number(entries: Collection[AccessControlEntry]) -> None:
    if len(entries) > MAX_ENTRIES:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"the resource would have {len(entries)} ACLs; {MAX_ENTRIES} at most can be stored for one",
        )


def _edit(path: str, change: Callable[[Entries], Entries]) -> NodeEdit:
    def edit(data: bytes | None) -> bytes | None:
        try:
            return content_of(change(entries_of(path, data)))
        except BadZnode as error:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the ACLs there are cannot be read: {error}") from None

    return edit


@define(eq=False)
class AclHandlers:
    """Lists, creates and deletes ACLs."""

    _authorizer: StandardAuthorizer | None
    _admin: SecurityAdmin

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        authorizer = None if broker.authorization is None else broker.authorization.authorizer
        return cls(authorizer if isinstance(authorizer, StandardAuthorizer) else None, broker.security_admin)

    def _acls(self) -> StandardAuthorizer:
        if self._authorizer is None:
            raise NO_AUTHORIZER
        return self._authorizer

    @serves(29, 1, 3)
    @task
    async def describe_acls(self, context: RequestContext, request: Request) -> DescribeAclsResponse:
        message: DescribeAclsRequest = request.message
        time_slice = context.time_slice(request)
        try:
            selected = self._acls().select(filter_of(message))
        except ApiError as e:
            return DescribeAclsResponse(error_code=e.code, error_message=e.message)
        resources: dict[ResourcePattern, DescribeAclsResource] = {}
        async for some in time_slice.over(selected, UNITS_A_STEP):
            async for pattern, entry in time_slice.over(some):
                resource = resources.get(pattern)
                if resource is None:
                    resource = resources[pattern] = DescribeAclsResource(
                        resource_type=pattern.resource_type,
                        resource_name=pattern.name,
                        pattern_type=pattern.pattern_type,
                        acls=[],
                    )
                resource.acls.append(
                    AclDescription(
                        principal=entry.principal,
                        host=entry.host,
                        operation=entry.operation,
                        permission_type=entry.permission,
                    )
                )
        return DescribeAclsResponse(resources=list(resources.values()))

    @serves(30, 1, 3, forwarded=True)
    @task
    async def create_acls(self, context: RequestContext, request: Request) -> CreateAclsResponse:
        message: CreateAclsRequest = request.message
        results: list[AclCreationResult] = []
        wanted: dict[str, dict[AccessControlEntry, None]] = {}
        results_of: dict[str, list[AclCreationResult]] = {}
        time_slice = context.time_slice(request)
        async for creation in time_slice.over(message.creations, 3):
            result = AclCreationResult()
            results.append(result)
            try:
                self._acls()
                binding = binding_of(creation)
            except ApiError as e:
                _refuse(result, e)
                continue
            path = path_of(binding.pattern)
            wanted.setdefault(path, {})[binding.entry] = None
            results_of.setdefault(path, []).append(result)
        edits = {path: adding(entries, path) for path, entries in wanted.items()}
        outcomes = await self._change(edits, context.terms)
        for path, error in outcomes.items():
            async for result in time_slice.over(results_of[path]):
                _refuse(result, error)
        return CreateAclsResponse(results=results)

    @serves(31, 1, 3, forwarded=True)
    @task
    async def delete_acls(self, context: RequestContext, request: Request) -> DeleteAclsResponse:
        message: DeleteAclsRequest = request.message
        results: list[DeleteAclsFilterResult] = []
        wanted: dict[str, set[AccessControlEntry]] = {}
        matched: dict[str, list[DeleteAclsMatchingAcl]] = {}
        time_slice = context.time_slice(request)
        async for each in time_slice.over(message.filters, UNITS_TO_BEGIN):
            result = DeleteAclsFilterResult()
            results.append(result)
            try:
                selected = self._acls().select(filter_of(each))
            except ApiError as e:
                _refuse(result, e)
                continue
            async for some in time_slice.over(selected, UNITS_A_STEP):
                async for binding in time_slice.over(some, 2):
                    path = path_of(binding.pattern)
                    match = _matching(binding)
                    result.matching_acls.append(match)
                    wanted.setdefault(path, set()).add(binding.entry)
                    matched.setdefault(path, []).append(match)
        edits = {path: removing(entries, path) for path, entries in wanted.items()}
        outcomes = await self._change(edits, context.terms)
        for path, error in outcomes.items():
            async for match in time_slice.over(matched[path]):
                _refuse(match, error)
        return DeleteAclsResponse(filter_results=results)

    async def _change(self, edits: dict[str, NodeEdit], terms: ChangeTerms) -> dict[str, ApiError]:
        """Edit nodes; returns the errors, by path."""
        if not edits:
            return {}
        try:
            outcomes = await self._admin.change_all(edits, validate_only=terms.validate_only)
        except ApiError as e:
            return dict.fromkeys(edits, e)
        return {path: error for path, error in outcomes.items() if error is not None}


def _refuse(result: Any, error: ApiError) -> None:
    result.error_code, result.error_message = error.code, error.message


def _matching(binding: AclBinding) -> DeleteAclsMatchingAcl:
    pattern, entry = binding
    return DeleteAclsMatchingAcl(
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )
