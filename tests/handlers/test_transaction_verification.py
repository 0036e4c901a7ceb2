"""Transactional batches are written when the coordinator has confirmed their partition, in their producer's order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from logbus.config import ConfigView
from logbus.coordination.transactions.add_partitions_to_txn_manager import RetryBackoff
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.handlers import transaction_verification
from logbus.handlers.produce import ProduceHandlers
from logbus.handlers.transaction_verification import producer_error
from logbus.model import TopicPartition
from logbus.records.batch import ControlType, Marker
from logbus.storage.log import Log
from logbus.wire.messages.records import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.handlers.kit import NOW_MS, Client, HandlerCase, MemoryBroker, a_batch, produce_request
from tests.net.fakes import iterate

BACKOFF, LONGEST_BACKOFF = 0.02, 2.0

Answers = Mapping[TopicPartition, ErrorCode]


class Coordinator:
    """
    Answers when it is told to.

    :ivar asked: what it was asked, without the partitions; ``partitions``: those, and where the answer goes.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int, bool]] = []
        self.partitions: list[tuple[list[TopicPartition], Deferred[Answers]]] = []
        self.at_once: ErrorCode | None = None

    def add_or_verify(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Collection[TopicPartition], add: bool
    ) -> Deferred[Answers]:
        self.asked.append((transactional_id, producer_id, epoch, add))
        if self.at_once is not None:
            return succeed(dict.fromkeys(partitions, self.at_once))
        answer: Deferred[Answers] = Deferred()
        self.partitions.append((list(partitions), answer))
        return answer

    def answer(self, code: ErrorCode = ErrorCode.NONE, **others: ErrorCode) -> None:
        """Answer the oldest question; for single partitions otherwise, as in ``t_1=``."""
        partitions, answer = self.partitions.pop(0)
        answer.callback({p: others.get(f"{p.topic}_{p.partition}", code) for p in partitions})


def transactional(*values: bytes, producer_id: int = 7, epoch: int = 0, sequence: int = 0) -> bytes:
    return a_batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)


def in_transaction(
    *batches: tuple[int, bytes], acks: int = 1, transactional_id: str | None = "id", topic: str = "t"
) -> ProduceRequest:
    """A request for partitions of a topic."""
    data = [PartitionProduceData(index=index, records=records) for index, records in batches]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )


class ParticipationCase(HandlerCase):
    """A broker whose coordinator of transactions is elsewhere."""

    def setUp(self) -> None:
        super().setUp()
        self.coordinator = Coordinator()
        verification = self.server.broker.kafka_server.router.find(ProduceHandlers).verification
        assert verification is not None
        self.verification = verification
        verification._verifier = self.coordinator

    def end(self, index: int = 0) -> int:
        log = self.server.broker.replication.replicas.get("t", index).log
        return log.log_end_offset

    def marker(self, epoch: int = 0, producer_id: int = 7) -> None:
        replica = self.server.broker.replication.replicas.get("t", 0)
        replica.append_marker(producer_id, epoch, Marker(ControlType.ABORT, 1), NOW_MS, 1)

    def send(self, *data: bytes, version: int = 12, client: Client | None = None, **given: Any) -> None:
        for records in data:
            (client or self.client).send(produce_request(records, transactional_id="id", **given), version)

    def results(self, client: Client | None = None) -> list[tuple[int, int]]:
        """Error code and base offset of each partition of all answers that came."""
        return [
            (partition.error_code, partition.base_offset)
            for answer in (client or self.client).answers()
            for partition in answer.responses[0].partition_responses
        ]


