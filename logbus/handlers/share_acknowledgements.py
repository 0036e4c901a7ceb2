"""
What requests of members of share groups (KIP-932) say of records. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from logbus.errors import ApiError, ErrorCode
from logbus.share.share_partition import AcknowledgementBatch, AcknowledgeType
from logbus.share.share_sessions import SharedPartition

Acknowledgements = Mapping[SharedPartition, Sequence[AcknowledgementBatch]]
"""What is said of the records of partitions."""


Named = Sequence[tuple[SharedPartition, Any]]
"""The partitions that a request names, each with what it says of it."""


def partitions_of(topics: Sequence[Any]) -> Named:
    """The partitions that the topics of a request name."""
    found: list[tuple[SharedPartition, Any]] = []
    for topic in topics:
        topic_id = UUID(bytes=bytes(topic.topic_id))
        found += [(SharedPartition(topic_id, each.partition_index), each) for each in topic.partitions]
    return found


def acknowledgements_of(named: Named) -> Acknowledgements:
    """
    What a request says of records, by partition.

    :raise ApiError: INVALID_REQUEST: it names a partition twice.
    """
    found: dict[SharedPartition, Sequence[AcknowledgementBatch]] = {}
    for partition, data in named:
        if not data.acknowledgement_batches:
            continue
        if partition in found:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the request acknowledges records of a partition twice")
        found[partition] = [
            AcknowledgementBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in data.acknowledgement_batches
        ]
    return found


def check_renewal(message: Any, acknowledgements: Acknowledgements, *, is_fetch: bool) -> None:
    """
    Check that a request that renews acquisitions says so, and fetches nothing (KIP-1222).

    :raise ApiError: INVALID_REQUEST.
    """
    renews = any(AcknowledgeType.RENEW in batch.types for batches in acknowledgements.values() for batch in batches)
    if renews and not message.is_renew_ack:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the request renews acquisitions, but does not say that it does")
    if (
        is_fetch
        and message.is_renew_ack
        and (message.max_bytes or message.min_bytes or message.max_records or message.max_wait_ms)
    ):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a request that renews acquisitions cannot fetch records")
