"""Tests of :mod:`logbus.coordination.transactions.marker_channel_manager`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast
from unittest.mock import patch
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.cluster_metadata import BrokerImage, ClusterMetadata, PartitionImage
from logbus.cluster.metadata_update import MetadataUpdate, PartitionState
from logbus.cluster.metadata_update_receiver import STATES_SHOWN, MetadataUpdateReceiver
from logbus.coordination.transactions.end_transaction_marker import EndTransactionMarker
from logbus.coordination.transactions.marker_channel_manager import PARTITIONS_AT_A_TIME, MarkerChannelManager
from logbus.coordination.transactions.pending_complete_txn import FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS
from logbus.coordination.transactions.transaction_metadata import TransactionMetadata
from logbus.coordination.transactions.transaction_shard import TransactionEntry
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.coordination.transactions.txn_marker_queue import (
    CONNECTIONS_PER_BROKER,
    MAX_PARTITIONS_PER_REQUEST,
    MAX_TRANSACTIONS_PER_REQUEST,
)
from logbus.errors import ApiError, ErrorCode
from logbus.model import TRANSACTIONS_TOPIC, LeaderAndIsr, TopicPartition
from logbus.timers import Timers
from logbus.wire.messages.partitions import PartitionErrorCode, TopicErrorCodes
from logbus.wire.messages.transactions import (
    WritableTxnMarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.cluster.control_plane import RecordingHost

ME, OTHER, THIRD = 0, 1, 2
E = ErrorCode


@define(eq=False)
class SentRequest:
    """A request to another broker."""

    broker_id: int
    message: WriteTxnMarkersRequest
    answer: Deferred[Any]

    @property
    def partitions(self) -> list[tuple[int, str, int]]:
        return [
            (marker.producer_id, topic.name, number)
            for marker in self.message.markers
            for topic in marker.topics
            for number in topic.partition_indexes
        ]

    def reply(self, codes: Mapping[tuple[str, int], ErrorCode] | ErrorCode = E.NONE) -> None:
        """One code for all, or one for each partition; those that are not given are not in the answer."""
        markers = [
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    TopicErrorCodes(
                        name=topic.name,
                        partitions=[
                            PartitionErrorCode(partition_index=number, error_code=code)
                            for number in topic.partition_indexes
                            if (code := codes if isinstance(codes, E) else codes.get((topic.name, number))) is not None
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in self.message.markers
        ]
        self.answer.callback(WriteTxnMarkersResponse(markers=markers))


@define(eq=False)
class World:
    """Fakes of the other brokers, the local leader, and the shard."""

    asked: list[SentRequest] = field(factory=list)
    written: list[tuple[EndTransactionMarker, list[TopicPartition]]] = field(factory=list)
    local: dict[TopicPartition, ErrorCode] = field(factory=dict)
    away: set[int] = field(factory=set)
    put_states: list[TransactionMetadata] = field(factory=list)
    problem: ApiError | None = None
    # of the shard
    epoch: int = 3
    closed: bool = False
    entries: dict[str, TransactionEntry] = field(factory=dict)

    def broker(self, broker_id: int) -> Any:
        if broker_id in self.away:
            raise ApiError(E.BROKER_NOT_AVAILABLE)
        return broker_id

    def request(self, broker_id: int, message: Any, purpose: str) -> Deferred[Any]:
        answer: Deferred[Any] = Deferred()
        self.asked.append(SentRequest(broker_id, message, answer))
        return answer

    def write(self, ending: EndTransactionMarker, partitions: Sequence[TopicPartition]) -> Deferred[Any]:
        self.written.append((ending, sorted(partitions)))
        return succeed({one: self.local.get(one, E.NONE) for one in partitions})

    @property
    def log(self) -> Any:
        return self

    @property
    def replica(self) -> Any:
        return self

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(TRANSACTIONS_TOPIC, 0)

    def put(self, transaction: TransactionMetadata) -> Deferred[None]:
        if self.problem is not None:
            return fail(self.problem)
        self.put_states.append(transaction)
        self.entries[transaction.transactional_id].current = transaction
        return succeed(None)


class MarkerCase(SynchronousTestCase):
    """This broker coordinates; ``t`` has partitions led by it, by two others, and by nobody."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.world = cast(Any, World())
        self.metadata = ClusterMetadata("c")
        with self.metadata.changing() as metadata:
            metadata.set_brokers({number: BrokerImage(number, {}) for number in (ME, OTHER, THIRD)})
        self.lead("t", [ME, OTHER, THIRD, -1])
        self.lead(TRANSACTIONS_TOPIC, [ME], 3)
        self.sender = MarkerChannelManager(ME, self.metadata, self.world, self.world, Timers(self.clock), lambda: 5000)

    def lead(self, topic: str, leaders: Sequence[int], epoch: int = 0) -> None:
        images = [PartitionImage((0, 1, 2), LeaderAndIsr(leader, epoch, (0, 1, 2))) for leader in leaders]
        with self.metadata.changing() as metadata:
            metadata.set_partitions(topic, UUID(int=len(topic)), list(enumerate(images)))

    def ending(self, *numbers: int, name: str = "x", commit: bool = True, producer_id: int = 7) -> TransactionMetadata:
        """A transaction whose end is decided, and whose markers are sent."""
        transaction = TransactionMetadata(
            name,
            producer_id,
            4,
            60_000,
            TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            frozenset(TopicPartition("t", number) for number in numbers),
            started_ms=1000,
            client_version=2,
        )
        self.world.entries[name] = TransactionEntry(transaction)
        self.sender.send(self.world, transaction)
        self.clock.advance(0)
        return transaction

    @contextmanager
    def clock_stopped(self) -> Iterator[None]:
        """No other turn of the reactor comes."""
        with patch.object(self.clock, "advance"):
            yield

    @property
    def done(self) -> list[TransactionState]:
        return [transaction.state for transaction in self.world.put_states]

    def others(self) -> list[SentRequest]:
        """The requests to other brokers since the last call."""
        asked: list[SentRequest] = self.world.asked
        self.world.asked = []
        return asked


