"""
Finds and aborts hanging transactions: open in a partition, but unknown to any coordinator that would end them
(KIP-664).

They block readers of committed records. An open transaction alone does not hang: its coordinator ends it after its
timeout.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import frozen

from logbus.cli.output import printable
from logbus.cli.runner import CommandFailed
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.transaction_requests import AbortTransactionSpec
from logbus.client.admin.transaction_results import ActiveProducer, TransactionDescription
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

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


async def find_hanging_at(
    admin: AdminClient, topic: str | None, partition: int | None, broker_id: int | None, before_ms: int
) -> SearchResult:
    """
    Return the hanging transactions of a topic, a partition or a broker; see :func:`find_hanging`.

    :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION.
    :raise CommandFailed: there is no such broker.
    """
    return await find_hanging(admin, await _to_search(admin, topic, partition, broker_id), before_ms, broker_id)


async def _to_search(
    admin: AdminClient, topic: str | None, partition: int | None, broker_id: int | None
) -> list[TopicPartition]:
    """
    Return the partitions to search for hanging transactions.

    :param broker_id: only partitions with a replica on this broker; None: all.
    :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION.
    :raise CommandFailed: there is no such broker.
    """
    if broker_id is not None:
        there = [each.node_id for each in (await admin.describe_cluster()).nodes]
        if broker_id not in there:
            raise CommandFailed(f"there is no broker {broker_id}; there are {', '.join(map(str, there))}")
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    if topic is None:
        topics = await admin.list_topics(internal=True)
    else:
        found = (await admin.describe_topics([topic]))[topic]
        if isinstance(found, ApiError):
            raise found
        topics = [found]
    return [
        TopicPartition(each.name, number)
        for each in topics
        for number, state in each.partitions.items()
        if broker_id is None or broker_id in state.replicas
    ]


async def abort_transaction(
    admin: AdminClient, where: TopicPartition, which: int | AbortTransactionSpec, *, force: bool
) -> AbortTransactionSpec:
    """
    Abort a transaction in one partition.

    :param which: its first offset there, or its producer.
    :param force: abort it even if a coordinator is going to end it.
    :returns: its producer.
    :raise CommandFailed: there is no such transaction, or a coordinator is going to end it.
    """
    ending = which if isinstance(which, AbortTransactionSpec) else await transaction_at(admin, where, which)
    if not force:
        await refuse_if_coordinated(admin, where, ending)
    await admin.abort_transaction(
        where,
        producer_id=ending.producer_id,
        producer_epoch=ending.producer_epoch,
        coordinator_epoch=ending.coordinator_epoch,
    )
    return ending


async def transaction_at(admin: AdminClient, where: TopicPartition, start_offset: int) -> AbortTransactionSpec:
    """
    Return the transaction that begins at an offset.

    :raise ApiError: the partition's leader returns an error.
    :raise CommandFailed: no open transaction begins there.
    """
    found = await open_transactions(admin, [where])
    for error in found.errors.values():
        raise error
    for each in found.transactions:
        if each.since == start_offset:
            # Without any marker yet it is −1; 0 is not above any coordinator's epoch.
            producer = each.producer
            return AbortTransactionSpec(
                producer.producer_id, producer.producer_epoch, max(producer.coordinator_epoch, 0)
            )
    begin = ", ".join(str(since) for since in sorted(each.since for each in found.transactions)[:10])
    there = f"those that are open begin at {begin}" if begin else "none is open"
    raise CommandFailed(f"no open transaction of {where} begins at offset {start_offset}; {there}")


async def refuse_if_coordinated(admin: AdminClient, where: TopicPartition, ending: AbortTransactionSpec) -> None:
    """
    Check that no coordinator knows the transaction, and so is going to end it.

    :raise CommandFailed: one does.
    """
    known = (await known_transactions(admin, [ending.producer_id])).get(ending.producer_id)
    if known is not None and where in known.partitions:
        name = printable(known.transactional_id)
        raise CommandFailed(
            f"it is a transaction of {name}, which is in state {known.state}: its coordinator ends it; "
            f"'logbus transactions force-terminate {name}' has it ended now"
        )
