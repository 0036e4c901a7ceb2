"""
The transaction coordinator (Kafka: TransactionCoordinator, TransactionStateManager): this broker's transactional ids.

There is one shard for each partition of ``__transaction_state`` that this broker leads. A change is written first, and
takes effect when it is durable. After a decision to commit or abort, the markers are sent, and then the completion is
written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.icluster import ILeadershipListener
from logbus.cluster.producer_id_manager import ProducerIdManager
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.config import ConfigView, keys
from logbus.coordination.coordinator_partition import partition_for
from logbus.coordination.limit import Limit
from logbus.coordination.state_log import StateLog
from logbus.coordination.transactions import state_machine
from logbus.coordination.transactions.marker_channel_manager import MarkerChannelManager
from logbus.coordination.transactions.state_machine import ProducerIdNeeded, Transition
from logbus.coordination.transactions.transaction_loader import TransactionCoordinatorMetrics, load
from logbus.coordination.transactions.transaction_metadata import V1, V2, ProducerIdAndEpoch, TransactionMetadata
from logbus.coordination.transactions.transaction_shard import TransactionEntry, TransactionShard
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.records.compression import Codec

TRANSACTIONS_TOPIC = "__transaction_state"

PATIENCE_SECONDS = 0.1
"""How long a request to add partitions waits for a pending write of the same transaction."""

Decide = Callable[[TransactionMetadata | None, int | None], Transition]
"""Takes the durable state of an id, and a new producer id if there is one."""


@implementer(ILeadershipListener)
@define(eq=False, repr=False)
class TransactionCoordinator:
    """
    All transactional ids that this broker coordinates.

    Every method may raise COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS, and
    CONCURRENT_TRANSACTIONS while another change of the same id is not durable yet; all of these can be retried.

    :param wall_ms: ms since 1970.
    :ivar markers: sends the markers.
    :ivar shards: by partition of the internal topic.
    """

    _replicas: ReplicaManager
    _metadata: ClusterMetadata
    _ids: ProducerIdManager
    markers: MarkerChannelManager
    config: ConfigView
    clock: IReactorTime
    wall_ms: Callable[[], int]
    shards: dict[int, TransactionShard] = field(factory=dict, init=False)
    metrics: TransactionCoordinatorMetrics = field(factory=TransactionCoordinatorMetrics, init=False)
    _stopped: bool = field(default=False, init=False)
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

    def partition_of(self, transactional_id: str) -> int:
        """The partition of an id; if the topic does not exist yet, the configured number of partitions counts."""
        topic = self._metadata.topic(TRANSACTIONS_TOPIC)
        count = (
            len(topic.partitions) if topic is not None else self.config.get(keys.TRANSACTION_STATE_LOG_NUM_PARTITIONS)
        )
        return partition_for(transactional_id, count)

    def shard_of(self, transactional_id: str) -> TransactionShard:
        """
        The shard that a transactional id is in, or would be.

        :raise ApiError: INVALID_REQUEST (no id), COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
            COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a transactional id has at least one character")
        if self._stopped:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is stopping")
        number = self.partition_of(transactional_id)
        shard = self.shards.get(number)
        if shard is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR, f"{TRANSACTIONS_TOPIC}-{number} is not led by this broker")
        if shard.loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{TRANSACTIONS_TOPIC}-{number} is being read")
        return shard

    @property
    def loading(self) -> bool:
        """Whether some shards are still being loaded."""
        return any(shard.loading for shard in self.shards.values())

    def active_shards(self) -> Iterator[TransactionShard]:
        """The loaded shards."""
        return (shard for shard in list(self.shards.values()) if not shard.loading)

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
            return state_machine.init_producer_id(now, transactional_id, timeout_ms, expected, fresh_id, self.wall_ms())

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

        return state_machine.producer_after(await self._carry_out(transactional_id, decide))

    def time_out(self, transactional_id: str) -> Deferred[TransactionMetadata]:
        """
        Abort a transaction if it has exceeded its timeout.

        :raise ApiError: as :meth:`shard_of`.
        """

        def decide(now: TransactionMetadata | None, fresh_id: int | None) -> Transition:
            now_ms = self.wall_ms()
            if now is None or not state_machine.has_timed_out(now, now_ms):
                raise ApiError(ErrorCode.INVALID_TXN_STATE, "there is no transaction that took too long")
            return state_machine.abort_timed_out(now, fresh_id, now_ms)

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
            if entry.pending is None and (entry.current is None or entry.current.state not in state_machine.ENDING):
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

    def leads(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """See :meth:`.ILeadershipListener.leads`."""
        if topic_partition.topic != TRANSACTIONS_TOPIC or self._stopped:
            return
        log = StateLog(
            self._replicas.get(*topic_partition),
            self.clock,
            self.wall_ms,
            lambda: Codec.NONE,
            lambda: self.config.get(keys.REQUEST_TIMEOUT_MS),
        )
        number = topic_partition.partition
        shard = self.shards[number] = TransactionShard(number, leader_epoch, log, self._decided)
        loading = Deferred.fromCoroutine(self._load(shard))
        loading.addErrback(
            lambda failure: self._log.failure("{partition} cannot be loaded", failure, partition=topic_partition)
        )

    def leads_no_more(self, topic_partition: TopicPartition) -> None:
        """See :meth:`.ILeadershipListener.leads_no_more`."""
        if topic_partition.topic == TRANSACTIONS_TOPIC:
            self._resign(topic_partition.partition)

    def stop(self) -> None:
        """Refuse requests from now on: the broker is stopping."""
        self._stopped = True
        for number in list(self.shards):
            self._resign(number)
        self.markers.stop()

    def _resign(self, number: int) -> None:
        shard = self.shards.pop(number, None)
        if shard is not None:
            shard.closed = True
            self.markers.give_up(shard)

    async def _load(self, shard: TransactionShard) -> None:
        slice_bytes = self.config.get(keys.TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE)
        if not await load(shard, slice_bytes, self.clock, self.metrics, lambda: not shard.closed):
            return
        shard.loading = False
        for entry in list(shard.entries.values()):
            # Complete the transactions whose end the former coordinator has decided.
            if entry.current is not None and entry.current.state in state_machine.ENDING:
                self.markers.send(shard, entry.current)


def _is_dying(entry: TransactionEntry) -> bool:
    return entry.pending is not None and entry.pending.state is TransactionState.DEAD
