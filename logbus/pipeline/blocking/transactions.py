"""
A producer's requests to coordinators: InitProducerId, AddPartitionsToTxn, TxnOffsetCommit, EndTxn and OffsetFetch.

All of them can be retried, since coordinators recognize a repeated request. :attr:`ProducerIdentity.transaction_v2`
says whether the cluster uses the second transaction protocol (KIP-890, ``transaction.version`` 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import frozen

from logbus.client.group_metadata import CommittedOffset, GroupMetadata
from logbus.client.producer.idempotence import ProducerId
from logbus.client.producer.transaction_messages import (
    add_group,
    add_partitions,
    commit_offsets,
    end_transaction,
    error_code_of,
    worst_of_offsets,
    worst_of_partitions,
)
from logbus.client.producer.transaction_messages import (
    init_producer_id as init_request,
)
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.pipeline.blocking.brokers import GROUP, TRANSACTION, Brokers
from logbus.pipeline.blocking.coordinator_requests import ask_with_retries, forget_on_error, send_to_coordinator
from logbus.pipeline.blocking.retry import api_error
from logbus.pipeline.errors import OptionError, ProducerFenced, TransactionLost
from logbus.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from logbus.wire.messages.transactions import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

_FENCED = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
_LOST = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE})
_TV2 = 2
"""The level of the feature ``transaction.version`` from which the second protocol is used."""
_OFFSET_FETCH = 9
_BY_CLIENTS = 3
"""The last version of AddPartitionsToTxn that is for clients."""
_GROUPS, _TOPIC_IDS = 8, 10
"""The first versions of OffsetFetch with several groups, and with topic ids."""


@frozen
class ProducerIdentity:
    """
    A producer id with its epoch (Kafka: ProducerIdAndEpoch), and the transactional id.

    :ivar transactional_id: None: it has no transactions.
    :ivar transaction_v2: the second protocol (KIP-890): producing to a partition adds it to the transaction, and each
        transaction has its own epoch.
    """

    producer_id: int
    epoch: int
    transactional_id: str | None = None
    transaction_v2: bool = False

    @property
    def producer(self) -> ProducerId:
        """Its producer id and epoch."""
        return ProducerId(self.producer_id, self.epoch)


@frozen
class OffsetAndMetadata:
    """
    A committed offset of a group.

    :ivar metadata: the text that was committed with it.
    """

    partition: TopicPartition
    offset: int
    metadata: str


def transaction_error(error: ApiError, transactional_id: str | None) -> Exception:
    """The pipeline's exception for an error of a transactional producer; other errors are returned as they are."""
    if transactional_id is None:
        return error
    if error.code in _FENCED:
        return ProducerFenced(
            f"transactional id {transactional_id!r} was taken over by a newer attempt: {error.message}"
        )
    if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        return OptionError(
            f"option 'kafka.transaction.timeout.ms': {error.message}; it takes no more than the brokers' "
            "transaction.max.timeout.ms"
        )
    if error.code in _LOST:
        return TransactionLost(
            f"the transaction of {transactional_id!r} is not open any more: {error.message}; "
            "if it took longer than its time-out, give it more: kafka.transaction.timeout.ms"
        )
    return error


def init_producer_id(brokers: Brokers, seconds: float | None = None) -> ProducerIdentity:
    """
    Get a producer id for idempotent writes (InitProducerId without a transactional id).

    :param seconds: for how long to retry; default: as the settings say. So in all functions here.
    """

    def ask() -> InitProducerIdResponse:
        response: InitProducerIdResponse = brokers.any().request(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        )
        if response.error_code:
            raise api_error(response.error_code, "a producer id")
        return response

    answer = ask_with_retries(brokers, ask, lambda error: None, seconds)
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


def init_transactions(
    brokers: Brokers, transactional_id: str, timeout: float, seconds: float | None = None
) -> ProducerIdentity:
    """
    Get the producer id of a transactional id (InitProducerId; Kafka: initTransactions). Earlier producers with this id
    are fenced, and their open transactions aborted.

    :param timeout: ``transaction.timeout.ms`` in seconds.
    :raises OptionError: it is more than the brokers' ``transaction.max.timeout.ms``.
    """
    request = init_request(transactional_id, timeout, None)
    answer, features = _of_coordinator(brokers, transactional_id, request, error_code_of, seconds)
    transaction_v2 = features.get("transaction.version", 0) >= _TV2
    return ProducerIdentity(answer.producer_id, answer.producer_epoch, transactional_id, transaction_v2)


