"""
Views of ACLs: list, create and delete them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin.authorization import HttpAccess, Right
from logbus.admin.change_terms import IN_QUERY, VALIDATE_ONLY, controller_of_terms, terms_of
from logbus.admin.json_schema import JsonSchema, array, boolean, integer, object_schema, string
from logbus.admin.kafka_requests import KafkaRequests
from logbus.admin.problem_details import HttpProblem
from logbus.admin.routing import ViewRequest, route
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.errors import error_of
from logbus.security.acl.acls import AclOperation, AclPermission, PatternType, ResourceType
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

VERSION = 3
MAX_ACLS = 500
"""ACLs of an answer, or of a request."""

_IN_FILTERS = ("UNKNOWN", "ANY", "MATCH")
TYPES = [kind.name.lower() for kind in ResourceType if kind.name not in _IN_FILTERS]
PATTERNS = [kind.name.lower() for kind in PatternType if kind.name not in _IN_FILTERS]
OPERATIONS = [kind.name.lower() for kind in AclOperation if kind.name not in _IN_FILTERS]
PERMISSIONS = [kind.name.lower() for kind in AclPermission if kind.name not in _IN_FILTERS]

MEMBERS: Mapping[str, JsonSchema] = {
    "resource_type": string("The type of the resource.", enum=TYPES),
    "resource_name": string("Its name; kafka-cluster for the cluster; * for all.", minLength=1, maxLength=32_767),
    "pattern_type": string("prefixed: all resources whose names begin so.", enum=PATTERNS),
    "principal": string("Who: User:name; User:* is everybody.", minLength=1, maxLength=32_767),
    "host": string("From which address; * is any.", minLength=1, maxLength=1000),
    "operation": string("What they may do, or not.", enum=OPERATIONS),
    "permission": string("Whether they may.", enum=PERMISSIONS),
}
ACL = object_schema("An ACL.", **dict[str, Any](MEMBERS))
PAGE = object_schema(
    "ACLs.",
    items=array("By resource.", ACL, maxItems=MAX_ACLS),
    total=integer("How many there are that match."),
    is_complete=boolean("Whether all of them are shown; if not, ask for fewer."),
)
CREATED = object_schema(
    "What became of each ACL.",
    items=array(
        "In the order given.", object_schema("An ACL.", error=string("Why it was not created; empty: it was."))
    ),
)


@frozen
class AclViews:
    """Lists and changes ACLs, by the requests of Kafka's administrators."""

    metadata: ClusterMetadata
    requests: KafkaRequests

    @route(
        "GET",
        "/api/v1/acls",
        "ACLs",
        answer=PAGE,
        parameters={
            name: {**MEMBERS[name], "default": None} for name in ("resource_type", "resource_name", "principal")
        },
        right=Right(AclOperation.DESCRIBE),
        errors=(HTTPStatus.SERVICE_UNAVAILABLE,),
    )
    def list(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return Deferred.fromCoroutine(self._list(call.access, call.query))

    async def _list(self, access: HttpAccess, query: Mapping[str, Any]) -> dict[str, Any]:
        kind = query["resource_type"]
        request = DescribeAclsRequest(
            resource_type_filter=int(ResourceType.ANY if kind is None else ResourceType[kind.upper()]),
            resource_name_filter=query["resource_name"],
            pattern_type_filter=int(PatternType.ANY),
            principal_filter=query["principal"],
            operation=int(AclOperation.ANY),
            permission_type=int(AclPermission.ANY),
        )
        response: DescribeAclsResponse = await self.requests.send(access, request, VERSION)
        if response.error_code:
            raise error_of(response.error_code, response.error_message)
        items: list[dict[str, Any]] = []
        total = 0
        for resource in response.resources:
            total += len(resource.acls)
            items += [
                {
                    "resource_type": ResourceType(resource.resource_type).name.lower(),
                    "resource_name": resource.resource_name,
                    "pattern_type": PatternType(resource.pattern_type).name.lower(),
                    "principal": one.principal,
                    "host": one.host,
                    "operation": AclOperation(one.operation).name.lower(),
                    "permission": AclPermission(one.permission_type).name.lower(),
                }
                for one in resource.acls[: MAX_ACLS - len(items)]
            ]
        return {"items": items, "total": total, "is_complete": total == len(items)}

    @route(
        "POST",
        "/api/v1/acls",
        "Create ACLs; those that exist already stay",
        answer=CREATED,
        body=object_schema(
            "ACLs to create.",
            items=array("The ACLs.", ACL, minItems=1, maxItems=MAX_ACLS),
            validate_only=VALIDATE_ONLY,
            optional=("validate_only",),
        ),
        right=Right(AclOperation.ALTER),
        served_by=lambda self, call: controller_of_terms(self.metadata, call),
        errors=(HTTPStatus.SERVICE_UNAVAILABLE,),
    )
    def create(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return Deferred.fromCoroutine(self._create(call, call.body["items"]))

    async def _create(self, call: ViewRequest, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        creations = [
            AclCreation(
                resource_type=int(ResourceType[one["resource_type"].upper()]),
                resource_name=one["resource_name"],
                resource_pattern_type=int(PatternType[one["pattern_type"].upper()]),
                principal=one["principal"],
                host=one["host"],
                operation=int(AclOperation[one["operation"].upper()]),
                permission_type=int(AclPermission[one["permission"].upper()]),
            )
            for one in items
        ]
        request = CreateAclsRequest(creations=creations)
        response: CreateAclsResponse = await self.requests.send(call.access, request, VERSION, terms_of(call))
        errors = [error_of(one.error_code, one.error_message) if one.error_code else None for one in response.results]
        wrong = [error for error in errors if error is not None]
        if len(wrong) == len(errors):
            raise wrong[0]
        return {"items": [{"error": "" if error is None else error.message} for error in errors]}

    @route(
        "DELETE",
        "/api/v1/acls",
        "Delete one ACL",
        parameters={**{name: {**schema, "default": None} for name, schema in MEMBERS.items()}, **IN_QUERY},
        right=Right(AclOperation.ALTER),
        served_by=lambda self, call: controller_of_terms(self.metadata, call),
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def delete(self, call: ViewRequest) -> Deferred[None]:
        missing = [name for name in MEMBERS if call.query[name] is None]
        if missing:
            raise HttpProblem(
                HTTPStatus.BAD_REQUEST, f"One ACL is deleted at a time; say which: {', '.join(missing)} are missing."
            )
        return Deferred.fromCoroutine(self._delete(call, call.query))

    async def _delete(self, call: ViewRequest, one: Mapping[str, Any]) -> None:
        chosen = DeleteAclsFilter(
            resource_type_filter=int(ResourceType[one["resource_type"].upper()]),
            resource_name_filter=one["resource_name"],
            pattern_type_filter=int(PatternType[one["pattern_type"].upper()]),
            principal_filter=one["principal"],
            host_filter=one["host"],
            operation=int(AclOperation[one["operation"].upper()]),
            permission_type=int(AclPermission[one["permission"].upper()]),
        )
        request = DeleteAclsRequest(filters=[chosen])
        response: DeleteAclsResponse = await self.requests.send(call.access, request, VERSION, terms_of(call))
        (result,) = response.filter_results
        if result.error_code:
            raise error_of(result.error_code, result.error_message)
        if not result.matching_acls:
            raise HttpProblem(HTTPStatus.NOT_FOUND, "There is no such ACL; GET /api/v1/acls tells which there are.")
