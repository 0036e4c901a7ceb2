"""Tests the blocking producer against brokers that misbehave, disappear and reject requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.cluster.topic_metadata import TopicMetadata
from logbus.errors import ErrorCode
from logbus.model import TopicPartition
from logbus.pipeline.blocking import patience
from logbus.pipeline.blocking import producer as producer_module
from logbus.pipeline.blocking.producer import DeliverySettings, Producer
from logbus.pipeline.blocking.transactions import ProducerIdentity, init_producer_id
from logbus.pipeline.errors import DeliveryFailed, ProducerFenced, RequestTimedOut, TransactionLost
from logbus.records.batch import BatchBuilder, iter_records
from logbus.records.compression import Codec
from logbus.wire.messages.records import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from logbus.wire.messages.transactions import InitProducerIdResponse
from tests.client.memory_cluster import SERVED, Log
from tests.client.misbehaving_brokers import MISBEHAVIORS, MisbehavingBrokers, Misbehavior
from tests.pipeline.socket_cluster import SocketCluster

TOPIC = "t"
MOST_LIES = 8


class FaultyLeaders(SocketCluster):
    """Two brokers with producer state, which send a given number of wrong responses."""

    def __init__(self, misbehaviors: tuple[Misbehavior, ...] = (), seed: int = 1) -> None:
        super().__init__({**SERVED, 22: (0, 5)}, nodes=2)
        self.chance = Random(seed)
        self.misbehaviors = misbehaviors
        self.about = frozenset({0, 3, 18, 22})
        self._next: dict[Any, int] = {}
        self._places: dict[Any, int] = {}
        self.answers[22] = lambda *_: InitProducerIdResponse(producer_id=7, producer_epoch=0)
        self.logs: dict[int, Log] = self.add(TOPIC, 1, 2)

    _produce = MisbehavingBrokers._produce
    _judge = MisbehavingBrokers._judge

    def _lie(self, key: int) -> Misbehavior | None:
        return super()._lie(key) if self.told < MOST_LIES else None

    def refuse(self, code: ErrorCode, when: Callable[[bytes], bool] = lambda records: True) -> None:
        """Have an error for certain batches."""
        self.refuse_by(lambda records: code if when(records) else None)

    def refuse_by(self, error_of: Callable[[bytes], ErrorCode | None]) -> None:
        """Have errors for batches; None: it is written."""

        def answer(node: int, message: Any) -> Any:
            (topic,) = message.topic_data
            (each,) = topic.partition_data
            code = error_of(bytes(each.records))
            if code is None:
                return None
            refused = [PartitionProduceResponse(index=each.index, error_code=code)]
            named = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=refused)
            return ProduceResponse(responses=[named])

        self.answers[0] = answer

    def values(self, index: int) -> list[bytes | None]:
        """What is in a partition."""
        return [each.value for each in iter_records(b"".join(self.logs[index].batches))]


def a_batch(*values: bytes) -> BatchBuilder:
    batch = BatchBuilder()
    for value in values:
        batch.append(1000, None, value)
    return batch


def produce(
    leaders: FaultyLeaders,
    delivery: DeliverySettings,
    identity: ProducerIdentity | None = None,
    count: int = 60,
    **settings: Any,
) -> None:
    """One record after another into both partitions by turns."""
    brokers = leaders.client(**settings)
    producer = Producer(brokers, delivery, identity or init_producer_id(brokers))
    try:
        for number in range(count):
            producer.send(TopicPartition(TOPIC, number % 2), a_batch(b"%d" % number))
        producer.flush()
    finally:
        producer.close()
        brokers.close()


class ProducerTests(SynchronousTestCase):
    def assert_all(self, leaders: FaultyLeaders, count: int = 60) -> None:
        for index in (0, 1):
            wanted = [b"%d" % number for number in range(count) if number % 2 == index]
            self.assertEqual(leaders.values(index), wanted)

    def test_lies(self) -> None:
        """Whatever becomes of answers, each record is written once and in order."""
        for seed, misbehaviors in enumerate(
            [*([each] for each in MISBEHAVIORS if each.__name__ != "late"), MISBEHAVIORS[1:]]
        ):
            with (
                self.subTest(misbehaviors=[each.__name__ for each in misbehaviors]),
                FaultyLeaders(tuple(misbehaviors), seed) as leaders,
            ):
                produce(leaders, DeliverySettings(timeout=20.0), request_timeout=0.1)
                self.assertGreater(leaders.told, 1)
                self.assert_all(leaders)

    def test_restarts_and_leader_changes(self) -> None:
        """Batches under way are sent again, to the present leader."""
        with FaultyLeaders() as leaders:
            brokers = leaders.client()
            producer = Producer(brokers, DeliverySettings(timeout=20.0), init_producer_id(brokers))
            for number in range(60):
                producer.send(TopicPartition(TOPIC, number % 2), a_batch(b"%d" % number))
                if number == 20:
                    leaders.down(2)
                    leaders.logs[1].leader = 1
                if number == 40:
                    leaders.up(2)
                    leaders.logs[0].leader = 2
            producer.flush()
            producer.close()
            self.assert_all(leaders)

    def test_topic_is_looked_up_again(self) -> None:
        """Another partition's trouble has the topic looked up again, and brokers may not answer just then."""
        with FaultyLeaders() as leaders:
            brokers = leaders.client()
            identity = init_producer_id(brokers)
            real, calls = brokers.topic, []

            def topic(name: str) -> TopicMetadata:
                calls.append(name)
                if len(calls) == 2:
                    raise RequestTimedOut("no answer")
                return real(name)

            with mock.patch.object(brokers, "topic", topic):
                producer = Producer(brokers, DeliverySettings(), identity)
                producer.send(TopicPartition(TOPIC, 0), a_batch(b"0"))
                producer.flush()
                producer.close()
            self.assertEqual(leaders.values(0), [b"0"])

    def test_several_are_under_way(self) -> None:
        """A leader does not wait for us, nor we for it: five batches of a partition are sent at a time."""
        waiting: list[int] = []
        with FaultyLeaders() as leaders:
            brokers = leaders.client()
            producer = Producer(brokers, DeliverySettings(), init_producer_id(brokers))
            producer.send(TopicPartition(TOPIC, 0), a_batch(b"0"))
            producer.flush()
            for number in range(1, 20):
                producer.send(TopicPartition(TOPIC, 0), a_batch(b"%d" % number))
                waiting.append(len(producer._queues[TopicPartition(TOPIC, 0)].in_flight))
            producer.flush()
            producer.close()
            self.assertEqual(max(waiting), 5)
            self.assertEqual(leaders.values(0), [b"%d" % number for number in range(20)])

    def test_more_than_the_buffer_waits(self) -> None:
        """Who sends is held up while more is under way than may be."""
        with FaultyLeaders() as leaders:
            brokers = leaders.client()
            producer = Producer(brokers, DeliverySettings(buffer_bytes=300), init_producer_id(brokers))
            most = 0
            for _ in range(20):
                producer.send(TopicPartition(TOPIC, 0), a_batch(b"x" * 50))
                most = max(most, producer._bytes)
            producer.close()
            self.assertLessEqual(most, 300)

    def test_without_numbers(self) -> None:
        """With acks 1 one batch of a partition goes at a time, and nobody asks for a producer id."""
        with FaultyLeaders() as leaders:
            brokers = leaders.client()
            producer = Producer(brokers, DeliverySettings(acks=1), None)
            for number in range(10):
                producer.send(TopicPartition(TOPIC, number % 2), a_batch(b"%d" % number))
            producer.flush()
            producer.close()
            self.assert_all(leaders, 10)
            self.assertEqual({each.acks for each in leaders.requests("Produce")}, {1})
            self.assertEqual(leaders.requests("InitProducerId"), [])

    def test_batch_too_large(self) -> None:
        """The topic may take less than we send: records go in smaller batches, down to one."""
        with FaultyLeaders() as leaders:
            leaders.refuse(ErrorCode.MESSAGE_TOO_LARGE, lambda records: len(records) > 150)
            brokers = leaders.client()
            producer = Producer(brokers, DeliverySettings(), init_producer_id(brokers))
            values = [b"%d" % number * 20 for number in range(9)]
            producer.send(TopicPartition(TOPIC, 0), a_batch(*values))
            producer.send(TopicPartition(TOPIC, 0), a_batch(b"last"))
            producer.flush()
            producer.close()
            self.assertEqual(leaders.values(0), [*values, b"last"])
            self.assertEqual(producer._bytes, 0)

    def test_batch_too_large_behind_another(self) -> None:
        """What is under way is counted rightly as well if a batch is divided behind one that has to be sent again."""
        with FaultyLeaders() as leaders:
            again = [ErrorCode.NOT_ENOUGH_REPLICAS]

            def errors(records: bytes) -> ErrorCode | None:
                if b"again" in records and again:
                    return again.pop()
                return ErrorCode.MESSAGE_TOO_LARGE if len(records) > 300 else None

            leaders.refuse_by(errors)
            brokers = leaders.client()
            producer = Producer(brokers, DeliverySettings(), init_producer_id(brokers))
            values = [b"first", b"again" * 20, *(b"%d" % number * 50 for number in range(4, 9))]
            producer.send(TopicPartition(TOPIC, 0), a_batch(values[0]))
            producer.flush()
            producer.send(TopicPartition(TOPIC, 0), a_batch(values[1]))
            producer.send(TopicPartition(TOPIC, 0), a_batch(*values[2:]))
            producer.flush()
            producer.close()
            self.assertEqual(leaders.values(0), values)
            self.assertEqual((again, producer._bytes), ([], 0))

    def test_record_too_large(self) -> None:
        """One that the topic never takes is an error that says so."""
        with FaultyLeaders() as leaders:
            leaders.refuse(ErrorCode.MESSAGE_TOO_LARGE, lambda records: len(records) > 150)
            brokers = leaders.client()
            producer = Producer(brokers, DeliverySettings(), init_producer_id(brokers))
            producer.send(TopicPartition(TOPIC, 0), a_batch(b"x" * 200))
            error = self.assertRaises(DeliveryFailed, producer.flush)
            producer.close()
            self.assertRegex(
                str(error), r"t-0: a record could not be written: .*MESSAGE_TOO_LARGE.*max\.message\.bytes"
            )

    def test_time_is_up(self) -> None:
        """A partition that nobody leads is waited for, but not for ever."""
        with FaultyLeaders() as leaders:
            leaders.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
            begun = time.monotonic()
            error = self.assertRaises(DeliveryFailed, produce, leaders, DeliverySettings(timeout=0.3), count=1)
            self.assertLess(time.monotonic() - begun, 60)
            self.assertRegex(str(error), r"t-0: .*0\.3 s \(kafka\.delivery\.timeout\.ms\).*NOT_ENOUGH_REPLICAS")

    def test_a_wait_is_told(self) -> None:
        """What cannot be sent for some seconds is told once, with the reason, while the time is not up."""
        with mock.patch.object(producer_module, "PATIENCE", 0.0), self.assertLogs(patience.__name__) as said:
            self.test_time_is_up()
        (line,) = (each.getMessage() for each in said.records)
        self.assertIn("t-0", line)
        self.assertIn("; still trying for ", line)

    def test_retries_are_counted(self) -> None:
        """The other way to say for how long to try."""
        with FaultyLeaders() as leaders:
            leaders.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
            self.assertRaises(DeliveryFailed, produce, leaders, DeliverySettings(retries=3), count=1)
            self.assertEqual(len(leaders.requests("Produce")), 4)

    def test_errors_of_transactions_have_names(self) -> None:
        """Who is fenced, or whose transaction is over, is told so."""
        identity = ProducerIdentity(7, 0, "mine", transaction_v2=True)
        for code, kind in (
            (ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFenced),
            (ErrorCode.PRODUCER_FENCED, ProducerFenced),
            (ErrorCode.INVALID_TXN_STATE, TransactionLost),
            (ErrorCode.TRANSACTION_ABORTABLE, TransactionLost),
        ):
            with FaultyLeaders() as leaders:
                leaders.produce_errors.append(int(code))
                error = self.assertRaises(kind, produce, leaders, DeliverySettings(), identity, 1)
                self.assertIn("'mine'", str(error))

    def test_a_batch_is_compressed_once(self) -> None:
        """Compression is in what is sent."""
        with FaultyLeaders() as leaders:
            brokers = leaders.client()
            producer = Producer(brokers, DeliverySettings(), init_producer_id(brokers))
            batch = BatchBuilder(Codec.GZIP)
            batch.append(1000, None, b"x" * 1000)
            producer.send(TopicPartition(TOPIC, 0), batch)
            producer.flush()
            producer.close()
            self.assertLess(len(leaders.logs[0].batches[0]), 200)
            self.assertEqual(leaders.values(0), [b"x" * 1000])
