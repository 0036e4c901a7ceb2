"""DescribeClientQuotas, AlterClientQuotas: quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Self

from attrs import define, field

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.controller.security_admin import SecurityAdmin
from logbus.config.client_quotas import CLIENT_QUOTAS, IP_QUOTAS, ClientQuota, quotas_of
from logbus.errors import ApiError, ConfigError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import serves, task
from logbus.metastore.security_znodes import CLIENT_ID, IP, USER, Entity, EntityZnode
from logbus.metastore.znode_json import BadZnode
from logbus.metastore.znodes import CLIENT_CONFIGS, IP_CONFIGS, USER_CONFIGS
from logbus.net.request_context import ChangeTerms, RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.client_quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntry,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribedEntity,
    DescribedEntry,
    OpData,
    ValueData,
)

TYPES = (USER, CLIENT_ID, IP)


class MatchType(IntEnum):
    """The way in which a component matches (Kafka: DescribeClientQuotasRequest.MATCH_TYPE_*)."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


@define(eq=False)
class ClientQuotaHandlers:
    """Describes and alters quotas."""

    _metadata: ClusterMetadata
    _admin: SecurityAdmin

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.metadata, broker.security_admin)

    @serves(48, 0, 1, waits_for_metadata=True)
    @task
    async def describe(self, context: RequestContext, request: Request) -> DescribeClientQuotasResponse:
        message: DescribeClientQuotasRequest = request.message
        try:
            wanted = _components(message.components)
        except ApiError as e:
            return DescribeClientQuotasResponse(error_code=e.code, error_message=e.message, entries=None)
        entries = []
        nodes = self._metadata.security_nodes
        for root in (USER_CONFIGS, CLIENT_CONFIGS, IP_CONFIGS):
            async for path, data in context.time_slice(request).over(list(nodes.items(root)), 4):
                try:
                    entity = EntityZnode.entity(path)
                    quotas = quotas_of(EntityZnode.decode(path, data)) if _matches(entity, wanted) else {}
                except BadZnode:
                    continue  # Nobody can have set quotas there by this API.
                if quotas and not (message.strict and entity.keys() != wanted.keys()):
                    entries.append(_entry(entity, quotas))
        return DescribeClientQuotasResponse(entries=entries)

    @serves(49, 0, 1, forwarded=True)
    @task
    async def alter(self, context: RequestContext, request: Request) -> AlterClientQuotasResponse:
        message: AlterClientQuotasRequest = request.message
        results: list[AlterClientQuotasEntry] = []
        changes: dict[str, _Change] = {}
        async for entry in context.time_slice(request).over(message.entries, 10):
            result = AlterClientQuotasEntry(entity=entry.entity)
            results.append(result)
            try:
                change = _change(entry, context.terms)
                path = EntityZnode.path(change.entity)
                if path in changes:
                    raise ApiError(ErrorCode.INVALID_REQUEST, f"the request names {_shown(change.entity)} twice")
                change.result = result
                changes[path] = change
            except ApiError as e:
                result.error_code, result.error_message = e.code, e.message
        if changes:
            try:
                outcomes = await self._admin.change_all(
                    {path: change.edit for path, change in changes.items()},
                    validate_only=message.validate_only or context.terms.validate_only,
                )
            except ApiError as e:
                outcomes = dict.fromkeys(changes, e)
            for path, error in outcomes.items():
                altered = changes[path].result
                if error is not None and altered is not None:
                    altered.error_code, altered.error_message = error.code, error.message
        return AlterClientQuotasResponse(entries=results)


@define(eq=False)
class _Change:
    """
    The changes of one entity.

    :ivar values: new values as they are stored; None: remove it.
    """

    entity: Entity
    terms: ChangeTerms
    values: dict[str, str | None] = field(factory=dict)
    result: AlterClientQuotasEntry | None = None

    def edit(self, data: bytes | None) -> bytes | None:
        """The node with the changes."""
        try:
            settings = EntityZnode.decode(EntityZnode.path(self.entity), data)
        except BadZnode as e:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(e)) from None
        self.terms.check(quotas_of(settings))
        for name, text in self.values.items():
            if text is None:
                settings.pop(name, None)
            else:
                settings[name] = text
        return EntityZnode.encode(settings)


def _change(entry: AlteredEntry, terms: ChangeTerms) -> _Change:
    entity = _entity((part.entity_type, part.entity_name) for part in entry.entity)
    known = IP_QUOTAS if IP in entity else CLIENT_QUOTAS
    change = _Change(entity, terms)
    for op in entry.ops:
        quota = known.get(op.key)
        if quota is None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"{_shown(entity)} has no quota {op.key!r}; it can have {', '.join(known)}",
            )
        if op.key in change.values:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{op.key} of {_shown(entity)} is changed twice in one request")
        change.values[op.key] = None if op.remove else _text(quota, op)
    return change


def _text(quota: ClientQuota, op: OpData) -> str:
    try:
        return quota.text(op.value)
    except ConfigError as e:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(e)) from None


def _entity(parts: Iterable[tuple[str, str | None]]) -> dict[str, str | None]:
    """
    :raise ApiError: INVALID_REQUEST: there can be no such entity.
    """
    entity: dict[str, str | None] = {}
    for kind, name in parts:
        _check_type(kind)
        if kind in entity:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"the entity has two parts of the type {kind}")
        if name == "":
            raise ApiError(ErrorCode.INVALID_REQUEST, f"the name of the {kind} is empty; null stands for the default")
        entity[kind] = name
    try:
        EntityZnode.path(entity)
    except ValueError as e:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(e)) from None
    address = entity.get(IP)
    if address is not None:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{address!r} is not an IP address") from None
    return entity


def _check_type(kind: str) -> None:
    if not kind:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the type of an entity is empty")
    if kind not in TYPES:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION, f"there are no entities of the type {kind!r}; there are {', '.join(TYPES)}"
        )


def _components(components: Iterable[ComponentData]) -> Mapping[str, ComponentData]:
    """
    The components by type.

    :raise ApiError: INVALID_REQUEST, or UNSUPPORTED_VERSION for an unknown type, as in Kafka.
    """
    found: dict[str, ComponentData] = {}
    for one in components:
        _check_type(one.entity_type)
        if one.entity_type in found:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"the filter names the type {one.entity_type} twice")
        if one.match_type not in list(MatchType):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no match type {one.match_type}; there are 0, 1, 2")
        if (one.match is not None) != (one.match_type == MatchType.EXACT):
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"{one.entity_type}: a name goes with match type 0, and only with that"
            )
        found[one.entity_type] = one
    if IP in found and len(found) > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "addresses have no users and client ids: filter for an ip alone")
    return found


def _matches(entity: Entity, wanted: Mapping[str, ComponentData]) -> bool:
    return all(
        kind in entity and (one.match_type == MatchType.ANY or entity[kind] == one.match)
        for kind, one in wanted.items()
    )


def _entry(entity: Entity, quotas: Mapping[str, float]) -> DescribedEntry:
    return DescribedEntry(
        entity=[DescribedEntity(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        values=[ValueData(key=name, value=value) for name, value in quotas.items()],
    )


def _shown(entity: Entity) -> str:
    return ", ".join(f"{kind} {'<default>' if name is None else repr(name)}" for kind, name in entity.items())
