"""
What requests of members of share groups (KIP-932) say of records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from logbus.errors import ApiError, ErrorCode
from logbus.net.time_slices import TimeSlice
from logbus.share.share_partition import AcknowledgementBatch, AcknowledgeType
from logbus.share.share_sessions import SharedPartition
from logbus.wire.messages.share_fetches import ShareAcknowledgeRequest, ShareFetchRequest

Acknowledgements = Mapping[SharedPartition, Sequence[AcknowledgementBatch]]
"""What is said of the records of partitions."""


async def read_topics(
    message: ShareFetchRequest | ShareAcknowledgeRequest, time_slice: TimeSlice, *, is_fetch: bool
) -> tuple[list[SharedPartition], Acknowledgements]:
    """
    Return the partitions that a request names, and what it says of their records.

    :raise ApiError: INVALID_REQUEST: it acknowledges records of a partition twice, or as :func:`check_renewal`.
    """
    partitions: list[SharedPartition] = []
    found: dict[SharedPartition, Sequence[AcknowledgementBatch]] = {}
    renews = False
    topics: Sequence[Any] = message.topics
    async for topic in time_slice.over(topics):
        topic_id = UUID(bytes=bytes(topic.topic_id))
        async for each in time_slice.over(topic.partitions):
            partition = SharedPartition(topic_id, each.partition_index)
            partitions.append(partition)
            if not each.acknowledgement_batches:
                continue
            if partition in found:
                raise ApiError(ErrorCode.INVALID_REQUEST, "the request acknowledges records of a partition twice")
            found[partition] = batches = [
                AcknowledgementBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                async for batch in time_slice.over(each.acknowledgement_batches)
            ]
            renews = renews or any(AcknowledgeType.RENEW in batch.types for batch in batches)
    check_renewal(message, renews=renews, is_fetch=is_fetch)
    return partitions, found


def check_renewal(message: Any, *, renews: bool, is_fetch: bool) -> None:
    """
    Check that a request that renews acquisitions says so, and fetches nothing (KIP-1222).

    :raise ApiError: INVALID_REQUEST.
    """
    if renews and not message.is_renew_ack:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the request renews acquisitions, but does not say that it does")
    if (
        is_fetch
        and message.is_renew_ack
        and (message.max_bytes or message.min_bytes or message.max_records or message.max_wait_ms)
    ):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a request that renews acquisitions cannot fetch records")
