"""
Views of the quotas of users, client ids and addresses: list and change them.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin.authorization import HttpAccess, Right
from logbus.admin.change_terms import VALIDATE_ONLY, controller_of_terms, terms_of
from logbus.admin.entity_tags import CONDITION, Precondition, entity_tag
from logbus.admin.json_schema import array, integer, mapping, nullable, number, object_schema, string
from logbus.admin.kafka_requests import KafkaRequests
from logbus.admin.problem_details import HttpProblem
from logbus.admin.routing import ViewRequest, route
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.config.client_quotas import CLIENT_QUOTAS, IP_QUOTAS
from logbus.errors import error_of
from logbus.security.acl.acls import AclOperation
from logbus.wire.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntity,
    AlteredEntry,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    OpData,
)

VERSION = 1
MAX_ENTITIES = 500
"""Entities of an answer."""

TYPES = {"user": "user", "client_id": "client-id", "ip": "ip"}
"""Kafka's types of entities, by their names here."""

ENTITY = object_schema(
    "Whose quotas; a member that is null stands for the default of its type.",
    user=nullable(string("A user's name.", minLength=1, maxLength=1000)),
    client_id=nullable(string("A client id.", minLength=1, maxLength=1000)),
    ip=nullable(string("An address.", minLength=1, maxLength=1000)),
    optional=("user", "client_id", "ip"),
)
NUMBER = number("The quota, as of producer_byte_rate in bytes a second.")
QUOTAS = object_schema(
    "Quotas.",
    items=array(
        "By entity.",
        object_schema(
            "An entity.",
            entity=ENTITY,
            quotas=mapping("Quotas by Kafka's names.", NUMBER),
            etag=string("The tag of its quotas, for If-Match of a change."),
        ),
        maxItems=MAX_ENTITIES,
    ),
    total=integer("How many entities have quotas."),
)
CHANGES = object_schema(
    "Changes of an entity's quotas.",
    entity=ENTITY,
    quotas=mapping(
        "Quotas by Kafka's names; null removes one; others do not change (RFC 7396).",
        nullable(NUMBER),
        maxProperties=20,
    ),
    validate_only=VALIDATE_ONLY,
    optional=("validate_only",),
)


@frozen
class QuotaViews:
    """Lists and changes quotas, by the requests of Kafka's administrators."""

    metadata: ClusterMetadata
    requests: KafkaRequests

    @route(
        "GET",
        "/api/v1/quotas",
        "Quotas of users, client ids and addresses",
        answer=QUOTAS,
        right=Right(AclOperation.DESCRIBE_CONFIGS),
        errors=(HTTPStatus.SERVICE_UNAVAILABLE,),
    )
    def list(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return Deferred.fromCoroutine(self._list(call.access))

    async def _list(self, access: HttpAccess) -> dict[str, Any]:
        request = DescribeClientQuotasRequest(components=[], strict=False)
        response: DescribeClientQuotasResponse = await self.requests.send(access, request, VERSION)
        if response.error_code:
            raise error_of(response.error_code, response.error_message)
        names = {kind: name for name, kind in TYPES.items()}
        entries = response.entries or []
        rows = []
        for entry in entries[:MAX_ENTITIES]:
            quotas = {value.key: value.value for value in entry.values}
            entity = {names[part.entity_type]: part.entity_name for part in entry.entity}
            rows.append({"entity": entity, "quotas": quotas, "etag": entity_tag(quotas)})
        return {"items": rows, "total": len(entries)}

    @route(
        "PATCH",
        "/api/v1/quotas",
        "Change the quotas of a user, a client id, both, or an address",
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        body=CHANGES,
        headers=CONDITION,
        right=Right(AclOperation.ALTER_CONFIGS),
        rights="Needs AlterConfigs on the Cluster. If-Match has the etag of the entity's row.",
        served_by=lambda self, call: controller_of_terms(self.metadata, call),
        errors=(HTTPStatus.PRECONDITION_FAILED, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def alter(self, call: ViewRequest) -> Deferred[None]:
        if not call.body["entity"]:
            raise HttpProblem(HTTPStatus.BAD_REQUEST, f"The body.entity is empty; it needs {' or '.join(TYPES)}.")
        return Deferred.fromCoroutine(self._alter(call))

    async def _alter(self, call: ViewRequest) -> None:
        body = call.body
        shown = ", ".join(f"{name} {'<default>' if value is None else value}" for name, value in body["entity"].items())
        condition = Precondition(f"What {shown} may use", call.headers, [*CLIENT_QUOTAS, *IP_QUOTAS])
        entity = [AlteredEntity(entity_type=TYPES[name], entity_name=value) for name, value in body["entity"].items()]
        ops = [
            OpData(key=key, value=0.0 if value is None else float(value), remove=value is None)
            for key, value in body["quotas"].items()
        ]
        request = AlterClientQuotasRequest(
            entries=[AlteredEntry(entity=entity, ops=ops)], validate_only=body.get("validate_only", False)
        )
        terms = terms_of(call, condition)
        response: AlterClientQuotasResponse = await self.requests.send(call.access, request, VERSION, terms)
        (result,) = response.entries
        if result.error_code:
            raise condition.refusal(error_of(result.error_code, result.error_message))
