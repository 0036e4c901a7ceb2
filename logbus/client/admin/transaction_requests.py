"""The admin client's requests about transactions; see :mod:`logbus.client.admin.transaction_admin`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from attrs import frozen

from logbus.client.admin.transaction_results import ActiveProducer, ListedTransaction, TransactionDescription
from logbus.client.cluster.cluster import Cluster, Node
from logbus.client.cluster.coordinators import Coordinators, Work, ask_all_brokers, require_version, transaction_error
from logbus.client.retry import api_error, is_retriable
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition, numbers_by_topic
from logbus.net.channel import Channel
from logbus.wire.messages.partitions import TopicPartitionIndexes
from logbus.wire.messages.transaction_admin import (
    DescribedTransactionState,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from logbus.wire.messages.transactions import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    WritableTxnMarker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

T = TypeVar("T")
Answers = dict[TopicPartition, T | ApiError]

_LIST_TRANSACTIONS = 66


@frozen
class AbortTransactionSpec:
    """The transaction to abort (Kafka: AbortTransactionSpec)."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


# Requests to all brokers.


async def list_transactions(
    cluster: Cluster, patience: float, request: ListTransactionsRequest
) -> list[ListedTransaction]:
    """
    The transactional ids of all brokers, in order.

    :param patience: seconds for which a broker that is loading is retried.
    """

    pattern = request.transactional_id_pattern

    async def ask(channel: Channel) -> ListTransactionsResponse:
        if request.duration_filter != -1:
            require_version(channel, _LIST_TRANSACTIONS, 1, "knows no filter by duration")
        if pattern is not None:
            require_version(channel, _LIST_TRANSACTIONS, 2, "knows no filter by pattern")
        response: ListTransactionsResponse = await channel.request(request)
        if response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION:
            what = f"the broker at {channel.peer} does not take {pattern!r} for an expression (RE2)"
            raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, what)
        return response

    found: dict[str, ListedTransaction] = {}
    for node_id, response in (await ask_all_brokers(cluster, patience, "the transactions", ask)).items():
        if response.unknown_state_filters:
            unknown = ", ".join(map(repr, response.unknown_state_filters))
            raise ApiError(ErrorCode.INVALID_REQUEST, f"broker {node_id} knows no state {unknown} of transactions")
        for each in response.transaction_states:
            found[each.transactional_id] = ListedTransaction(
                each.transactional_id, each.producer_id, each.transaction_state, node_id
            )
    return [found[transactional_id] for transactional_id in sorted(found)]


# Requests to coordinators.


async def describe_at(
    channel: Channel, node: Node, transactional_ids: Sequence[str]
) -> dict[str, TransactionDescription | ApiError]:
    """Describe transactional ids at one coordinator."""
    request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
    response: DescribeTransactionsResponse = await channel.request(request)
    return {
        each.transactional_id: transaction_error(each.error_code, each.transactional_id) or _description(each, node)
        for each in response.transaction_states
    }


def _description(state: DescribedTransactionState, node: Node) -> TransactionDescription:
    partitions = [TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions]
    # The start time may be that of the previous transaction.
    over = state.transaction_state in ("CompleteCommit", "CompleteAbort")
    return TransactionDescription(
        transactional_id=state.transactional_id,
        state=state.transaction_state,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        started_ms=None if over or state.transaction_start_time_ms < 0 else state.transaction_start_time_ms,
        partitions=tuple(sorted(partitions)),
        coordinator=node,
    )


async def terminate(coordinators: Coordinators, transactional_id: str) -> None:
    """
    Abort a transaction by InitProducerId, as a producer that starts again does.

    :raise ApiError: see :meth:`.TransactionAdmin.terminate_transaction`.
    """
    # InitProducerId would create an unknown id, and change the timeout of a known one.
    described = (await coordinators.ask([transactional_id], describe_at))[transactional_id]
    if isinstance(described, ApiError):
        raise described
    timeout_ms = max(described.timeout_ms, 1)

    async def send(channel: Channel, node: Node, keys: Sequence[str]) -> dict[str, ApiError | None]:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        response: InitProducerIdResponse = await channel.request(request)
        return {transactional_id: transaction_error(response.error_code, transactional_id)}

    attempts = coordinators.cluster.attempts(coordinators.patience)
    while (error := (await coordinators.ask([transactional_id], send))[transactional_id]) is not None:
        if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT and timeout_ms > 1:
            # transaction.max.timeout.ms has been lowered since. No producer gets this one: the next gives its own.
            timeout_ms = 1
            continue
        # CONCURRENT_TRANSACTIONS: the markers of the abort are being written.
        if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS or not await attempts.again():
            raise error


# Requests to partition leaders.


