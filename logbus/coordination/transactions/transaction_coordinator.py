"""
The transaction coordinator (Kafka: TransactionCoordinator, TransactionStateManager): this broker's transactional ids.

There is one shard for each partition of ``__transaction_state`` that this broker leads. A change is written first, and
takes effect when it is durable. After a decision to commit or abort, the markers are sent, and then the completion is
written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logbus.cluster.producer_id_manager import ProducerIdManager
from logbus.cluster.replication.replica_manager import Replica
from logbus.config import keys
from logbus.coordination.coordinator_runtime import CoordinatorRuntime
from logbus.coordination.limit import Limit
from logbus.coordination.state_log import StateLog
from logbus.coordination.transactions import state_machine
from logbus.coordination.transactions.init_producer_id import abort_timed_out, has_timed_out, init_producer_id
from logbus.coordination.transactions.marker_channel_manager import MarkerChannelManager
from logbus.coordination.transactions.transaction_loader import TransactionCoordinatorMetrics, load
from logbus.coordination.transactions.transaction_metadata import V1, V2, ProducerIdAndEpoch, TransactionMetadata
from logbus.coordination.transactions.transaction_shard import TransactionEntry, TransactionShard
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.coordination.transactions.transition import ENDING, ProducerIdNeeded, Transition, producer_after
from logbus.errors import ApiError, ErrorCode
from logbus.model import TRANSACTIONS_TOPIC, TopicPartition
from logbus.net.time_slices import TimeSlice
from logbus.records.compression import Codec

UNITS_TO_SEND = 5
"""Units of a time slice that it takes to send the markers of a transaction."""

PATIENCE_SECONDS = 0.1
"""How long a request to add partitions waits for a pending write of the same transaction."""

Decide = Callable[[TransactionMetadata | None, int | None], Transition]
"""Takes the durable state of an id, and a new producer id if there is one."""


@define(eq=False, repr=False)
class TransactionCoordinator(CoordinatorRuntime[TransactionShard]):
    """
    All transactional ids that this broker coordinates.

    Every method may raise COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS, and
    CONCURRENT_TRANSACTIONS while another change of the same id is not durable yet; all of these can be retried.

    :ivar markers: sends the markers.
    """

    topic = TRANSACTIONS_TOPIC
    partitions_key = keys.TRANSACTION_STATE_LOG_NUM_PARTITIONS
    _ids: ProducerIdManager
    markers: MarkerChannelManager
    metrics: TransactionCoordinatorMetrics = field(factory=TransactionCoordinatorMetrics, init=False)
    _id_limit: Limit = field(init=False)
    _partition_limit: Limit = field(init=False)
    _log = Logger()

    @_id_limit.default
    def _limited_ids(self) -> Limit:
        return Limit(
            self.config,
            self.clock,
            keys.TRANSACTIONAL_ID_MAX_COUNT,
            "transactional ids",
            lambda: sum(len(shard.entries) for shard in self.shards.values()),
        )

    @_partition_limit.default
    def _limited_partitions(self) -> Limit:
        return Limit(
            self.config,
            self.clock,
            keys.TRANSACTION_MAX_OPEN_PARTITIONS,
            "partitions in open transactions",
            lambda: sum(shard.partitions for shard in self.shards.values()),
        )

    # Looking up.

    def shard_of(self, key: str) -> TransactionShard:
        """
        See :meth:`.CoordinatorRuntime.shard_of`.

        :raise ApiError: also INVALID_REQUEST (no id).
        """
        if not key:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a transactional id has at least one character")
        return super().shard_of(key)

    def describe(self, transactional_id: str) -> TransactionMetadata:
        """
        The durable state of a transactional id.

        :raise ApiError: as :meth:`shard_of`, TRANSACTIONAL_ID_NOT_FOUND.
        """
        entry = self.shard_of(transactional_id).entries.get(transactional_id)
        if entry is None or entry.current is None or _is_dying(entry):
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {transactional_id!r}")
        return entry.current

    def transactions(self) -> Sequence[TransactionMetadata]:
        """All transactional ids of the shards that are loaded."""
        return [
            entry.current
            for shard in self.active_shards()
            for entry in shard.entries.values()
            if entry.current is not None and not _is_dying(entry)
        ]

    def states(self) -> Counter[str]:
        """Number of transactional ids by state."""
        return Counter(transaction.state.value for transaction in self.transactions())

    # Requests of producers.

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None = None
    ) -> Deferred[ProducerIdAndEpoch]:
        """
        Start a producer: fence the one that used the id before, and abort its transaction.

        :param timeout_ms: how long each of its transactions may take.
        :param expected: its present producer id and epoch, if it goes on after an error (KIP-360).
        :raise ApiError: as :meth:`shard_of`; INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED.
        """
        return Deferred.fromCoroutine(self._init(transactional_id, timeout_ms, expected))

    async def _init(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> ProducerIdAndEpoch:
        most = self.config.get(keys.TRANSACTION_MAX_TIMEOUT_MS)
        if transactional_id and not 0 < timeout_ms <= most:
            raise ApiError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"a transaction timeout of {timeout_ms} ms; transaction.max.timeout.ms is {most}",
            )

        def decide(now: TransactionMetadata | None, fresh_id: int | None) -> Transition:
            if now is None:
                self._id_limit.check()
            return init_producer_id(now, transactional_id, timeout_ms, expected, fresh_id, self.wall_ms())

        return (await self._carry_out(transactional_id, decide)).producer

    async def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        client_version: int = V1,
    ) -> None:
        """
        Add partitions to the producer's transaction, all or none; the first begins it. Returns when that is durable.

        :param client_version: V1: the client has sent AddPartitionsToTxn; V2: it has written to them.
        :raise ApiError: as :meth:`shard_of`; INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, POLICY_VIOLATION (too many).
        """

        def decide(now: TransactionMetadata | None, fresh_id: int | None) -> Transition:
            most = self.config.get(keys.TRANSACTION_MAX_PARTITIONS)
            step = state_machine.add_partitions(now, producer, partitions, client_version, most, self.wall_ms())
            if step.written:
                self._partition_limit.check(len(partitions))
            return step

        if client_version >= V2:
            # A producer writes to several brokers at once; without waiting, all but one of its requests would fail.
            await self._until_free(transactional_id)
        await self._carry_out(transactional_id, decide)

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """
        Whether partitions are part of the producer's transaction: NONE, or TRANSACTION_ABORTABLE.

        :raise ApiError: as :meth:`shard_of`; INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED.
        """
        entry = self.shard_of(transactional_id).entries.get(transactional_id)
        return state_machine.verify_partitions(None if entry is None else entry.current, producer, partitions)

    async def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, commit: bool, client_version: int = V1
    ) -> ProducerIdAndEpoch:
        """
        Commit or abort the producer's transaction.

        :return: the producer's new id and epoch, when the decision is durable; the markers are written later.
        :raise ApiError: as :meth:`shard_of`; INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE.
        """

        def decide(now: TransactionMetadata | None, fresh_id: int | None) -> Transition:
            return state_machine.end_transaction(now, producer, commit, client_version, fresh_id, self.wall_ms())

        return producer_after(await self._carry_out(transactional_id, decide))

    def time_out(self, transactional_id: str) -> Deferred[TransactionMetadata]:
        """
        Abort a transaction if it has exceeded its timeout.

        :raise ApiError: as :meth:`shard_of`.
        """

        def decide(now: TransactionMetadata | None, fresh_id: int | None) -> Transition:
            now_ms = self.wall_ms()
            if now is None or not has_timed_out(now, now_ms):
                raise ApiError(ErrorCode.INVALID_TXN_STATE, "there is no transaction that took too long")
            return abort_timed_out(now, fresh_id, now_ms)

        return Deferred.fromCoroutine(self._carry_out(transactional_id, decide))

    # Carrying out transitions.

    async def _carry_out(self, transactional_id: str, decide: Decide) -> TransactionMetadata:
        """Decide on a transition, write its state, and return it when it is durable."""
        fresh_id: int | None = None
        while True:
            shard = self.shard_of(transactional_id)
            entry = shard.entries.get(transactional_id)
            if entry is not None and entry.pending is not None:
                raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{entry.pending.state.value} is not durable yet")
            try:
                step = decide(None if entry is None else entry.current, fresh_id)
            except ProducerIdNeeded:
                # Another request may change the id's state meanwhile, so decide again.
                fresh_id = await self._ids.allocate()
                continue
            if step.written:
                await shard.put(step.transaction)
            if step.answer is not ErrorCode.NONE:
                raise ApiError(step.answer)
            return step.transaction

    async def _until_free(self, transactional_id: str) -> None:
        """Wait a short time for a pending write of an id, and for the markers of the transaction before."""
        end = self.clock.seconds() + PATIENCE_SECONDS
        while True:
            entry = self.shard_of(transactional_id).entries.get(transactional_id)
            left = end - self.clock.seconds()
            if entry is None or left <= 0:
                return
            if entry.pending is None and (entry.current is None or entry.current.state not in ENDING):
                return
            await entry.settled().addTimeout(left, self.clock, onTimeoutCancel=lambda result, seconds: None)

    def _decided(self, shard: TransactionShard, transaction: TransactionMetadata) -> None:
        """Send the markers of a transaction whose commit or abort is durable."""
        if transaction.state is TransactionState.PREPARE_COMMIT:
            self.metrics.committed += 1
        else:
            self.metrics.aborted += 1
        self.markers.send(shard, transaction)

    # Leadership.

    def _open(self, number: int, leader_epoch: int, replica: Replica) -> TransactionShard:
        timeout_ms = partial(self.config.get, keys.REQUEST_TIMEOUT_MS)
        log = StateLog(replica, self.clock, self.wall_ms, lambda: Codec.NONE, timeout_ms, self.slices)
        return TransactionShard(number, leader_epoch, log, self._decided)

    def stop(self) -> None:
        """See :meth:`.CoordinatorRuntime.stop`."""
        super().stop()
        self.markers.stop()

    def _give_up(self, shard: TransactionShard) -> None:
        self.markers.give_up(shard)

    async def _load(self, shard: TransactionShard) -> None:
        slice_bytes = self.config.get(keys.TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE)
        if not await load(shard, slice_bytes, self.clock, self.metrics, lambda: self._has(shard)):
            return
        # Complete the transactions whose end the former coordinator has decided.
        ending = [one.current for one in shard.entries.values() if one.current and one.current.state in ENDING]
        shard.loading = False
        self.loaded(len(shard.entries))
        async for transaction in TimeSlice(self.slices).over(ending, UNITS_TO_SEND):
            if shard.closed:
                return
            self.markers.send(shard, transaction)


def _is_dying(entry: TransactionEntry) -> bool:
    return entry.pending is not None and entry.pending.state is TransactionState.DEAD
