"""A transactional producer that commits offsets, and the state of transactional ids, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define

from logbus.coordination.transactions.transaction_metadata import TransactionMetadata
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.wire.messages.groups import FindCoordinatorRequest
from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from logbus.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.handlers.kit import Client

UNSTABLE = "unstable"


@define(eq=False)
class OffsetProducer:
    """
    Commits offsets in transactions.

    :ivar by_v2: whether the epoch grows with each transaction, and requests add the group by themselves (KIP-890).
    """

    client: Client
    transactional_id: str = "x"
    by_v2: bool = True
    timeout_ms: int = 60_000
    producer_id: int = -1
    epoch: int = -1

    def ask(self, message: Any, version: int) -> Any:
        """Whoever is to be asked."""
        return self.client.ask(message, version)

    def wait(self) -> None:
        """For what follows by itself."""
        for _ in range(10):
            self.client.turn(0)

    def find(self) -> OffsetProducer:
        """Find the coordinator, so that the topic is made; then get an id."""
        self.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[self.transactional_id]), 4)
        for _ in range(5):
            self.client.turn(0.1)
        return self.init()

    def init(self) -> OffsetProducer:
        """Get an id, or the next epoch."""
        asked = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms)
        for _ in range(10):
            answer = self.ask(asked, 4)
            if answer.error_code not in (14, 51):  # loading, or the end of a transaction
                break
            self.client.turn(0.1)
        assert answer.error_code == 0, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return self

    def add_group(self, group: str = "g") -> int:
        """AddOffsetsToTxn."""
        asked = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        return int(self.ask(asked, 3).error_code)

    def request(self, offsets: Mapping[tuple[str, int], int], group: str = "g", **given: Any) -> TxnOffsetCommitRequest:
        metadata = given.pop("metadata", "")
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                )
            )
        fields: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "group_id": group,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "topics": [TxnOffsetCommitRequestTopic(name=name, partitions=asked) for name, asked in topics.items()],
        }
        return TxnOffsetCommitRequest(**{**fields, **given})

    def commit(
        self, offsets: Mapping[tuple[str, int], int], group: str = "g", *, version: int | None = None, **given: Any
    ) -> dict[tuple[str, int], int]:
        """TxnOffsetCommit; the error code of each partition."""
        if version is None:
            version = 5 if self.by_v2 else 3
        response = self.ask(self.request(offsets, group, **given), version)
        return {
            (topic.name, one.partition_index): one.error_code for topic in response.topics for one in topic.partitions
        }

    @property
    def end_version(self) -> int:
        """Of EndTxn."""
        return 5 if self.by_v2 else 3

    def end_request(self, committed: bool = True) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )

    def end(self, committed: bool = True) -> int:
        """EndTxn, and time for the markers."""
        answer = self.ask(self.end_request(committed), self.end_version)
        if not answer.error_code and self.by_v2:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.wait()
        return int(answer.error_code)


def commit_request(offsets: Mapping[tuple[str, int], int], group: str = "g") -> OffsetCommitRequest:
    """A commit outside of transactions."""
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)],
            )
            for (topic, partition), offset in offsets.items()
        ],
    )


def fetch_request(*partitions: tuple[str, int], group: str = "g") -> OffsetFetchRequest:
    """A request for the stable offsets of a group, in some partitions or in all."""
    asked = OffsetFetchRequestGroup(
        group_id=group,
        topics=[OffsetFetchRequestTopics(name=name, partition_indexes=[number]) for name, number in partitions]
        if partitions
        else None,
    )
    return OffsetFetchRequest(groups=[asked], require_stable=True)


def stable(client: Client, *partitions: tuple[str, int], group: str = "g") -> dict[Any, Any]:
    """The committed offsets of a group, or :data:`UNSTABLE`."""
    (found,) = client.ask(fetch_request(*partitions, group=group), 9).groups
    assert found.error_code == 0, found
    return {
        (topic.name, one.partition_index): UNSTABLE if one.error_code == 88 else one.committed_offset
        for topic in found.topics
        for one in topic.partitions
    }


def transaction(name: str, state: TransactionState = TransactionState.EMPTY, **given: Any) -> TransactionMetadata:
    """The state of a transactional id, with a timeout of a minute."""
    return TransactionMetadata(
        **{
            "transactional_id": name,
            "producer_id": 7,
            "producer_epoch": 3,
            "timeout_ms": 60_000,
            "state": state,
            **given,
        }
    )
