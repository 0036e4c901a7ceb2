"""Producers with open transactions, and valid requests of every transaction API, as input for fuzzing."""

from __future__ import annotations

from typing import Any

from logbus.wire.messages.groups import FindCoordinatorRequest
from logbus.wire.messages.partitions import NamedTopicPartitions, TopicPartitionIndexes
from logbus.wire.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from logbus.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WriteTxnMarkersRequest,
)
from tests.handlers.kit import MemoryBroker, a_batch, produce_request

#: Transactional ids: with a transaction of the first version, with one of the second, without one, and not known.
IDS = ("first", "second", "idle", "nobody")
TIMEOUT_MS = 60_000
#: The last version that belongs to the first version of transactions, and the first that belongs to the second.
PRODUCE_1, PRODUCE_2 = 11, 12


def a_transactional_batch(producer_id: int, sequence: int = 0, epoch: int = 0) -> bytes:
    """A batch of a producer's transaction."""
    return a_batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)


def with_transactions(server: MemoryBroker) -> dict[str, int]:
    """Let producers begin, two of them with a transaction in partition 2 of ``t``; their ids by transactional id."""
    client = server.connect()
    client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["first"]), 4)
    client.ask(FindCoordinatorRequest(coordinator_keys=["classic"]), 4)
    begun = {
        name: client.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS), 4).producer_id
        for name in IDS[:3]
    }
    client.ask(adding("first", begun["first"]), 3)
    for name, version in (("first", PRODUCE_1), ("second", PRODUCE_2)):
        batch = a_transactional_batch(begun[name])
        answer = client.produce(batch, partition=2, acks=-1, version=version, transactional_id=name)
        assert answer.error_code == 0, answer
    client.transport.loseConnection()
    return begun


def topics() -> list[NamedTopicPartitions]:
    return [NamedTopicPartitions(name="t", partitions=[1, 2])]


def adding(name: str, producer_id: int) -> AddPartitionsToTxnRequest:
    """As clients ask."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics(),
    )


def transaction_requests(begun: dict[str, int]) -> list[Any]:
    """Requests that the broker of :func:`with_transactions` serves, at least one of each API."""
    requests: list[Any] = [
        FindCoordinatorRequest(key="first", key_type=1),
        FindCoordinatorRequest(coordinator_keys=list(IDS), key_type=1),
        InitProducerIdRequest(transactional_id="nobody", transaction_timeout_ms=1000),
        DescribeTransactionsRequest(transactional_ids=list(IDS)),
        ListTransactionsRequest(state_filters=[], producer_id_filters=[]),
        ListTransactionsRequest(
            state_filters=["Ongoing", "Lost"], producer_id_filters=[begun["first"]], transactional_id_pattern="f.*"
        ),
        DescribeProducersRequest(topics=[TopicPartitionIndexes(name="t", partition_indexes=[0, 1, 2])]),
    ]
    for name, producer_id in begun.items():
        requests += [
            InitProducerIdRequest(
                transactional_id=name, transaction_timeout_ms=1000, producer_id=producer_id, producer_epoch=0
            ),
            adding(name, producer_id),
            *(
                AddPartitionsToTxnRequest(
                    transactions=[
                        AddPartitionsToTxnTransaction(
                            transactional_id=name,
                            producer_id=producer_id,
                            producer_epoch=0,
                            verify_only=verify_only,
                            topics=topics(),
                        )
                    ]
                )
                for verify_only in (False, True)
            ),
            AddOffsetsToTxnRequest(
                transactional_id=name, producer_id=producer_id, producer_epoch=0, group_id="classic"
            ),
            TxnOffsetCommitRequest(
                transactional_id=name,
                group_id="classic",
                producer_id=producer_id,
                producer_epoch=0,
                topics=[
                    TxnOffsetCommitRequestTopic(
                        name="t",
                        partitions=[
                            TxnOffsetCommitRequestPartition(
                                partition_index=0, committed_offset=5, committed_metadata="said"
                            )
                        ],
                    )
                ],
            ),
            *(
                EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=0, committed=committed)
                for committed in (True, False)
            ),
            *(
                WriteTxnMarkersRequest(
                    markers=[
                        WritableTxnMarker(
                            producer_id=producer_id,
                            producer_epoch=epoch,
                            transaction_result=epoch == 0,
                            topics=[TopicPartitionIndexes(name="t", partition_indexes=[1, 2])],
                            coordinator_epoch=0,
                        )
                    ]
                )
                for epoch in (0, 1)
            ),
            *(
                produce_request(a_transactional_batch(producer_id, sequence), "t", 2, -1, transactional_id=name)
                for sequence in (0, 1)
            ),
        ]
    return requests
