"""Builds Produce requests of batches, and reads each batch's result from the response. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from logbus.client.cluster.topic_metadata import TopicMetadata
from logbus.errors import ApiError, ErrorCode
from logbus.pipeline.blocking.partition_batches import ProducerBatch
from logbus.pipeline.blocking.retry import api_error
from logbus.pipeline.blocking.transactions import ProducerIdentity
from logbus.records.file_slice import MEMORY, FileSlice
from logbus.wire.messages.records import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

_BY_NAME = 12
"""The last version of Produce that names topics; later ones use topic ids."""
_LAST_BEFORE_TV2 = 11
"""The last version before KIP-890: the client adds partitions to transactions by AddPartitionsToTxn."""


def version_for(highest: int, topics: Iterable[TopicMetadata], identity: ProducerIdentity | None) -> int:
    """
    The version to send a request in.

    :param highest: that both sides support.
    """
    if identity is not None and identity.transactional_id is not None and not identity.transaction_v2:
        highest = min(highest, _LAST_BEFORE_TV2)
    return highest if all(each.topic_id.int for each in topics) else min(highest, _BY_NAME)


def produce_request(
    batches: Sequence[ProducerBatch],
    topics: Mapping[str, TopicMetadata],
    identity: ProducerIdentity | None,
    *,
    acks: int,
    timeout: float,
) -> ProduceRequest:
    """
    One request for batches of different partitions.

    :param topics: by name, for their ids.
    :param timeout: seconds the leader may wait for the in-sync replicas.
    """
    transactional_id = None if identity is None else identity.transactional_id
    data: dict[str, TopicProduceData] = {}
    for batch in batches:
        name, index = batch.partition
        if name not in data:
            data[name] = TopicProduceData(name=name, topic_id=topics[name].topic_id.bytes, partition_data=[])
        if identity is None:
            records = batch.body.build()
        else:
            records = batch.body.build(
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                base_sequence=batch.sequence,
                transactional=transactional_id is not None,
            )
        # The encoder leaves a slice as it is, and joins all else to one piece.
        part = cast("memoryview", FileSlice(MEMORY, 0, len(records), memoryview(records)))
        data[name].partition_data.append(PartitionProduceData(index=index, records=part))
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=int(timeout * 1000), topic_data=list(data.values())
    )


def batch_results(
    batches: Sequence[ProducerBatch], request: ProduceRequest, response: ProduceResponse
) -> list[tuple[ProducerBatch, PartitionProduceResponse | None, Exception | None]]:
    """For each batch of a request, in order: its part of the response, and the error; None: it is written."""
    names = {topic.topic_id: topic.name for topic in request.topic_data}
    answers = {
        (topic.name or names.get(topic.topic_id, ""), each.index): each
        for topic in response.responses
        for each in topic.partition_responses
    }
    found: list[tuple[ProducerBatch, PartitionProduceResponse | None, Exception | None]] = []
    for batch in batches:
        answer = answers.get(batch.partition)
        error: Exception | None = None
        if answer is None:
            error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's answer leaves out {batch.partition}")
        elif answer.error_code:
            error = api_error(answer.error_code, str(batch.partition), answer.error_message)
        found.append((batch, answer, error))
    return found