def add_partitions_to_txn(
    brokers: Brokers, identity: ProducerIdentity, partitions: Iterable[TopicPartition], seconds: float | None = None
) -> None:
    """
    Add partitions to the transaction before anything is sent there; needed in the first protocol only.

    :raises ProducerFenced: another producer has the transactional id now.
    """
    transactional_id = identity.transactional_id or ""
    request = add_partitions(transactional_id, identity.producer, partitions)
    _of_coordinator(brokers, transactional_id, request, worst_of_partitions, seconds, _BY_CLIENTS)


def add_offset_to_txn(brokers: Brokers, identity: ProducerIdentity, group: str, committed: OffsetAndMetadata) -> None:
    """
    Add a group's offset to the transaction (TxnOffsetCommit): it is committed with it.

    :raises ProducerFenced: another producer has the transactional id now.
    :raises TransactionLost: the transaction is not open any more.
    """
    transactional_id = identity.transactional_id or ""
    if not identity.transaction_v2:
        adding = add_group(transactional_id, identity.producer, group)
        _of_coordinator(brokers, transactional_id, adding, error_code_of)
    offsets = {committed.partition: CommittedOffset(committed.offset, metadata=committed.metadata)}
    request = commit_offsets(transactional_id, identity.producer, offsets, GroupMetadata(group))
    highest = None if identity.transaction_v2 else 4
    try:
        send_to_coordinator(brokers, GROUP, group, request, worst_of_offsets, None, highest)
    except ApiError as e:
        raise transaction_error(e, identity.transactional_id) from None


def end_txn(brokers: Brokers, identity: ProducerIdentity, *, commit: bool, seconds: float | None = None) -> None:
    """
    Commit or abort a transaction (EndTxn). Once this returns, the outcome is durable.

    :raises ProducerFenced: another producer has the transactional id now: it was aborted.
    :raises TransactionLost: the transaction is not open any more.
    """
    transactional_id = identity.transactional_id or ""
    request = end_transaction(transactional_id, identity.producer, commit=commit)
    # From version 5 on the epoch is bumped, which only the second protocol allows.
    highest = None if identity.transaction_v2 else 4
    _of_coordinator(brokers, transactional_id, request, error_code_of, seconds, highest)


def committed_offsets(
    brokers: Brokers, group: str, seconds: float | None = None, *, stable: bool = True
) -> list[OffsetAndMetadata]:
    """
    All committed offsets of a group.

    :param stable: offsets in open transactions are waited for (KIP-447); else they are left out.
    """

    def ask() -> OffsetFetchResponse:
        connection = brokers.coordinator(GROUP, group)
        # From version 10 on the response has topic ids instead of names.
        version = min(connection.version(_OFFSET_FETCH), _TOPIC_IDS - 1)
        if version >= _GROUPS:
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group)], require_stable=stable)
        else:
            request = OffsetFetchRequest(group_id=group, topics=None, require_stable=stable)
        response: OffsetFetchResponse = connection.request(request, version=version)
        for code in _codes_of_offsets(response):
            if code:
                raise api_error(code, f"group {group!r}")
        return response

    answer = ask_with_retries(brokers, ask, forget_on_error(brokers, GROUP, group), seconds)
    topics = [(each.name, each.partitions) for each in answer.topics]
    topics += [(each.name, each.partitions) for group in answer.groups for each in group.topics]
    return [
        OffsetAndMetadata(TopicPartition(name, each.partition_index), each.committed_offset, each.metadata or "")
        for name, partitions in topics
        for each in partitions
        if each.committed_offset >= 0
    ]


# Error codes of responses.


def _of_coordinator(
    brokers: Brokers,
    transactional_id: str,
    request: Any,
    code_of: Callable[[Any], int],
    seconds: float | None = None,
    highest: int | None = None,
) -> tuple[Any, Any]:
    try:
        return send_to_coordinator(brokers, TRANSACTION, transactional_id, request, code_of, seconds, highest)
    except ApiError as e:
        raise transaction_error(e, transactional_id) from None


def _codes_of_offsets(answer: OffsetFetchResponse) -> Iterable[int]:
    yield answer.error_code
    for topic in answer.topics:
        yield from (each.error_code for each in topic.partitions)
    for group in answer.groups:
        yield group.error_code
        for its in group.topics:
            yield from (each.error_code for each in its.partitions)