class DeliveryTests(MarkerCase):
    """Routing and batching of markers."""

    def test_local_and_remote_markers(self) -> None:
        """Each leader gets the markers of its partitions; when all have them, the end is written, once."""
        self.ending(0, 1, 2)
        ending = EndTransactionMarker(7, 4, True, 3, 2)
        self.assertEqual(self.world.written, [(ending, [TopicPartition("t", 0)])])
        first, second = sorted(self.others(), key=lambda asked: asked.broker_id)
        self.assertEqual((first.broker_id, first.partitions), (OTHER, [(7, "t", 1)]))
        self.assertEqual((second.broker_id, second.partitions), (THIRD, [(7, "t", 2)]))
        (marker,) = first.message.markers
        self.assertEqual(
            (marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch, marker.transaction_version),
            (4, True, 3, 2),
        )
        self.assertEqual((self.sender.transactions, self.sender.partitions), (1, 2))
        first.reply()
        self.assertEqual(self.done, [])
        second.reply()
        self.assertEqual(self.done, [TransactionState.COMPLETE_COMMIT])
        self.assertEqual((self.sender.transactions, self.sender.partitions), (0, 0))

    def test_no_partitions(self) -> None:
        """A transaction without partitions, or with deleted ones only, completes at once."""
        self.ending(commit=False)
        self.ending(8, 9, name="y")
        self.assertEqual(self.done, [TransactionState.COMPLETE_ABORT, TransactionState.COMPLETE_COMMIT])

    def test_batches(self) -> None:
        """While the ways to a broker are busy, what comes meanwhile waits, and then goes together."""
        for n in range(CONNECTIONS_PER_BROKER + 10):
            self.ending(1, name=f"x{n}", producer_id=n)
        busy = self.others()
        self.assertEqual(len(busy), CONNECTIONS_PER_BROKER)
        busy[0].reply()
        (together,) = self.others()
        self.assertEqual(len(together.partitions), 10)
        for one in (*busy[1:], together):
            one.reply()
        self.assertEqual(len(self.done), CONNECTIONS_PER_BROKER + 10)

    def test_large_transactions(self) -> None:
        """No request names more than so many partitions."""
        count = 2 * MAX_PARTITIONS_PER_REQUEST + 1
        self.lead("t", [OTHER] * count)
        self.ending(*range(count))
        asked = self.others()
        self.assertEqual(
            sorted(len(one.partitions) for one in asked), [1, MAX_PARTITIONS_PER_REQUEST, MAX_PARTITIONS_PER_REQUEST]
        )

    def test_many_transactions(self) -> None:
        """No request names more than so many transactions: its response completes them in one turn."""
        for n in range(CONNECTIONS_PER_BROKER + MAX_TRANSACTIONS_PER_REQUEST + 1):
            self.ending(1, name=f"x{n}", producer_id=n)
        for one in self.others():
            one.reply()
        sizes = [len(one.message.markers) for one in self.others()]
        self.assertEqual(sizes, [MAX_TRANSACTIONS_PER_REQUEST, 1])

    def test_many_partitions_here(self) -> None:
        """Markers of many partitions are written here in several turns, unless the shard moves away meanwhile."""
        count = 2 * PARTITIONS_AT_A_TIME + 1
        self.lead("t", [ME] * count)
        for name, is_over in (("x", False), ("y", True)):
            self.world.written.clear()
            with self.clock_stopped():
                self.ending(*range(count), name=name)
            self.assertEqual([len(some) for _, some in self.world.written], [PARTITIONS_AT_A_TIME])
            if is_over:
                self.sender.give_up(self.world)
            self.clock.pump([0, 0])
            sizes = [PARTITIONS_AT_A_TIME] if is_over else [PARTITIONS_AT_A_TIME, PARTITIONS_AT_A_TIME, 1]
            self.assertEqual([len(some) for _, some in self.world.written], sizes)
        self.assertEqual(self.done, [TransactionState.COMPLETE_COMMIT])

    def test_many_wait_for_a_leader(self) -> None:
        """When a partition gets a leader, the transactions that wait for it get turns of their own."""
        for n in range(3):
            self.ending(3, name=f"x{n}", producer_id=n)
        self.lead("t", [ME] * 4)
        self.assertEqual(self.world.written, [])
        self.clock.advance(0)
        self.assertEqual(len(self.world.written), 3)
        self.assertEqual(len(self.done), 3)