class VerificationTests(ParticipationCase):
    """Requests to the coordinator."""

    def test_added_or_verified(self) -> None:
        """From version 12 on a partition is added by its first batch; before, it is only looked whether it was."""
        for n, (version, add) in enumerate(((12, True), (13, True), (11, False), (3, False))):
            batch = transactional(b"v", producer_id=100 + n)
            if version < 13:
                self.send(batch, version=version)
            else:
                request = in_transaction((0, batch))
                request.topic_data[0].topic_id = self.server.topic_id()
                self.client.send(request, version)
            self.assertEqual(self.coordinator.asked.pop(), ("id", 100 + n, 0, add))
            self.assertEqual((self.end(), self.results()), (n, []))
            self.coordinator.answer()
            self.assertEqual(self.results(), [(0, n)])

    def test_once_a_transaction(self) -> None:
        """An open transaction needs no verification; after its marker, and in a new epoch, the next one does."""
        self.send(transactional(b"a"))
        self.coordinator.answer()
        self.send(transactional(b"b", sequence=1), transactional(b"c", sequence=2))
        self.assertEqual(self.results(), [(0, 0), (0, 1), (0, 2)])
        self.marker()
        self.send(transactional(b"d", sequence=3))
        self.assertEqual(self.results(), [])
        self.coordinator.answer()
        self.assertEqual(self.results(), [(0, 4)])
        self.send(transactional(b"e", epoch=1))
        self.coordinator.answer()
        self.assertEqual((self.results(), len(self.coordinator.asked)), ([(0, 5)], 3))

    def test_one_request_for_all_partitions(self) -> None:
        """All partitions of a request are asked about at once, each gets its own answer, and is written by it."""
        self.client.send(in_transaction((0, transactional(b"a")), (1, transactional(b"b"))), 12)
        self.assertEqual(len(self.coordinator.partitions[0][0]), 2)
        self.coordinator.answer(t_1=ErrorCode.TRANSACTION_ABORTABLE)
        self.assertEqual(self.results(), [(0, 0), (ErrorCode.TRANSACTION_ABORTABLE, -1)])
        self.assertEqual((self.end(0), self.end(1)), (1, 0))

    def test_immediate_result(self) -> None:
        """A coordinator in the same process may answer at once."""
        self.coordinator.at_once = ErrorCode.NONE
        self.send(transactional(b"a"), transactional(b"b", sequence=1))
        self.assertEqual(self.results(), [(0, 0), (0, 1)])
        self.assertEqual(len(self.coordinator.asked), 1)

    def test_verification_may_be_off(self) -> None:
        """Without verification older clients cause no request; partitions of newer ones are still added."""
        self.server.broker.config.update(cluster={"transaction.partition.verification.enable": "false"})
        self.send(transactional(b"a"), version=11)
        self.assertEqual((self.results(), self.coordinator.asked), ([(0, 0)], []))
        self.send(transactional(b"b", producer_id=8), version=12)
        self.coordinator.answer()
        self.assertEqual((self.results(), len(self.coordinator.asked)), ([(0, 1)], 1))

    def test_elsewhere(self) -> None:
        """A partition that is not here is refused without anybody being asked."""
        self.assertEqual(
            self.client.produce(transactional(b"a"), "unknown", version=12, transactional_id="id").error_code,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
        self.assertEqual(self.coordinator.asked, [])

    def test_unreadable_log(self) -> None:
        """Without the producer state there is nothing to verify: the partition gets an error."""

        def broken(log: Any) -> None:
            raise StorageError("the disk is gone")

        self.patch(Log, "producers", property(broken))
        self.send(transactional(b"a"))
        self.assertEqual((self.results(), self.coordinator.asked), ([(ErrorCode.KAFKA_STORAGE_ERROR, -1)], []))

    def test_acks(self) -> None:
        """With acks=0 there is no response, or the connection closes; acks=all is answered as usual."""
        self.client.send(
            produce_request(transactional(b"a"), acks=0, transactional_id="id"), 12, expects_response=False
        )
        self.coordinator.answer()
        self.send(transactional(b"b", sequence=1), acks=-1)
        self.assertEqual((self.results(), self.end()), ([(0, 1)], 2))
        self.client.send(
            produce_request(transactional(b"a", epoch=1), acks=0, transactional_id="id"), 12, expects_response=False
        )
        self.coordinator.answer(ErrorCode.INVALID_TXN_STATE)
        self.assertTrue(self.client.closed)
        self.assertEqual(self.end(), 2)


class ManyPartitionsTests(ParticipationCase):
    """Requests of so many batches that others are served in between."""

    COUNT = 6_000

    def many(self, client: Client) -> None:
        """Send a request for all partitions of a topic, and for the first one very often."""
        batches = [(index, transactional(b"v")) for index in range(300)]
        again = [(0, transactional(b"v", sequence=1))] * (self.COUNT - 300)
        client.send(in_transaction(*batches, *again, topic="wide"), 12)

    def written(self) -> int:
        """The number of partitions with records."""
        return sum(self.server.broker.replication.replicas.get("wide", n).log.log_end_offset > 0 for n in range(300))

    def test_writes_in_slices(self) -> None:
        """
        They enter batch by batch. Once the coordinator has answered, some are written at a time; where a marker comes
        before it is a partition's turn, the coordinator is asked again.
        """
        self.server.create("wide", 300)
        scheduler = self.server.broker.env.slice_scheduler
        before = scheduler.slices
        self.many(self.client)
        for _ in range(50):
            iterate(self.server.reactor)
        # Decoding takes two, appending five, and entering, of two looks at each batch, another five.
        self.assertGreaterEqual(scheduler.slices - before, 10)
        ((partitions, _),) = self.coordinator.partitions
        self.assertEqual((len(partitions), self.written()), (300, 0))
        self.coordinator.answer()
        first = self.written()
        self.assertTrue(0 < first < 100, first)
        late = self.server.broker.replication.replicas.get("wide", 299)
        late.append_marker(7, 0, Marker(ControlType.ABORT, 1), NOW_MS, 1)
        for _ in range(5):
            iterate(self.server.reactor)
        self.assertEqual(self.written(), 300)
        self.assertEqual(late.log.log_end_offset, 1)
        ((partitions, _),) = self.coordinator.partitions
        self.assertEqual(partitions, [TopicPartition("wide", 299)])
        self.coordinator.answer()
        self.assertEqual((late.log.log_end_offset, self.verification.waiting_bytes), (2, 0))
        for _ in range(50):
            iterate(self.server.reactor)
        (answer,) = self.client.answers()
        codes = [one.error_code for one in answer.responses[0].partition_responses]
        self.assertEqual((len(codes), set(codes[:300])), (self.COUNT, {0}))

    def test_disconnected_client(self) -> None:
        """It leaves no batch in the queue, at any stage; batches queued behind it are verified."""
        self.server.create("wide", 300)
        for turns in range(12):
            client = self.server.connect()
            self.many(client)
            for _ in range(turns):
                iterate(self.server.reactor)
            client.transport.loseConnection()
            for _ in range(20):
                iterate(self.server.reactor)
            self.assertEqual(self.verification.waiting_bytes, 0)
            while self.coordinator.partitions:
                self.coordinator.answer()
                for _ in range(5):
                    iterate(self.server.reactor)
            self.assertEqual((self.verification._queues, self.written()), ({}, 0))


class TransactionalFlagTests(ParticipationCase):
    """Transactional flags of requests and batches."""

    def test_no_transactional_id(self) -> None:
        """
        What counts is the batch: of a request that names no transactional id none is written if one belongs to a
        transaction.
        """
        refused = (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)
        for version in (3, 9, 12):
            self.client.send(in_transaction((0, transactional(b"a")), transactional_id=None), version)
            self.client.send(in_transaction((0, a_batch()), (1, transactional(b"a")), transactional_id=None), version)
            self.assertEqual(self.results(), 3 * [refused])
        self.assertEqual((self.end(0), self.end(1), self.coordinator.asked), (0, 0, []))

    def test_no_transactional_id_in_a_run(self) -> None:
        """Neither is it among requests that are served together."""
        self.client.produce(a_batch())
        for data in (a_batch(), transactional(b"a"), a_batch()):
            self.client.send(produce_request(data), 9)
        refused = (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)
        self.assertEqual(self.results(), [(0, 1), refused, (0, 2)])

    def test_no_transaction(self) -> None:
        """A request may name a transactional id and bring batches that belong to none, as with Kafka."""
        self.send(a_batch(), a_batch(producer_id=7, producer_epoch=0, base_sequence=0))
        self.assertEqual((self.results(), self.coordinator.asked), ([(0, 0), (0, 1)], []))

    def test_outside_of_the_open_transaction(self) -> None:
        """But not while their producer has a transaction open there."""
        self.send(transactional(b"a"))
        self.coordinator.answer()
        self.send(a_batch(producer_id=7, producer_epoch=0, base_sequence=1))
        self.assertEqual(self.results(), [(0, 0), (ErrorCode.INVALID_TXN_STATE, -1)])

    def test_several_producers(self) -> None:
        """A request brings batches of one producer in one epoch."""
        for other in ({"producer_id": 8}, {"epoch": 1}):
            self.client.send(in_transaction((0, transactional(b"a")), (1, transactional(b"b", **other))), 12)
            self.assertEqual(self.results(), 2 * [(ErrorCode.INVALID_PRODUCER_ID_MAPPING, -1)])
        self.assertEqual(self.coordinator.asked, [])

    def test_damaged(self) -> None:
        """Batches too short to say anything, none at all, and such without a producer, are refused as ever."""
        nobody = bytearray(transactional(b"v"))
        nobody[43:51] = b"\xff" * 8
        for data in (b"", transactional(b"v")[:40], bytes(nobody), None):
            answer = self.client.ask(produce_request(data, transactional_id="id"), 12)
            self.assertNotEqual(answer.responses[0].partition_responses[0].error_code, 0)
        self.assertEqual(self.coordinator.asked, [])


class QueueOrderTests(ParticipationCase):
    """Order of batches while they wait."""

    def test_in_order(self) -> None:
        """Later batches of the producer to the partition wait behind the first, and are written in order with it."""
        self.send(*[transactional(b"%d" % n, sequence=n) for n in range(5)])
        self.assertEqual((len(self.coordinator.asked), self.end()), (1, 0))
        self.coordinator.answer()
        self.assertEqual(self.results(), [(0, n) for n in range(5)])

    def test_answered_together(self) -> None:
        """Batches written together are answered by one write, or at the end of the turn if others still wait."""
        carrier = self.client.protocol._frame_transport
        sent: list[Any] = []
        send = carrier.send
        self.patch(carrier, "send", lambda parts: (sent.append(parts), send(parts)))
        self.send(*[transactional(b"%d" % n, sequence=n) for n in range(5)])
        self.coordinator.answer()
        self.assertEqual((len(sent), len(self.results())), (1, 5))
        self.marker()
        self.send(*[transactional(b"%d" % n, epoch=1, sequence=n) for n in range(3)])
        self.send(transactional(b"a", producer_id=8), partition=1)
        self.coordinator.answer()
        self.assertEqual((len(sent), self.results()), (1, []))
        self.client.turn()
        self.assertEqual((len(sent), len(self.results())), (2, 3))
        self.coordinator.answer()
        self.assertEqual((len(sent), len(self.results())), (3, 1))

    def test_others_are_not_delayed(self) -> None:
        """Other producers, and other partitions of the same, are not held up."""
        self.send(transactional(b"a", producer_id=8), partition=1)
        self.coordinator.answer()
        self.send(transactional(b"a"))
        self.send(transactional(b"b", producer_id=8, sequence=1), partition=1)
        other = self.server.connect()
        other.send(produce_request(a_batch()), 9)
        self.assertEqual(self.results(other), [(0, 0)])
        self.assertEqual(self.end(1), 2)
        self.send(transactional(b"a"), partition=1)
        self.coordinator.partitions.reverse()
        self.coordinator.answer()
        self.assertEqual((self.end(0), self.end(1)), (1, 3))
        self.coordinator.answer()
        self.assertEqual(self.results(), [(0, 0), (0, 1), (0, 1), (0, 2)])

    def test_of_a_request_for_several(self) -> None:
        """A batch is written while another partition of its request waits, and is not overtaken."""
        self.send(transactional(b"a"))
        self.client.send(in_transaction((0, transactional(b"b", sequence=1)), (1, transactional(b"c"))), 12)
        self.send(transactional(b"d", sequence=2))
        self.coordinator.answer()
        self.client.turn()
        self.assertEqual((self.end(0), self.end(1), self.results()), (3, 0, [(0, 0)]))
        self.coordinator.answer()
        self.assertEqual(self.results(), [(0, 1), (0, 0), (0, 2)])

    def test_refused_together(self) -> None:
        """If the first may not be written, none behind it may; and what comes later must not begin in the middle."""
        for version in (11, 12):
            self.send(*[transactional(b"%d" % n, sequence=n) for n in range(3)], version=version)
            self.coordinator.answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self.assertEqual(self.results(), 3 * [(ErrorCode.NOT_ENOUGH_REPLICAS, -1)])
            self.send(transactional(b"3", sequence=3), version=version)
            self.coordinator.answer()
            self.assertEqual(self.results(), [(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)])
        self.send(*[transactional(b"%d" % n, sequence=n) for n in range(4)])
        self.coordinator.answer()
        self.assertEqual(self.results(), [(0, n) for n in range(4)])
        self.assertEqual(len(self.verification._lowest), 0)

    def test_unknown_to_the_log(self) -> None:
        """A producer that the log does not know may begin anywhere up to version 11, and at 0 from then on."""
        self.send(transactional(b"a", sequence=5), version=11)
        self.coordinator.answer()
        self.send(transactional(b"a", producer_id=8, sequence=5), version=12)
        self.coordinator.answer()
        self.assertEqual(self.results(), [(0, 0), (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)])

    def test_a_marker_in_between(self) -> None:
        """An answer from before the transaction's end does not count: the batch would belong to none."""
        self.send(transactional(b"a"))
        self.marker()
        self.coordinator.answer()
        self.assertEqual((self.results(), self.end()), ([], 1))
        self.coordinator.answer(ErrorCode.INVALID_TXN_STATE)
        self.assertEqual((self.results(), self.end()), ([(ErrorCode.INVALID_TXN_STATE, -1)], 1))

    def test_a_late_marker_in_between(self) -> None:
        """If the marker ended the transaction before this one, the coordinator says so when it is asked again."""
        self.send(transactional(b"a"), transactional(b"b", sequence=1))
        self.marker()
        self.coordinator.answer()
        self.coordinator.answer()
        self.assertEqual((self.results(), self.end()), ([(0, 1), (0, 2)], 3))

    def test_a_new_epoch_does_not_wait(self) -> None:
        """A new epoch of the producer does not wait for the old one, which is fenced by it."""
        self.send(transactional(b"a"))
        self.send(transactional(b"b", epoch=1))
        self.coordinator.partitions.reverse()
        self.coordinator.answer()
        self.coordinator.answer()
        self.assertEqual(self.results(), [(ErrorCode.INVALID_PRODUCER_EPOCH, -1), (0, 0)])

    def test_not_leader_any_more(self) -> None:
        """If the partition goes away meanwhile, that is the answer."""
        self.send(transactional(b"a"))
        self.server.now(self.server.broker.replication.replicas.remove([TopicPartition("t", 0)]))
        self.coordinator.answer()
        self.assertEqual(self.results(), [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)])

    def test_retry_after_a_disconnect(self) -> None:
        """A client that disconnects leaves the queue; its retry uses the result of the first request."""
        self.send(transactional(b"a"), transactional(b"b", sequence=1))
        self.client.protocol.transport.loseConnection()
        self.assertEqual(self.verification.waiting_bytes, 0)
        again = self.server.connect()
        self.send(transactional(b"a"), transactional(b"b", sequence=1), client=again)
        self.assertEqual(len(self.coordinator.asked), 1)
        self.coordinator.answer()
        self.assertEqual((self.results(again), self.end(), self.verification.waiting_bytes), ([(0, 0), (0, 1)], 2, 0))
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_hung_up_with_some_written(self) -> None:
        """Written batches stay when the client disconnects before the others are written."""
        self.send(transactional(b"a"))
        self.coordinator.answer()
        self.client.send(in_transaction((0, transactional(b"b", sequence=1)), (1, transactional(b"c"))), 12)
        self.client.protocol.transport.loseConnection()
        self.coordinator.answer()
        self.assertEqual((self.end(0), self.end(1)), (2, 0))
        self.assertEqual(self.flushLoggedErrors(), [])


