"""
Finds hanging transactions: open in a partition, but unknown to any coordinator that would end them (KIP-664).

They block readers of committed records. An open transaction alone does not hang: its coordinator ends it after its
timeout.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from logbus.client.admin.transaction_admin import ActiveProducer, TransactionDescription
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

if TYPE_CHECKING:
    from logbus.client.admin.admin_client import AdminClient

PARTITIONS_A_REQUEST = 500
"""A response has all producers of all requested partitions."""


@frozen
class OpenTransaction:
    """
    A transaction that is open in a partition.

    :ivar since: its first offset.
    """

    partition: TopicPartition
    producer: ActiveProducer
    since: int


@frozen
class SearchResult:
    """
    The result of a search.

    :ivar errors: the errors of partitions whose producers could not be described.
    """

    transactions: Sequence[OpenTransaction]
    errors: Mapping[TopicPartition, ApiError]


async def open_transactions(
    admin: AdminClient, partitions: Sequence[TopicPartition], broker_id: int | None = None
) -> SearchResult:
    """
    Return the open transactions of the given partitions.

    :param broker_id: the replica to ask; None: each partition's leader.
    """
    found: list[OpenTransaction] = []
    errors: dict[TopicPartition, ApiError] = {}
    for first in range(0, len(partitions), PARTITIONS_A_REQUEST):
        some = partitions[first : first + PARTITIONS_A_REQUEST]
        for partition, answer in (await admin.describe_producers(some, broker_id=broker_id)).items():
            if isinstance(answer, ApiError):
                errors[partition] = answer
                continue
            found += [
                OpenTransaction(partition, each, each.open_since) for each in answer if each.open_since is not None
            ]
    return SearchResult(found, errors)


async def find_hanging(
    admin: AdminClient, partitions: Sequence[TopicPartition], before_ms: int, broker_id: int | None = None
) -> SearchResult:
    """
    Return the hanging transactions of the given partitions.

    :param before_ms: ignore transactions with a later record, in ms since 1970.
    :param broker_id: the replica to ask; None: each partition's leader.
    """
    found = await open_transactions(admin, partitions, broker_id)
    old = [each for each in found.transactions if each.producer.last_timestamp < before_ms]
    suspects = without_coordinator(await known_transactions(admin, {each.producer.producer_id for each in old}), old)
    if not suspects:
        return SearchResult([], found.errors)
    # A transaction may have ended while coordinators were asked.
    places = list(dict.fromkeys(each.partition for each in suspects))
    still = await open_transactions(admin, places, broker_id)
    left = {(each.partition, each.producer.producer_id, each.since) for each in still.transactions}
    hang = [each for each in suspects if (each.partition, each.producer.producer_id, each.since) in left]
    return SearchResult(hang, {**found.errors, **still.errors})


async def known_transactions(admin: AdminClient, producer_ids: Collection[int]) -> Mapping[int, TransactionDescription]:
    """Return the transactions that coordinators know, by producer id."""
    if not producer_ids:
        return {}
    names = {
        each.transactional_id: each.producer_id for each in await admin.list_transactions(producer_ids=producer_ids)
    }
    known: dict[int, TransactionDescription] = {}
    for name, answer in (await admin.describe_transactions(names)).items():
        if not isinstance(answer, ApiError):
            known[names[name]] = answer
        elif answer.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise answer
    return known


def without_coordinator(
    known: Mapping[int, TransactionDescription], transactions: Iterable[OpenTransaction]
) -> list[OpenTransaction]:
    """
    Return transactions that no coordinator will end: it does not know the producer, or the partition is not in it.
    """
    return [
        each
        for each in transactions
        if each.producer.producer_id not in known or each.partition not in known[each.producer.producer_id].partitions
    ]
