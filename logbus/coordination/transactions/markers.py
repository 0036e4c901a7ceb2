"""
How partitions hear of the end of a transaction: markers on their way to the leaders, until all have arrived.

The decision is durable before: whoever coordinates goes on sending until each partition has its marker, is gone, or
says that a newer coordinator was there. What cannot be delivered now is tried again after a while, at whoever leads by
then. Nothing is held but the transactions themselves.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence

from attrs import define, field
from twisted.internet.defer import fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.metadata import ClusterMetadata
from logbus.cluster.peers import Peers
from logbus.coordination.news import named
from logbus.coordination.transactions.ending import Ending
from logbus.coordination.transactions.machine import completed
from logbus.coordination.transactions.shard import TransactionShard
from logbus.coordination.transactions.spelling import outcomes_in, spelled
from logbus.coordination.transactions.transaction import Transaction
from logbus.coordination.transactions.writer import MarkerWriter
from logbus.errors import ApiError, ErrorCode, error_of
from logbus.model import TopicPartition
from logbus.timers import Timer, Timers
from logbus.wire.messages.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse

MARKERS = "markers"
WAYS = 4
"""Connections to each broker: a partition that cannot take its marker yet holds up what is behind it on one."""

MOST_A_REQUEST = 500
"""How many partitions one request names."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds before what could not be delivered is tried again."""

NEWER = ErrorCode.TRANSACTION_COORDINATOR_FENCED


@define(eq=False)
class Delivery:
    """
    One transaction whose markers are on their way.

    :ivar left: the partitions that have none yet.
    :ivar waiting: those of them that are tried again when :attr:`timer` is due.
    """

    shard: TransactionShard
    transaction: Transaction
    ending: Ending
    left: set[TopicPartition]
    waiting: set[TopicPartition] = field(factory=set)
    timer: Timer | None = None
    pause: float = FIRST_PAUSE
    over: bool = False


Batch = Sequence[tuple[Delivery, list[TopicPartition]]]


