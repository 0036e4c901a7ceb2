"""The admin client's part for quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen

from logbus.client.admin.config_admin import response_error
from logbus.client.cluster.cluster import Cluster
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError
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

_EXACT, _DEFAULT = 0, 1


@frozen
class QuotaEntity:
    """
    An entity that quotas are set for: a user, a client id, a client id of a user, or an address.

    :ivar parts: names by type (``user``, ``client-id``, ``ip``); None: the default.
    """

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> QuotaEntity:
        """An entity, its types in one order."""
        return cls(tuple(sorted(parts.items(), reverse=True)))

    def __str__(self) -> str:
        return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in self.parts)


class QuotaAdmin:
    """The part of :class:`~logbus.client.admin.admin_client.AdminClient` for quotas."""

    _cluster: Cluster

    @returns_deferred
    async def describe_client_quotas(
        self, entity: QuotaEntity | None = None, *, strict: bool = True
    ) -> dict[QuotaEntity, dict[str, float]]:
        """
        Quotas by entity.

        :param entity: None: all of them.
        :param strict: only those of just this entity; otherwise also those of entities that have more parts.
        """
        request = DescribeClientQuotasRequest(
            components=[
                ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
                for kind, name in (entity.parts if entity is not None else ())
            ],
            strict=strict and entity is not None,
        )

        channel = await self._cluster.any_channel()
        response: DescribeClientQuotasResponse = await channel.request(request)
        error = response_error(response.error_code, "quotas", response.error_message)
        if error is not None:
            raise error
        return {
            QuotaEntity.of({part.entity_type: part.entity_name for part in each.entity}): {
                value.key: value.value for value in each.values
            }
            for each in response.entries or ()
        }

    @returns_deferred
    async def alter_client_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> dict[QuotaEntity, ApiError | None]:
        """
        Change some quotas of entities, and keep the others.

        :param changes: the new values; None removes a quota.
        :param validate_only: only check whether it would succeed.
        """
        request = AlterClientQuotasRequest(
            entries=[
                AlteredEntry(entity=_parts(entity.parts), ops=[_op(key, value) for key, value in values.items()])
                for entity, values in changes.items()
            ],
            validate_only=validate_only,
        )

        channel = await self._cluster.controller()
        response: AlterClientQuotasResponse = await channel.request(request)
        answers = {}
        for each in response.entries:
            entity = QuotaEntity.of({part.entity_type: part.entity_name for part in each.entity})
            answers[entity] = response_error(each.error_code, str(entity), each.error_message)
        return answers


def _parts(parts: Iterable[tuple[str, str | None]]) -> list[AlteredEntity]:
    return [AlteredEntity(entity_type=kind, entity_name=name) for kind, name in parts]


def _op(key: str, value: float | None) -> OpData:
    return OpData(key=key, value=0.0 if value is None else value, remove=value is None)
