"""
Views of the quotas of users, client ids and addresses: list and change them.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin.authorization import Right
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
    ComponentData,
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
_FLAG = {**string("'true' or 'false'.", enum=["true", "false"]), "default": "false"}
_EXACT, _DEFAULT = 0, 1
"""How a part of an entity is asked for (KIP-546)."""
FILTERS: Mapping[str, Any] = MappingProxyType(
    {
        "user": {**string("Only quotas of this user.", minLength=1, maxLength=1000), "default": None},
        "user_default": {**_FLAG, "description": "true: only quotas of every other user."},
        "client_id": {**string("Only quotas of this client id.", minLength=1, maxLength=1000), "default": None},
        "client_id_default": {**_FLAG, "description": "true: only quotas of every other client id."},
        "ip": {**string("Only quotas of this address.", minLength=1, maxLength=1000), "default": None},
        "ip_default": {**_FLAG, "description": "true: only quotas of every other address."},
        "strict": {**_FLAG, "description": "true: without entities that have a member which is not asked for."},
    }
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
    total=integer("How many entities that are asked for have quotas."),
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
        parameters=FILTERS,
        right=Right(AclOperation.DESCRIBE_CONFIGS),
        errors=(HTTPStatus.SERVICE_UNAVAILABLE,),
    )
    def list(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return Deferred.fromCoroutine(self._list(call))

    async def _list(self, call: ViewRequest) -> dict[str, Any]:
        asked = DescribeClientQuotasRequest(components=_components(call.query), strict=call.query["strict"] == "true")
        response: DescribeClientQuotasResponse = await self.requests.send(call.access, asked, VERSION)
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


def _components(query: Mapping[str, Any]) -> list[ComponentData]:
    """
    Return what is asked for.

    :raise HttpProblem: a name and the default of one type.
    """
    found = []
    for name, kind in TYPES.items():
        wanted, is_default = query[name], query[f"{name}_default"] == "true"
        if wanted is not None and is_default:
            raise HttpProblem(HTTPStatus.BAD_REQUEST, f"Give {name} or {name}_default, not both.")
        if wanted is not None or is_default:
            match_type = _DEFAULT if is_default else _EXACT
            found.append(ComponentData(entity_type=kind, match_type=match_type, match=wanted))
    return found