class QueueLimitTests(ParticipationCase):
    """Limits of waiting batches."""

    def test_in_line(self) -> None:
        """A queue has a limit, beyond which clients must retry."""
        self.patch(transaction_verification, "MAX_QUEUED_BATCHES", 3)
        self.send(*[transactional(b"%d" % n, sequence=n) for n in range(5)])
        self.coordinator.answer()
        self.assertEqual(self.results(), [(0, 0), (0, 1), (0, 2), *2 * [(ErrorCode.NOT_ENOUGH_REPLICAS, -1)]])

    def test_bytes(self) -> None:
        """So has the memory for batches that wait; before, each connection has one request waiting at most."""
        size = len(transactional(b"0"))
        self.patch(transaction_verification, "MAX_WAITING_BYTES", 3 * size)
        self.patch(transaction_verification, "CROWDED_BYTES", 2 * size)
        clients = [self.server.connect() for _ in range(4)]
        for n, client in enumerate(clients):
            self.send(transactional(b"0", producer_id=n), transactional(b"1", producer_id=n, sequence=1), client=client)
        self.assertEqual(self.verification.waiting_bytes, 3 * size)
        self.coordinator.at_once = ErrorCode.NONE
        while self.coordinator.partitions:
            self.coordinator.answer()
        for client in clients:
            client.turn()
        full = ErrorCode.NOT_ENOUGH_REPLICAS
        codes = [[code for code, _ in self.results(client)] for client in clients]
        self.assertEqual(codes, [[0, 0], [0, 0], [full, full], [full, full]])
        self.assertEqual(self.verification.waiting_bytes, 0)

    def test_remembered(self) -> None:
        """The stored sequences of refused producers are limited, too."""
        self.patch(transaction_verification, "MAX_REMEMBERED_SEQUENCES", 2)
        self.coordinator.at_once = ErrorCode.COORDINATOR_NOT_AVAILABLE
        for n in range(4):
            self.send(transactional(b"0", producer_id=n))
        self.assertEqual(len(self.verification._lowest), 2)