@define(eq=False, repr=False)
class MarkerSender:
    """
    Sends markers, in as few requests as there are brokers and turns.

    :ivar wall_ms: ms since 1970.
    """

    broker_id: int
    metadata: ClusterMetadata
    peers: Peers
    writer: MarkerWriter
    timers: Timers
    wall_ms: Callable[[], int]
    _deliveries: dict[str, Delivery] = field(factory=dict, init=False)
    _queues: dict[int, deque[tuple[Delivery, TopicPartition]]] = field(factory=dict, init=False)
    _busy: dict[int, set[int]] = field(factory=lambda: defaultdict(set), init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        self.metadata.subscribe(self._metadata_changed)

    @property
    def transactions(self) -> int:
        """How many transactions have markers on their way."""
        return len(self._deliveries)

    @property
    def partitions(self) -> int:
        """How many markers are on their way."""
        return sum(len(delivery.left) for delivery in self._deliveries.values())

    def left(self, transactional_id: str) -> frozenset[TopicPartition] | None:
        """The partitions of a transaction that have no marker yet; None: none of its markers is on its way."""
        delivery = self._deliveries.get(transactional_id)
        return None if delivery is None else frozenset(delivery.left)

    def send(self, shard: TransactionShard, transaction: Transaction) -> None:
        """See to it that all partitions of a transaction have their marker, and that it is written that they have."""
        delivery = Delivery(shard, transaction, Ending.of(transaction, shard.epoch), set(transaction.partitions))
        self._deliveries[transaction.transactional_id] = delivery
        self._route(delivery, set(delivery.left))
        self._look(delivery)

    def give_up(self, shard: TransactionShard) -> None:
        """Another broker coordinates these: it sends their markers again."""
        for delivery in list(self._deliveries.values()):
            if delivery.shard is shard:
                self._drop(delivery)

    def stop(self) -> None:
        """Send nothing any more."""
        for delivery in list(self._deliveries.values()):
            self._drop(delivery)

    def _drop(self, delivery: Delivery) -> None:
        delivery.over = True
        if delivery.timer is not None:
            delivery.timer.cancel()
        transactional_id = delivery.transaction.transactional_id
        if self._deliveries.get(transactional_id) is delivery:
            del self._deliveries[transactional_id]

    # To whom.

    def _route(self, delivery: Delivery, partitions: Collection[TopicPartition]) -> None:
        """Put partitions on the way to those who lead them."""
        if not self._is_up_to_date(delivery.shard):
            self._later(delivery, partitions)
            return
        here: list[TopicPartition] = []
        touched: dict[int, None] = {}
        # In an order that does not hang on how the process hashes: what happens can be made to happen again.
        for partition in sorted(partitions):
            image = self.metadata.partition(partition)
            if image is None:
                # Deleted: nobody waits for the end of a transaction there.
                delivery.left.discard(partition)
            elif image.leader == self.broker_id:
                here.append(partition)
            elif image.leader < 0:
                self._later(delivery, [partition])
            else:
                self._queues.setdefault(image.leader, deque()).append((delivery, partition))
                touched[image.leader] = None
        if here:
            written = self.writer.write(delivery.ending, here)
            # A producer's next transaction waits until this one is complete: not for a turn if that can be said now.
            told = self._written if written.called else self._written_later
            written.addCallback(told, delivery).addErrback(self._failed)
        for broker_id in touched:
            self._dispatch(broker_id)

    def _is_up_to_date(self, shard: TransactionShard) -> bool:
        """
        Whether what is known of the cluster is no older than our leadership: roles are given before they are shown,
        and what is not shown yet must not be taken for deleted.
        """
        image = self.metadata.partition(shard.log.replica.topic_partition)
        return image is not None and image.leader == self.broker_id and image.leader_epoch >= shard.epoch

    def _later(self, delivery: Delivery, partitions: Collection[TopicPartition]) -> None:
        delivery.waiting.update(partitions)
        if delivery.timer is None and delivery.waiting and not delivery.over:
            delivery.timer = self.timers.call_later(delivery.pause, lambda: self._try_again(delivery))
            delivery.pause = min(2 * delivery.pause, LONGEST_PAUSE)

    def _try_again(self, delivery: Delivery) -> None:
        delivery.timer = None
        waiting, delivery.waiting = delivery.waiting, set()
        self._route(delivery, waiting)
        self._look(delivery)

    def _metadata_changed(self) -> None:
        for delivery in list(self._deliveries.values()):
            if delivery.timer is not None:
                delivery.timer.cancel()
                self._try_again(delivery)

    # To other brokers.

    def _dispatch(self, broker_id: int) -> None:
        """Send what waits for a broker, as long as there is a way that is free."""
        queue, busy = self._queues[broker_id], self._busy[broker_id]
        while queue and len(busy) < WAYS:
            batch: dict[str, tuple[Delivery, list[TopicPartition]]] = {}
            for _ in range(min(len(queue), MOST_A_REQUEST)):
                delivery, partition = queue.popleft()
                if not delivery.over:
                    name = delivery.transaction.transactional_id
                    batch.setdefault(name, (delivery, []))[1].append(partition)
            if batch:
                way = next(number for number in range(WAYS) if number not in busy)
                busy.add(way)
                self._send(broker_id, way, list(batch.values()))

    def _send(self, broker_id: int, way: int, batch: Batch) -> None:
        request = WriteTxnMarkersRequest(markers=[spelled(delivery.ending, some) for delivery, some in batch])
        try:
            asked = self.peers.request(self.peers.broker(broker_id), request, f"{MARKERS}-{way}")
        except ApiError as e:
            asked = fail(e)
        asked.addBoth(self._answered, broker_id, way, batch).addErrback(self._failed)

    def _answered(self, result: WriteTxnMarkersResponse | Failure, broker_id: int, way: int, batch: Batch) -> None:
        self._busy[broker_id].discard(way)
        # What is not in the answer is as good as not answered.
        problem = self._problem(result, broker_id) if isinstance(result, Failure) else ErrorCode.NETWORK_EXCEPTION
        found = {} if isinstance(result, Failure) else outcomes_in(result)
        for delivery, some in batch:
            outcomes = {}
            for partition in some:
                code = found.get((delivery.ending.producer_id, *partition))
                outcomes[partition] = problem if code is None else error_of(code).code
            self._written(outcomes, delivery)
        self._dispatch(broker_id)

    def _problem(self, failure: Failure, broker_id: int) -> ErrorCode:
        """Why a broker did not answer. Whatever it is, the transactions must not be forgotten."""
        if isinstance(failure.value, ApiError):
            return failure.value.code
        self._log.error("markers for broker {broker} cannot be sent: {why!r}", broker=broker_id, why=failure.value)
        return ErrorCode.UNKNOWN_SERVER_ERROR

    # What came of it.

    def _written_later(self, outcomes: Mapping[TopicPartition, ErrorCode], delivery: Delivery) -> None:
        # What follows writes, perhaps to partitions that somebody is just reading: it has a turn of its own.
        self.timers.call_later(0, lambda: self._written(outcomes, delivery))

    def _written(self, outcomes: Mapping[TopicPartition, ErrorCode], delivery: Delivery) -> None:
        if delivery.over:
            return
        again: list[TopicPartition] = []
        for partition, code in outcomes.items():
            if code is ErrorCode.NONE:
                delivery.left.discard(partition)
            elif code is NEWER:
                self._say(delivery, partition, code, "a newer coordinator was there; this one sends no more")
                self._drop(delivery)
                return
            elif code is ErrorCode.INVALID_PRODUCER_EPOCH:
                # Whoever wrote with a newer epoch there has ended this transaction, or could not have begun. Should it
                # be that we were deposed, that the markers are there cannot be written, either.
                self._say(delivery, partition, code, "its producer went on meanwhile")
                delivery.left.discard(partition)
            else:
                again.append(partition)
        if again:
            self._later(delivery, again)
        self._look(delivery)

    def _look(self, delivery: Delivery) -> None:
        """Write that all markers are there, if they are."""
        if delivery.over or delivery.left:
            return
        shard, transaction = delivery.shard, delivery.transaction
        entry = shard.entries.get(transaction.transactional_id)
        if entry is None or entry.current is not transaction or entry.pending is not None:
            return
        try:
            shard.put(completed(transaction, self.wall_ms())).addCallbacks(
                lambda _: self._drop(delivery), self._not_completed, errbackArgs=(delivery,)
            ).addErrback(self._failed)
        except ApiError as e:
            self._not_completed(Failure(e), delivery)

    def _not_completed(self, failure: Failure, delivery: Delivery) -> None:
        failure.trap(ApiError)
        if delivery.over or delivery.shard.closed:
            self._drop(delivery)
        elif delivery.timer is None:
            delivery.timer = self.timers.call_later(delivery.pause, lambda: self._try_again(delivery))
            delivery.pause = min(2 * delivery.pause, LONGEST_PAUSE)

    def _say(self, delivery: Delivery, partition: TopicPartition, code: ErrorCode, why: str) -> None:
        self._log.warn(
            "transactional id {id}: the marker was refused by {partition} with {code}: {why}",
            id=named(delivery.transaction.transactional_id),
            partition=partition,
            code=code.name,
            why=why,
        )

    def _failed(self, failure: Failure) -> None:
        self._log.failure("markers cannot be sent", failure)
