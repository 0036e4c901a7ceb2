"""
Finds hanging transactions, which are open in a partition although no coordinator will end them, and checks whether a
client may abort one (KIP-664).

Only the coordinator of a transaction may end it, except that a client may abort one that hangs. Otherwise a client
could make a part of a transaction visible, hide the rest, and fence producers with epochs that they never had.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from attrs import define, frozen
from twisted.logger import Logger

from logbus.cluster.replication.replica import Replica
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.config import ConfigView, keys
from logbus.coordination.transactions.end_transaction_marker import EndTransactionMarker
from logbus.coordination.transactions.transaction_lookup import TransactionLookup
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.model import TopicPartition
from logbus.storage.producers.producer_state_manager import ProducerStateEntry

GRACE_MS = 5 * 60 * 1000
"""Time after the longest timeout before an open transaction is late; Kafka's value."""

MAX_PARTITIONS = 1000
"""Limit of the partitions in a client's request; tools name one."""

Request = tuple[EndTransactionMarker, Collection[TopicPartition]]
Verdicts = dict[TopicPartition, ErrorCode]


class _Open(NamedTuple):
    """A transaction that is open in a partition; ``since``: its first offset."""

    number: int
    partition: TopicPartition
    since: int


@frozen
class HangingTransaction:
    """
    A transaction that nobody ends.

    :ivar producer: what the partition knows of its producer.
    :ivar start_offset: its first offset in the partition.
    """

    partition: TopicPartition
    producer: ProducerStateEntry
    start_offset: int


def late_before(config: ConfigView, now_ms: int) -> int:
    """Return the time before which the producer of a late transaction wrote for the last time, in ms since 1970."""
    return now_ms - config.get(keys.TRANSACTION_MAX_TIMEOUT_MS) - GRACE_MS


def late_producer(replica: Replica, before_ms: int) -> ProducerStateEntry | None:
    """
    Return the producer whose transaction is the oldest that is open in a partition, which all readers of committed
    records wait for; None unless it wrote before a time, in ms since 1970.
    """
    producers = replica.log.producers_in_memory
    if producers is None:
        return None  # The log was not used since it was opened, so its producer state is not in memory.
    oldest = producers.transactions.oldest
    found = None if oldest is None else producers.get(oldest)
    return found if found is not None and 0 <= found.last_timestamp < before_ms else None


@define(eq=False)
class HangingTransactions:
    """
    Finds the transactions that hang in the partitions that this broker leads, and decides which a client may abort.

    :param internal_topics: topics that only brokers write to.
    """

    _replicas: ReplicaManager
    _lookup: TransactionLookup
    _internal_topics: frozenset[str]
    _log = Logger()

    async def find(self, before_ms: int) -> list[HangingTransaction]:
        """
        Return the oldest transaction of each partition that this broker leads, if it hangs.

        :param before_ms: only of producers that wrote nothing since, in ms since 1970.
        :raise ApiError: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS: it is unknown now.
        """
        late = [
            (replica, producer)
            for replica in self._replicas
            if replica.partition.is_leader and (producer := late_producer(replica, before_ms)) is not None
        ]
        if not late:
            return []
        known = await self._lookup.partitions_to_end({producer.producer_id for _, producer in late})
        return [
            HangingTransaction(replica.topic_partition, producer, producer.open_since)
            for replica, producer in late
            # It may have ended while the coordinators were asked.
            if producer.open_since is not None
            and replica.topic_partition not in known.get(producer.producer_id, ())
            and late_producer(replica, before_ms) is producer
        ]

    async def verdicts(self, requests: Sequence[Request]) -> list[Verdicts]:
        """
        Check the markers in a client's request.

        :return: for each request the partitions where no marker is to be written, with an error. In the others it must
            be written in this turn of the reactor.

            * NONE: the producer has no transaction open there in this epoch, so that there is nothing to do;
            * TOPIC_AUTHORIZATION_FAILED: an internal topic;
            * CLUSTER_AUTHORIZATION_FAILED: its coordinator will end the transaction, or the marker is a commit;
            * UNKNOWN_PRODUCER_ID, INVALID_PRODUCER_EPOCH: this producer, in this epoch, has not written there;
            * INVALID_REQUEST: the coordinator epoch is above that of the producer's last marker there, or there are
              too many partitions;
            * COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS: it is unknown now, the client may retry;
            * any other error of the leader of a partition.
        """
        found: list[Verdicts] = [{} for _ in requests]
        if sum(len(partitions) for _, partitions in requests) > MAX_PARTITIONS:
            return [dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST) for _, partitions in requests]
        candidates: list[_Open] = []
        for number, (end_marker, partitions) in enumerate(requests):
            for partition in partitions:
                try:
                    since = self._open_since(end_marker, partition)
                except ApiError as e:
                    found[number][partition] = e.code
                    continue
                if since is None:
                    found[number][partition] = ErrorCode.NONE
                else:
                    candidates.append(_Open(number, partition, since))
        if not candidates:
            return found
        try:
            known = await self._lookup.partitions_to_end({requests[each.number][0].producer_id for each in candidates})
        except ApiError as e:
            self._log.info("it cannot be determined whether a transaction hangs: {error}", error=e)
            for number, partition, _ in candidates:
                found[number][partition] = e.code
            return found
        for number, partition, since in candidates:
            end_marker = requests[number][0]
            try:
                if partition in known.get(end_marker.producer_id, ()):
                    raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "its coordinator ends it")
                # It may have ended meanwhile, and the next one may have begun.
                if self._open_since(end_marker, partition) != since:
                    raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "it does not hang")
            except ApiError as e:
                found[number][partition] = e.code
            else:
                self._log.info(
                    "{partition}: a client aborts the transaction of producer {id} that hangs since offset {since}",
                    partition=partition,
                    id=end_marker.producer_id,
                    since=since,
                )
        return found

    def _open_since(self, end_marker: EndTransactionMarker, partition: TopicPartition) -> int | None:
        """
        First offset of the transaction to abort; None: none is open.

        :raise ApiError: see :meth:`verdicts`.
        """
        if partition.topic in self._internal_topics:
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "only brokers write markers to internal topics")
        if end_marker.committed:
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only its coordinator commits a transaction")
        try:
            entry = self._replicas.leader(*partition).log.producers.get(end_marker.producer_id)
        except StorageError as e:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(e)) from e
        if entry is None:
            raise ApiError(ErrorCode.UNKNOWN_PRODUCER_ID, f"{partition} knows no producer {end_marker.producer_id}")
        if entry.epoch != end_marker.producer_epoch:
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, f"the producer's epoch is {entry.epoch}")
        if end_marker.coordinator_epoch > max(entry.coordinator_epoch, 0):
            # Otherwise the real coordinator, with a lower epoch, would be refused from then on.
            raise ApiError(ErrorCode.INVALID_REQUEST, "no coordinator of that epoch has ended a transaction here")
        return entry.open_since
