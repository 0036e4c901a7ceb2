"""ACLs: DescribeAcls (29), CreateAcls (30), DeleteAcls (31) (KIP-140, KIP-290)."""

from __future__ import annotations

from logbus.wire.schema import Int8, Int16, Int32, String, field, message, struct

LITERAL = 3
"""The number of the pattern type of a literal name."""


@message(29, versions="1-3", flexible="2+")
class DescribeAclsRequest:
    """List the ACLs that a filter selects; None matches everything."""

    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = field("1+", default=LITERAL)
    principal_filter: String | None = None
    host_filter: String | None = None
    operation: Int8
    permission_type: Int8


@struct
class AclDescription:
    """An entry of the ACLs of a resource."""

    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DescribeAclsResource:
    """A resource, or the resources of a pattern, with its ACLs."""

    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field("1+", default=LITERAL)
    acls: list[AclDescription]


@message(29, versions="1-3", flexible="2+")
class DescribeAclsResponse:
    """The response to :class:`DescribeAclsRequest`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    resources: list[DescribeAclsResource] = field(factory=list)


@struct
class AclCreation:
    """An ACL to create."""

    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = field("1+", default=LITERAL)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(30, versions="1-3", flexible="2+")
class CreateAclsRequest:
    """Create ACLs; those that exist already stay."""

    creations: list[AclCreation]


@struct
class AclCreationResult:
    """The result of one creation, in the order of the request."""

    error_code: Int16 = 0
    error_message: String | None = None


@message(30, versions="1-3", flexible="2+")
class CreateAclsResponse:
    """The response to :class:`CreateAclsRequest`."""

    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult]


@struct
class DeleteAclsFilter:
    """Selects ACLs to delete; None matches everything."""

    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = field("1+", default=LITERAL)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


@message(31, versions="1-3", flexible="2+")
class DeleteAclsRequest:
    """Delete the ACLs that any of the filters selects."""

    filters: list[DeleteAclsFilter]


@struct
class DeleteAclsMatchingAcl:
    """An ACL that a filter selected."""

    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field("1+", default=LITERAL)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DeleteAclsFilterResult:
    """The result of one filter, in the order of the request."""

    error_code: Int16 = 0
    error_message: String | None = None
    matching_acls: list[DeleteAclsMatchingAcl] = field(factory=list)


@message(31, versions="1-3", flexible="2+")
class DeleteAclsResponse:
    """The response to :class:`DeleteAclsRequest`."""

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult]
