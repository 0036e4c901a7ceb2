"""Quotas of users, client ids and addresses (KIP-546): DescribeClientQuotas (48), AlterClientQuotas (49)."""

from __future__ import annotations

from logbus.wire.schema import Bool, Float64, Int8, Int16, Int32, String, message, struct


@struct
class ComponentData:
    """
    A condition on one type of entity.

    :ivar match_type: 0: named ``match``; 1: the default; 2: any.
    """

    entity_type: String
    match_type: Int8
    match: String | None = None


@message(48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    """
    Describe the quotas of entities that all components match.

    :ivar strict: only entities without other types.
    """

    components: list[ComponentData]
    strict: Bool


@struct
class DescribedEntity:
    """A part of an entity: a type, and a name, None for the default."""

    entity_type: String
    entity_name: String | None = None


@struct
class ValueData:
    """A quota."""

    key: String
    value: Float64


@struct
class DescribedEntry:
    """An entity and its quotas."""

    entity: list[DescribedEntity]
    values: list[ValueData]


@message(48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    """The response to :class:`DescribeClientQuotasRequest`; ``entries`` is None after an error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    entries: list[DescribedEntry] | None


@struct
class AlteredEntity:
    """A part of an entity: a type, and a name, None for the default."""

    entity_type: String
    entity_name: String | None = None


@struct
class OpData:
    """A quota to be set, or removed."""

    key: String
    value: Float64
    remove: Bool


@struct
class AlteredEntry:
    """An entity and the changes of its quotas."""

    entity: list[AlteredEntity]
    ops: list[OpData]


@message(49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    """Change quotas."""

    entries: list[AlteredEntry]
    validate_only: Bool


@struct
class AlterClientQuotasEntry:
    """Whether the changes of one entity were made."""

    error_code: Int16 = 0
    error_message: String | None = None
    entity: list[AlteredEntity]


@message(49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    """The response to :class:`AlterClientQuotasRequest`."""

    throttle_time_ms: Int32 = 0
    entries: list[AlterClientQuotasEntry]