class AgainTests(MarkerCase):
    """Retries."""

    def test_every_retriable_outcome(self) -> None:
        """Failed markers are sent again after a growing, limited pause."""
        self.ending(1)
        pause = FIRST_RETRY_SECONDS
        for code in (
            E.NOT_LEADER_OR_FOLLOWER,
            E.UNKNOWN_TOPIC_OR_PARTITION,
            E.NOT_ENOUGH_REPLICAS,
            E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            E.REQUEST_TIMED_OUT,
            E.KAFKA_STORAGE_ERROR,
            E.UNKNOWN_SERVER_ERROR,
        ):
            (asked,) = self.others()
            asked.reply(code)
            self.clock.advance(pause * 0.99)
            self.assertEqual(self.others(), [])
            self.clock.advance(pause * 0.02)
            pause = min(2 * pause, MAX_RETRY_SECONDS)
        (asked,) = self.others()
        asked.answer.errback(ApiError(E.NETWORK_EXCEPTION))
        self.clock.advance(MAX_RETRY_SECONDS)
        (asked,) = self.others()
        asked.answer.errback(ValueError("a bug"))
        self.clock.advance(MAX_RETRY_SECONDS)
        (asked,) = self.others()
        asked.reply({})  # Nothing is said of it.
        self.clock.advance(MAX_RETRY_SECONDS)
        (asked,) = self.others()
        asked.reply()
        self.assertEqual(self.done, [TransactionState.COMPLETE_COMMIT])

    def test_only_failed_partitions_are_retried(self) -> None:
        """Partitions with a marker get no further request."""
        self.lead("t", [OTHER, OTHER, OTHER, -1])
        self.ending(0, 1, 2)
        (asked,) = self.others()
        asked.reply({("t", 0): E.NONE, ("t", 1): E.NOT_LEADER_OR_FOLLOWER, ("t", 2): E.NONE})
        self.lead("t", [OTHER, ME, OTHER, -1])
        self.clock.advance(0)
        self.assertEqual(self.others(), [])
        self.assertEqual([some for _, some in self.world.written], [[TopicPartition("t", 1)]])
        self.assertEqual(self.done, [TransactionState.COMPLETE_COMMIT])

    def test_partition_without_a_leader(self) -> None:
        """A new leader of a partition without one gets the request at once, regardless of the pause."""
        self.ending(3)
        self.clock.advance(100)
        self.assertEqual((self.others(), self.done), ([], []))
        self.lead("t", [ME, OTHER, THIRD, THIRD])
        self.clock.advance(0)
        (asked,) = self.others()
        asked.reply()
        self.assertEqual(self.done, [TransactionState.COMPLETE_COMMIT])

    def test_unreachable_broker(self) -> None:
        """A broker gets the request when it is back."""
        self.world.away = {OTHER}
        self.ending(1)
        self.clock.advance(10)
        self.assertEqual(self.others(), [])
        self.world.away = set()
        self.clock.advance(MAX_RETRY_SECONDS)
        (asked,) = self.others()
        asked.reply()
        self.assertEqual(self.done, [TransactionState.COMPLETE_COMMIT])

    def test_deleted_topic(self) -> None:
        """The transaction does not wait for a partition that is deleted."""
        self.ending(3)
        with self.metadata.changing() as metadata:
            metadata.remove_topic("t")
        self.clock.advance(0)
        self.assertEqual(self.done, [TransactionState.COMPLETE_COMMIT])

    def test_incomplete_metadata(self) -> None:
        """A new leader may not have all topics yet: a topic missing there does not count as deleted."""
        with self.metadata.changing() as metadata:
            metadata.remove_topic("t")
        self.lead(TRANSACTIONS_TOPIC, [OTHER], 2)
        self.ending(0)
        self.lead(TRANSACTIONS_TOPIC, [ME], 2)
        self.clock.advance(5)
        self.assertEqual(self.done, [])
        with self.metadata.changing():
            self.lead_within("t", [ME])
            self.lead_within(TRANSACTIONS_TOPIC, [ME], 3)
        self.clock.advance(0)
        self.assertEqual([some for _, some in self.world.written], [[TopicPartition("t", 0)]])
        self.assertEqual(self.done, [TransactionState.COMPLETE_COMMIT])

    def lead_within(self, topic: str, leaders: Sequence[int], epoch: int = 0) -> None:
        images = [PartitionImage((0, 1, 2), LeaderAndIsr(leader, epoch, (0, 1, 2))) for leader in leaders]
        self.metadata.set_partitions(topic, UUID(int=len(topic)), list(enumerate(images)))

    def test_metadata_in_parts(self) -> None:
        """A starting broker shows very many partitions in parts; a topic of a later part does not count as deleted."""
        with self.metadata.changing() as metadata:
            metadata.remove_topic("t")
            metadata.remove_topic(TRANSACTIONS_TOPIC)
        self.ending(0)
        leads = LeaderAndIsr(ME, 3, (ME,))
        names = [TRANSACTIONS_TOPIC, *(f"s{number}" for number in range(STATES_SHOWN)), "t"]
        states = (PartitionState(TopicPartition(name, 0), UUID(int=9), (ME,), leads) for name in names)
        receiver = MetadataUpdateReceiver(ME, self.metadata, RecordingHost(), lambda: 1, lambda configs: None)
        self.successResultOf(receiver.apply(MetadataUpdate(ME, 1, 1, partitions=tuple(states), full=True)))
        self.clock.advance(0)
        self.assertEqual([some for _, some in self.world.written], [[TopicPartition("t", 0)]])
        self.assertEqual(self.done, [TransactionState.COMPLETE_COMMIT])

    def test_the_end_cannot_be_written(self) -> None:
        """The completion is retried until it is written, without sending markers again."""
        self.world.problem = ApiError(E.COORDINATOR_NOT_AVAILABLE)
        self.ending(1)
        (asked,) = self.others()
        asked.reply()
        self.clock.advance(5)
        self.assertEqual((self.done, self.others()), ([], []))
        self.world.problem = None
        self.clock.advance(MAX_RETRY_SECONDS)
        self.assertEqual((self.done, self.others()), ([TransactionState.COMPLETE_COMMIT], []))