class CoordinatorErrorTests(ParticipationCase):
    """Error codes for producers."""

    def test_by_version(self) -> None:
        """Older producers get another error code with the same effect."""
        again = ErrorCode.NOT_ENOUGH_REPLICAS
        for code, old, eleven, new in (
            (ErrorCode.CONCURRENT_TRANSACTIONS, again, again, ErrorCode.CONCURRENT_TRANSACTIONS),
            (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, again, again, again),
            (ErrorCode.COORDINATOR_NOT_AVAILABLE, again, again, again),
            (ErrorCode.NOT_COORDINATOR, again, again, again),
            (ErrorCode.NETWORK_EXCEPTION, again, again, again),
            (ErrorCode.REQUEST_TIMED_OUT, again, again, again),
            (ErrorCode.PRODUCER_FENCED, *3 * [ErrorCode.INVALID_PRODUCER_EPOCH]),
            (ErrorCode.INVALID_PRODUCER_EPOCH, *3 * [ErrorCode.INVALID_PRODUCER_EPOCH]),
            (
                ErrorCode.TRANSACTION_ABORTABLE,
                ErrorCode.INVALID_TXN_STATE,
                ErrorCode.TRANSACTION_ABORTABLE,
                ErrorCode.TRANSACTION_ABORTABLE,
            ),
            (ErrorCode.INVALID_PRODUCER_ID_MAPPING, *3 * [ErrorCode.INVALID_PRODUCER_ID_MAPPING]),
            (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, *3 * [ErrorCode.INVALID_TXN_STATE]),
        ):
            told = [producer_error(ApiError(code), version).code for version in (10, 11, 12)]
            self.assertEqual(told, [old, eleven, new], code)

    def test_ended_just_now(self) -> None:
        """While the transaction before is being ended it is asked again for a while, so that the client need not."""
        self.send(transactional(b"a"))
        for _ in range(3):
            self.coordinator.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
            self.assertEqual(self.results(), [])
            self.client.turn(BACKOFF)
        self.coordinator.answer()
        self.assertEqual(self.results(), [(0, 0)])

    def busy_for(self, seconds: float) -> list[Any]:
        """The response if the coordinator takes that long to complete the transaction before."""
        self.send(transactional(b"a", epoch=1))
        for _ in range(round(seconds / BACKOFF)):
            if self.coordinator.partitions:
                self.coordinator.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
            self.client.turn(BACKOFF)
        return self.results()

    def test_ended_under_load(self) -> None:
        """On a busy cluster a transaction takes a second to end: no reason for producers to warn of it."""
        self.assertEqual(self.busy_for(1.9), [])
        self.coordinator.answer()
        self.assertEqual(self.results(), [(0, 0)])

    def test_timeout(self) -> None:
        """If it takes longer the producer gets the error, and retries."""
        self.assertEqual(self.busy_for(2.1), [(ErrorCode.CONCURRENT_TRANSACTIONS, -1)])

    def test_configured(self) -> None:
        """Duration and interval of retries; never longer than ``request.timeout.ms``."""
        for backoff, expected in (
            ({}, RetryBackoff(0.02, 2.0)),
            ({"max.ms": "100", "ms": "10"}, RetryBackoff(0.01, 0.1)),
            ({"max.ms": "90000"}, RetryBackoff(0.02, 30.0)),
        ):
            named = {f"add.partitions.to.txn.retry.backoff.{name}": value for name, value in backoff.items()}
            self.assertEqual(RetryBackoff.of(ConfigView.load(set=named)), expected)

    def test_a_mistake(self) -> None:
        """If the request to the coordinator fails no batch stays queued."""
        self.send(transactional(b"a"))
        self.coordinator.partitions.pop()[1].errback(RuntimeError("a bug"))
        self.assertEqual(self.results(), [(ErrorCode.UNKNOWN_SERVER_ERROR, -1)])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.send(transactional(b"a"))
        self.coordinator.partitions.pop()[1].callback({})
        self.assertEqual(self.results(), [(ErrorCode.NOT_ENOUGH_REPLICAS, -1)])


