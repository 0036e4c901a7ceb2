"""
Sends the markers of ended transactions to the leaders of their partitions (Kafka: TransactionMarkerChannelManager).

The decision is durable before. The coordinator sends until each partition has its marker, is deleted, or answers that
it has seen a newer coordinator. Failed markers are sent again after a delay, to the leader at that time. The state kept
in memory is that of the transactions only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from attrs import define, field
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.peers import Peers
from logbus.coordination.generation_log import loggable_id
from logbus.coordination.transactions.end_transaction_marker import EndTransactionMarker
from logbus.coordination.transactions.marker_writer import MarkerWriter
from logbus.coordination.transactions.pending_complete_txn import PendingCompleteTxn
from logbus.coordination.transactions.state_machine import complete_transaction
from logbus.coordination.transactions.transaction_metadata import TransactionMetadata
from logbus.coordination.transactions.transaction_shard import TransactionShard
from logbus.coordination.transactions.txn_marker_queue import TxnMarkerQueue
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.timers import Timers

NEWER = ErrorCode.TRANSACTION_COORDINATOR_FENCED

PARTITIONS_AT_A_TIME = 50
"""Number of markers of one transaction that are written here in one turn of the reactor."""


@define(eq=False, repr=False)
class MarkerChannelManager:
    """
    Sends markers, batched by broker.

    :ivar wall_ms: ms since 1970.
    """

    broker_id: int
    metadata: ClusterMetadata
    peers: Peers
    writer: MarkerWriter
    timers: Timers
    wall_ms: Callable[[], int]
    _pending: dict[str, PendingCompleteTxn] = field(factory=dict, init=False)
    _queues: dict[int, TxnMarkerQueue] = field(factory=dict, init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        self.metadata.subscribe(self._metadata_changed)

    @property
    def transactions(self) -> int:
        """Number of transactions whose markers are being sent."""
        return len(self._pending)

    @property
    def partitions(self) -> int:
        """Number of markers being sent."""
        return sum(len(pending.left) for pending in self._pending.values())

    def left(self, transactional_id: str) -> frozenset[TopicPartition] | None:
        """The partitions of a transaction without a marker; None: its markers are not being sent."""
        pending = self._pending.get(transactional_id)
        return None if pending is None else frozenset(pending.left)

    def send(self, shard: TransactionShard, transaction: TransactionMetadata) -> None:
        """Send a transaction's markers to all its partitions, then write its completion."""
        pending = PendingCompleteTxn(
            shard, transaction, EndTransactionMarker.of(transaction, shard.epoch), set(transaction.partitions)
        )
        self._pending[transaction.transactional_id] = pending
        self._route(pending, set(pending.left))
        self._complete_if_done(pending)

    def give_up(self, shard: TransactionShard) -> None:
        """Drop the transactions of a shard that moves to another broker, which sends their markers again."""
        for pending in list(self._pending.values()):
            if pending.shard is shard:
                self._drop(pending)

    def stop(self) -> None:
        """Drop all transactions."""
        for pending in list(self._pending.values()):
            self._drop(pending)

    def _drop(self, pending: PendingCompleteTxn) -> None:
        pending.end()
        transactional_id = pending.transaction.transactional_id
        if self._pending.get(transactional_id) is pending:
            del self._pending[transactional_id]

    # Routing.

    def _route(self, pending: PendingCompleteTxn, partitions: Collection[TopicPartition]) -> None:
        """Queue markers for the leaders of their partitions, or write them here."""
        if not self._is_up_to_date(pending.shard):
            self._later(pending, partitions)
            return
        here: list[TopicPartition] = []
        queues: dict[int, TxnMarkerQueue] = {}
        # Sorted, so that the order does not depend on hashes and runs can be reproduced.
        for partition in sorted(partitions):
            image = self.metadata.partition(partition)
            if image is None:
                # The topic is deleted.
                pending.left.discard(partition)
            elif image.leader == self.broker_id:
                here.append(partition)
            elif image.leader < 0:
                self._later(pending, [partition])
            else:
                queue = queues[image.leader] = self._queue(image.leader)
                queue.add(pending, partition)
        if here:
            here, rest = here[:PARTITIONS_AT_A_TIME], here[PARTITIONS_AT_A_TIME:]
            if rest:
                self.timers.call_later(0, lambda: self._route_rest(pending, rest))
            written = self.writer.write(pending.end_marker, here)
            # The producer's next transaction waits for the completion, so do not defer it if it is known now.
            told = self._written if written.called else self._written_later
            written.addCallback(told, pending).addErrback(self._failed)
        for queue in queues.values():
            queue.send()

    def _route_rest(self, pending: PendingCompleteTxn, partitions: Collection[TopicPartition]) -> None:
        if not pending.over:
            self._route(pending, partitions)
            self._complete_if_done(pending)

    def _queue(self, broker_id: int) -> TxnMarkerQueue:
        queue = self._queues.get(broker_id)
        if queue is None:
            queue = self._queues[broker_id] = TxnMarkerQueue(broker_id, self.peers, self._written)
        return queue

    def _is_up_to_date(self, shard: TransactionShard) -> bool:
        """
        Whether the metadata is at least as new as this broker's leadership, and whole. A broker becomes the leader
        before its metadata shows it, and a topic that the metadata does not show yet must not be taken for deleted.
        """
        if self.metadata.is_partial:
            return False
        image = self.metadata.partition(shard.log.replica.topic_partition)
        return image is not None and image.leader == self.broker_id and image.leader_epoch >= shard.epoch

    def _later(self, pending: PendingCompleteTxn, partitions: Collection[TopicPartition]) -> None:
        pending.waiting.update(partitions)
        if pending.waiting and not pending.over:
            pending.try_later(self.timers, lambda: self._try_again(pending))

    def _try_again(self, pending: PendingCompleteTxn) -> None:
        pending.timer = None
        waiting, pending.waiting = pending.waiting, set()
        self._route(pending, waiting)
        self._complete_if_done(pending)

    def _metadata_changed(self) -> None:
        for pending in list(self._pending.values()):
            if pending.timer is not None:
                # In turns of their own: there may be many, and each writes to several logs.
                pending.timer.cancel()
                pending.timer = self.timers.call_later(0, partial(self._try_again, pending))

    # Results.

    def _written_later(self, outcomes: Mapping[TopicPartition, ErrorCode], pending: PendingCompleteTxn) -> None:
        # The completion writes to a partition that a caller may just be reading, so it gets a turn of its own.
        self.timers.call_later(0, lambda: self._written(outcomes, pending))

    def _written(self, outcomes: Mapping[TopicPartition, ErrorCode], pending: PendingCompleteTxn) -> None:
        if pending.over:
            return
        again: list[TopicPartition] = []
        for partition, code in outcomes.items():
            if code is ErrorCode.NONE:
                pending.left.discard(partition)
            elif code is NEWER:
                self._warn_refused(pending, partition, code, "it has a marker of a newer coordinator; this one stops")
                self._drop(pending)
                return
            elif code is ErrorCode.INVALID_PRODUCER_EPOCH:
                # A newer epoch in the partition implies that this transaction has ended there. If this broker is no
                # longer the coordinator, it cannot write the completion, either.
                self._warn_refused(pending, partition, code, "its producer has a newer epoch there")
                pending.left.discard(partition)
            else:
                again.append(partition)
        if again:
            self._later(pending, again)
        self._complete_if_done(pending)

    def _complete_if_done(self, pending: PendingCompleteTxn) -> None:
        """Write the completion if all markers are written."""
        if pending.over or pending.left:
            return
        shard, transaction = pending.shard, pending.transaction
        entry = shard.entries.get(transaction.transactional_id)
        if entry is None or entry.current is not transaction or entry.pending is not None:
            return
        try:
            shard.put(complete_transaction(transaction, self.wall_ms())).addCallbacks(
                lambda _: self._drop(pending), self._not_completed, errbackArgs=(pending,)
            ).addErrback(self._failed)
        except ApiError as e:
            self._not_completed(Failure(e), pending)

    def _not_completed(self, failure: Failure, pending: PendingCompleteTxn) -> None:
        failure.trap(ApiError)
        if pending.over or pending.shard.closed:
            self._drop(pending)
        else:
            pending.try_later(self.timers, lambda: self._try_again(pending))

    def _warn_refused(self, pending: PendingCompleteTxn, partition: TopicPartition, code: ErrorCode, why: str) -> None:
        self._log.warn(
            "transactional id {id}: the marker was refused by {partition} with {code}: {why}",
            id=loggable_id(pending.transaction.transactional_id),
            partition=partition,
            code=code.name,
            why=why,
        )

    def _failed(self, failure: Failure) -> None:
        self._log.failure("markers cannot be sent", failure)
