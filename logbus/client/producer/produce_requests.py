"""Builds Produce requests from batches, and reads outcomes from responses."""

from __future__ import annotations

from collections.abc import Sequence

from logbus.client.cluster.cluster import Cluster, Node
from logbus.client.producer.partition_queue import BatchOutcome, BatchWritten, ProducerBatch
from logbus.client.retry import api_error
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.wire.messages.records import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from logbus.wire.schema import ZERO_UUID

LAST_VERSION_BY_NAME = 12
"""Later versions identify topics by id only."""

_OF_LEADERS = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)


def produce_request(
    cluster: Cluster, batches: Sequence[ProducerBatch], *, acks: int, timeout: float, transactional_id: str | None
) -> tuple[ProduceRequest, bool]:
    """
    A request for batches of different partitions.

    :param timeout: seconds the leader may wait for the in-sync replicas.
    :returns: the request, and whether the ids of all its topics are known.
    """
    topics: dict[str, TopicProduceData] = {}
    by_id = True
    for batch in batches:
        name, index = batch.partition
        topic = topics.get(name)
        if topic is None:
            known = cluster.known(name)
            topic_id = ZERO_UUID if known is None else known.topic_id.bytes
            by_id = by_id and topic_id != ZERO_UUID
            topic = topics[name] = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
        topic.partition_data.append(PartitionProduceData(index=index, records=_encoded(batch, transactional_id)))
    request = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=int(timeout * 1000), topic_data=list(topics.values())
    )
    return request, by_id


def _encoded(batch: ProducerBatch, transactional_id: str | None) -> bytes:
    if batch.numbers is None:
        return batch.builder.build()
    (producer_id, epoch), sequence = batch.numbers
    return batch.builder.build(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional_id is not None,
    )


def outcomes_of(
    cluster: Cluster, batches: Sequence[ProducerBatch], request: ProduceRequest, response: ProduceResponse
) -> list[BatchOutcome]:
    """The outcome of each batch of a request, in order. New leaders named in the response are passed to the cluster."""
    names = {topic.topic_id: topic.name for topic in request.topic_data}
    answers = {
        (topic.name or names.get(topic.topic_id, ""), each.index): each
        for topic in response.responses
        for each in topic.partition_responses
    }
    outcomes: list[BatchOutcome] = []
    for batch in batches:
        answer = answers.get(batch.partition)
        if answer is None:
            outcomes.append(LogbusError(f"the broker's answer leaves out {batch.partition}"))
        elif answer.error_code:
            _update_leader(cluster, batch.partition, answer, response)
            outcomes.append(api_error(answer.error_code, str(batch.partition), answer.error_message))
        else:
            outcomes.append(BatchWritten(answer.base_offset, answer.log_append_time_ms))
    return outcomes


def _update_leader(
    cluster: Cluster, partition: TopicPartition, answer: PartitionProduceResponse, response: ProduceResponse
) -> None:
    """Pass the new leader to the cluster, if the response names one (KIP-951)."""
    hint = answer.current_leader
    if hint is not None:
        nodes = [Node(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
        cluster.update_leader(partition, hint.leader_id, hint.leader_epoch, nodes)


def is_of_leader(error: Exception) -> bool:
    """Whether only a partition's leader returns this error, so that the leader need not be looked up."""
    return isinstance(error, ApiError) and error.code in _OF_LEADERS