class TopicIdTests(ParticipationCase):
    """Produce 13 names topics by their ids."""

    def ask(self, topic_id: bytes, acks: int = 1, records: bytes | None = None, version: int = 13) -> Any:
        request = produce_request(a_batch() if records is None else records, acks=acks)
        request.topic_data[0].topic_id = topic_id
        topic = self.client.ask(request, version).responses[0]
        self.assertEqual((topic.name, topic.topic_id), ("", topic_id))
        answer = topic.partition_responses[0]
        return answer.error_code, answer.base_offset

    def test_by_id(self) -> None:
        """A topic is found by its id, once and in runs."""
        known = self.server.topic_id()
        self.assertEqual([self.ask(known, acks) for acks in (1, -1, 1, 1)], [(0, n) for n in range(4)])
        self.assertEqual(self.ask(known, records=b"nonsense"), (ErrorCode.INVALID_RECORD, -1))

    def test_unknown(self) -> None:
        """One that is not known, or was deleted, is UNKNOWN_TOPIC_ID, though there is another topic of that name."""
        known = self.server.topic_id()
        self.assertEqual(self.ask(known), (0, 0))
        self.server.now(self.server.broker.control.topic_admin.delete_topics(["t"]))
        self.server.create("t")
        for topic_id in (known, bytes(16), b"\1" * 16):
            for acks in (1, -1):
                self.assertEqual(self.ask(topic_id, acks), (ErrorCode.UNKNOWN_TOPIC_ID, -1))
        self.assertEqual(self.ask(self.server.topic_id()), (0, 0))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 1), st.integers(0, 1)),
        st.tuples(st.just("answer"), st.sampled_from([0, 0, 0, 15, 48, 51]), st.just(0)),
        st.tuples(st.just("turn"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


class RandomOrderTests(SynchronousTestCase):
    @settings(deadline=None, max_examples=60)
    @given(steps)
    def test_as_the_producer_sent_them(self, drawn: list[tuple[str, int, int]]) -> None:
        """
        However requests and answers are mixed: a partition has the first so many batches of a producer, in its order;
        every request is answered once, in turn; and nothing is left waiting.
        """
        server = MemoryBroker().start()
        try:
            server.create("t", 2)
            coordinator = Coordinator()
            verification: Any = server.broker.kafka_server.router.find(ProduceHandlers).verification
            verification._verifier = coordinator
            client = server.connect()
            sent = {(producer, index): 0 for producer in (0, 1) for index in (0, 1)}
            requests = []
            for kind, first, second in drawn:
                if kind == "send":
                    sequence = sent[first, second]
                    sent[first, second] += 1
                    batch = transactional(b"%d" % sequence, producer_id=first, sequence=sequence)
                    client.send(in_transaction((second, batch)), 12)
                    requests.append((first, second, sequence))
                elif kind == "answer" and coordinator.partitions:
                    coordinator.answer(ErrorCode(first))
                else:
                    client.turn(BACKOFF)
            coordinator.at_once = ErrorCode.NONE
            while coordinator.partitions:
                coordinator.answer(ErrorCode.NOT_COORDINATOR)
            client.turn(LONGEST_BACKOFF)
            answers = [answer.responses[0].partition_responses[0] for answer in client.answers()]
            self.assertEqual(len(answers), len(requests))
            written: dict[tuple[int, int], list[tuple[int, int]]] = {key: [] for key in sent}
            for (producer, index, sequence), answer in zip(requests, answers, strict=True):
                if not answer.error_code:
                    written[producer, index].append((sequence, answer.base_offset))
            for found in written.values():
                self.assertEqual([sequence for sequence, _ in found], list(range(len(found))))
                self.assertEqual(found, sorted(found, key=lambda one: one[1]))
            self.assertEqual((verification.waiting_bytes, verification._queues), (0, {}))
        finally:
            server.close()