class OverTests(MarkerCase):
    """Completion, and dropped transactions."""

    def test_a_newer_coordinator(self) -> None:
        """A replaced coordinator sends and writes nothing."""
        self.ending(0, 1, 3)
        (asked,) = self.others()
        asked.reply(E.TRANSACTION_COORDINATOR_FENCED)
        self.lead("t", [OTHER] * 4)
        self.clock.advance(100)
        self.assertEqual((self.others(), self.done, self.sender.transactions), ([], [], 0))

    def test_a_newer_producer(self) -> None:
        """A partition that its producer came back to with a newer epoch has this transaction behind it."""
        self.world.local = {TopicPartition("t", 0): E.INVALID_PRODUCER_EPOCH}
        self.ending(0)
        self.assertEqual(self.done, [TransactionState.COMPLETE_COMMIT])

    def test_another_broker_takes_over(self) -> None:
        """Nothing is sent for a shard that was given up; answers that come later change nothing."""
        self.ending(1, 3)
        (asked,) = self.others()
        self.world.closed = True
        self.sender.give_up(self.world)
        asked.reply()
        self.lead("t", [OTHER] * 4)
        self.clock.advance(100)
        self.assertEqual((self.others(), self.done, self.sender.transactions), ([], [], 0))

    def test_deposed_at_the_end(self) -> None:
        """The completion cannot be written, as another broker leads: it is left to that one."""
        self.world.problem = ApiError(E.NOT_COORDINATOR)
        self.ending(1)
        (asked,) = self.others()
        self.world.closed = True
        asked.reply()
        self.clock.advance(100)
        self.assertEqual((self.done, self.sender.transactions), ([], 0))

    def test_stop(self) -> None:
        """A broker that stops leaves the rest to the next coordinator."""
        for number in (1, 3):
            self.ending(number, name=f"x{number}")
        self.sender.stop()
        self.clock.advance(100)
        self.assertEqual((len(self.others()), self.done, self.sender.transactions), (1, [], 0))