async def describe_producers(
    cluster: Cluster, patience: float, partitions: Sequence[TopicPartition], broker_id: int | None
) -> Answers[tuple[ActiveProducer, ...]]:
    """
    The producers of partitions.

    :param broker_id: the replica to ask; None: the leaders.
    :raise ApiError: BROKER_NOT_AVAILABLE: there is no such broker.
    """

    async def send(channel: Channel, theirs: Sequence[TopicPartition]) -> Answers[tuple[ActiveProducer, ...]]:
        by_topic = numbers_by_topic(theirs)
        topics = [TopicPartitionIndexes(name=name, partition_indexes=each) for name, each in by_topic.items()]
        response: DescribeProducersResponse = await channel.request(DescribeProducersRequest(topics=topics))
        answers: Answers[tuple[ActiveProducer, ...]] = {}
        for answer in response.topics:
            for each in answer.partitions:
                partition = TopicPartition(answer.name, each.partition_index)
                if each.error_code:
                    answers[partition] = api_error(each.error_code, str(partition), each.error_message)
                    continue
                producers = sorted(each.active_producers, key=lambda producer: producer.producer_id)
                answers[partition] = tuple(
                    ActiveProducer(
                        producer_id=producer.producer_id,
                        producer_epoch=producer.producer_epoch,
                        last_sequence=producer.last_sequence,
                        last_timestamp=producer.last_timestamp,
                        coordinator_epoch=producer.coordinator_epoch,
                        open_since=None if producer.current_txn_start_offset < 0 else producer.current_txn_start_offset,
                    )
                    for producer in producers
                )
        return answers

    if broker_id is None:
        return await _at_replicas(cluster, patience, partitions, _leader, send)
    await cluster.refresh()
    if broker_id not in cluster.nodes:
        there = ", ".join(map(str, sorted(cluster.nodes)))
        raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"there is no broker {broker_id}; there are {there}")

    async def place(cluster: Cluster, partition: TopicPartition) -> int:
        await _existing(cluster, partition)
        return broker_id

    # No retry at another replica: this one was requested.
    return await _at_replicas(cluster, 0.0, partitions, place, send)


async def write_marker(
    cluster: Cluster, patience: float, partition: TopicPartition, ending: AbortTransactionSpec
) -> None:
    """
    Write an abort marker.

    :raise ApiError: see :meth:`.TransactionAdmin.abort_transaction`.
    """
    marker = WritableTxnMarker(
        producer_id=ending.producer_id,
        producer_epoch=ending.producer_epoch,
        transaction_result=False,
        topics=[TopicPartitionIndexes(name=partition.topic, partition_indexes=[partition.partition])],
        coordinator_epoch=ending.coordinator_epoch,
    )

    async def send(channel: Channel, theirs: Sequence[TopicPartition]) -> Answers[None]:
        response: WriteTxnMarkersResponse = await channel.request(WriteTxnMarkersRequest(markers=[marker]))
        return {
            TopicPartition(topic.name, each.partition_index): _marker_error(each.error_code, partition, ending)
            for answer in response.markers
            for topic in answer.topics
            for each in topic.partitions
        }

    error = (await _at_replicas(cluster, patience, [partition], _leader, send))[partition]
    if error is not None:
        raise error


def _marker_error(code: int, partition: TopicPartition, ending: AbortTransactionSpec) -> ApiError | None:
    if not code:
        return None
    error = api_error(code, str(partition))
    whose = f"producer {ending.producer_id}"
    known = {
        ErrorCode.INVALID_PRODUCER_EPOCH: f"{partition} has seen another epoch of {whose} than {ending.producer_epoch}",
        ErrorCode.TRANSACTION_COORDINATOR_FENCED: (
            f"{partition} has seen a newer coordinator of {whose} than that of epoch {ending.coordinator_epoch}"
        ),
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
            f"{partition}: clients may only abort transactions that no coordinator ends; that of {whose} is none"
        ),
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: f"{partition} is of an internal topic, where clients abort nothing",
        ErrorCode.UNKNOWN_PRODUCER_ID: f"{partition} knows nothing of {whose}",
    }
    return ApiError(error.code, known[error.code]) if error.code in known else error


async def _at_replicas(
    cluster: Cluster,
    patience: float,
    partitions: Sequence[TopicPartition],
    place: Callable[[Cluster, TopicPartition], Work[int]],
    send: Callable[[Channel, Sequence[TopicPartition]], Work[Answers[T]]],
) -> Answers[T]:
    """
    Send a request to the replicas of partitions, and retry those that were asked at the wrong broker.

    :param place: returns the broker to ask.
    :param send: sends the request to one broker.
    """
    attempts = cluster.attempts(patience)
    answers: Answers[T] = {}
    again = list(dict.fromkeys(partitions))
    while True:
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in again:
            try:
                by_node.setdefault(await place(cluster, partition), []).append(partition)
            except ApiError as e:
                answers[partition] = e
        for node_id, theirs in by_node.items():
            answers.update(await send(await cluster.channel(node_id), theirs))
            for partition in theirs:
                if partition not in answers:
                    left_out = f"{partition}: the broker's answer leaves it out"
                    answers[partition] = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, left_out)
        again = [each for theirs in by_node.values() for each in theirs if _is_not_yet(answers[each])]
        if not again or not await attempts.again():
            return {each: answers[each] for each in dict.fromkeys(partitions)}
        for partition in again:
            cluster.forget(partition.topic)


async def _existing(cluster: Cluster, partition: TopicPartition) -> None:
    topic = await cluster.topic(partition.topic)
    if partition.partition not in topic.partitions:
        raise topic.has_no(partition.partition)


async def _leader(cluster: Cluster, partition: TopicPartition) -> int:
    await _existing(cluster, partition)
    leader = cluster.leader(partition)
    if leader is None:
        raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
    return leader


def _is_not_yet(answer: object) -> bool:
    return isinstance(answer, ApiError) and is_retriable(answer)
