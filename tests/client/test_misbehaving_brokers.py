"""
Producers and consumers at brokers that disappear, break the protocol, or answer late: no record is lost or duplicated,
every Deferred fires once, errors have messages, and nothing is left after closing.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import globalLogBeginner
from twisted.trial.unittest import SynchronousTestCase

from logbus.client import EARLIEST, Cluster, Consumer, Producer
from logbus.errors import LogbusError
from logbus.model import TopicPartition
from logbus.records.batch import iter_records
from logbus.wire.messages.records import FetchableTopicResponse, FetchResponse, PartitionData, ProduceResponse
from tests.client.misbehaving_brokers import (
    FETCH,
    METADATA,
    MISBEHAVIORS,
    PRODUCE,
    MisbehavingBrokers,
    Misbehavior,
    hangs_up,
    never,
)

P0 = TopicPartition("t", 0)
NEVER_HEARD_OF = 7777
EACH_AND_ALL: list[Sequence[Misbehavior]] = [
    *([each] for each in MISBEHAVIORS),
    MISBEHAVIORS,
    MISBEHAVIORS,
    MISBEHAVIORS,
]


class MisbehavingBrokersCase(SynchronousTestCase):
    """Liars with a topic of two partitions, which have different leaders."""

    def begin(self, seed: int = 1) -> None:
        self.liars = MisbehavingBrokers(chance=Random(seed))
        self.logs = self.liars.add("t", 1, 2)
        self.cluster = Cluster(
            self.liars.clock,
            "b1:9092,b2:9092",
            endpoint=self.liars.endpoint,
            timeout=self.liars.patience,
            connect_timeout=self.liars.patience,
        )

    def misbehavior(self, seconds: float, *misbehaviors: Misbehavior) -> None:
        """For so long, and the truth from then on."""
        self.liars.misbehaviors = misbehaviors
        self.liars.clock.callLater(seconds, setattr, self.liars, "misbehaviors", ())

    def until(self, condition: Callable[[], bool], seconds: float = 120.0) -> None:
        """Let time pass until something is so."""
        for _ in range(round(seconds / 0.05)):
            if condition():
                return
            self.liars.settle(0.05)
        self.fail(f"not in {seconds:g} s")

    def assert_nothing_left(self) -> None:
        """Check that no timer, connection or reference is left."""
        closing = self.cluster.close()
        self.until(lambda: closing.called)
        self.liars.settle(200)
        self.assertEqual(self.liars.clock.getDelayedCalls(), [])
        self.assertEqual(self.liars.connections, [])
        # Until an application begins to log, Twisted remembers every event, and what errors in them refer to.
        globalLogBeginner._initialBuffer._buffer.clear()
        gc.collect()


class ProducerTests(MisbehavingBrokersCase):
    """A hundred records, some at a time."""

    def send(self, seconds: float = 8.0, **options: Any) -> tuple[list[list[object]], weakref.ref[Producer]]:
        """
        :return: what each record's Deferred fired with, every time it did.
        """
        producer = Producer(
            self.cluster,
            wall_clock=lambda: 1.5,
            random=Random(1),
            **{"linger": 0.02, "request_timeout": self.liars.patience, "batch_bytes": 200, **options},
        )
        outcomes: list[list[object]] = [[] for _ in range(100)]
        for number, heard in enumerate(outcomes):
            producer.send("t", b"%d" % number, partition=number % 2).addBoth(heard.append)
            if number % 5 == 0:
                self.liars.settle(seconds / 20)
        self.until(lambda: all(outcomes))
        closing = producer.close()
        self.until(lambda: closing.called)
        self.assertIsNone(self.successResultOf(closing))
        return outcomes, weakref.ref(producer)

    def assert_written(self, outcomes: list[list[object]]) -> None:
        """Check that each record is written once, in order, at the reported offset."""
        for index, log in self.logs.items():
            wanted = [b"%d" % number for number in range(100) if number % 2 == index]
            self.assertEqual([each.value for each in iter_records(b"".join(log.batches))], wanted)
        for number, heard in enumerate(outcomes):
            (told,) = heard
            self.assertEqual(getattr(told, "partition", told), number % 2)
            # Who was told that it is there already was not told where.
            self.assertIn(told.offset, (-1, number // 2))  # type: ignore[attr-defined]

    def test_lies(self) -> None:
        """
        Whatever becomes of answers, each record is written once and in order; and one of each kind alone.
        """
        for number, misbehaviors in enumerate(EACH_AND_ALL):
            with self.subTest(misbehaviors=[each.__name__ for each in misbehaviors]):
                self.begin(number)
                self.misbehavior(8.0, *misbehaviors)
                outcomes, producer = self.send()
                self.assertGreater(self.liars.told, 1)
                self.assert_written(outcomes)
                del outcomes
                self.assert_nothing_left()
                self.assertIsNone(producer())

    def test_unknown_errors_and_partitions(self) -> None:
        """
        Errors of numbers that are not known, answers about other topics and partitions, and answers about nothing: for
        good, they end in an error for each record that has a text; for a while, the records are written.
        """

        def strange(node: int, message: Any) -> Any:
            kind = self.liars.chance.randrange(4)
            answer = self.liars._produce(node, message) if kind else ProduceResponse(responses=[])
            for topic in answer.responses:
                for each in topic.partition_responses:
                    if kind == 1:
                        each.error_code = NEVER_HEARD_OF
                    elif kind == 2:
                        each.index += 5
                if kind == 3:
                    topic.topic_id, topic.name = b"z" * 16, "z"
            return answer

        for seed in range(5):
            self.begin(seed)
            self.liars.answers[PRODUCE] = strange
            outcomes, _ = self.send(delivery_timeout=20.0)
            for heard in outcomes:
                (told,) = heard
                error = getattr(told, "value", None)
                if error is not None:
                    self.assertIsInstance(error, LogbusError)
                    self.assertGreater(len(str(error)), 20)
            self.assertTrue(any(getattr(heard[0], "value", None) is not None for heard in outcomes))
            self.assert_nothing_left()

    def test_missing_metadata(self) -> None:
        """
        Who sends is told in time what was waited for.
        """
        self.begin()
        self.liars.about, self.liars.share = frozenset({METADATA}), 1.0
        self.liars.misbehaviors = (never,)
        outcomes, _ = self.send(delivery_timeout=20.0)
        for heard in outcomes:
            (told,) = heard
            self.assertIn("Metadata", told.getErrorMessage())  # type: ignore[attr-defined]
        self.assert_nothing_left()

    def test_frequent_leader_changes(self) -> None:
        """
        Each record is written once and in order, by whichever broker leads.
        """
        self.begin()
        moves = 0

        def move() -> None:
            nonlocal moves
            moves += 1
            for log in self.logs.values():
                log.leader = 3 - log.leader
            if self.liars.clock.seconds() < 30:
                self.liars.clock.callLater(1.0, move)

        self.liars.clock.callLater(0.5, move)
        outcomes, _ = self.send(30.0)
        self.assertGreater(moves, 15)
        self.assert_written(outcomes)
        self.assert_nothing_left()

    def test_vanishing_brokers(self) -> None:
        """
        Connections break, and cannot be made for a while, again and again.
        """
        self.begin()
        for second in range(0, 20, 2):
            self.liars.clock.callLater(second + 0.3, self.vanish, 1 + second // 2 % 2)
        outcomes, _ = self.send(20.0)
        self.assert_written(outcomes)
        self.assert_nothing_left()

    def vanish(self, node: int) -> None:
        """One is away for a second."""
        self.liars.nodes = {3 - node}
        self.liars.drop(node)
        self.liars.clock.callLater(1.0, setattr, self.liars, "nodes", {1, 2})


class ConsumerTests(MisbehavingBrokersCase):
    """Readers of two partitions with a hundred records each."""

    def fill(self) -> None:
        for log in self.logs.values():
            for first in range(0, 100, 4):
                log.put(*(b"%d" % number for number in range(first, first + 4)))

    def read(self, wanted: int, seconds: float = 200.0) -> tuple[dict[int, list[bytes | None]], list[LogbusError]]:
        """
        Everything, by partition, and what went wrong on the way; waits are cancelled now and then.
        """
        consumer = Consumer(self.cluster, max_partition_fetch_bytes=200)
        consumer.assign(dict.fromkeys([P0, TopicPartition("t", 1)], EARLIEST))
        found: dict[int, list[bytes | None]] = {0: [], 1: []}
        errors: list[LogbusError] = []
        for turn in range(round(seconds / 0.1)):
            polling: Deferred[Any] = consumer.poll(0.5, max_records=7)
            heard: list[Any] = []
            polling.addBoth(heard.append)
            for _ in range(turn % 7):
                self.liars.settle(0.1)
            if turn % 3 == 0:
                polling.cancel()
            else:
                self.until(lambda: heard != [])  # noqa: B023
            (told,) = heard
            if isinstance(told, dict):
                for place, records in told.items():
                    found[place.partition] += [each.value for each in records]
            elif not told.check(CancelledError):
                self.assertIsInstance(told.value, LogbusError)
                errors.append(told.value)
            if sum(map(len, found.values())) >= wanted:
                break
        closing = consumer.close()
        self.until(lambda: closing.called)
        self.gone = weakref.ref(consumer)
        return found, errors

    def assert_all(self, found: dict[int, list[bytes | None]]) -> None:
        values = [b"%d" % number for number in range(100)]
        self.assertEqual(found, {0: values, 1: values})

    def test_lies(self) -> None:
        """
        Whatever becomes of answers, each record is read once and in order; and one of each kind alone.
        """
        for number, misbehaviors in enumerate(EACH_AND_ALL):
            with self.subTest(misbehaviors=[each.__name__ for each in misbehaviors]):
                self.begin(number)
                self.fill()
                self.misbehavior(8.0, *misbehaviors)
                found, _ = self.read(200)
                self.assertGreater(self.liars.told, 1)
                self.assert_all(found)
                self.assert_nothing_left()
                self.assertIsNone(self.gone())

    def test_unknown_errors_and_partitions(self) -> None:
        """
        Errors of numbers that are not known, and answers about other topics and partitions, are passing troubles.
        """

        def strange(node: int, message: Any) -> Any:
            kind = self.liars.chance.randrange(5)
            if kind == 4 or self.liars.clock.seconds() > 8:
                return None
            answer = FetchResponse(responses=[])
            if kind == 0:
                answer.error_code = NEVER_HEARD_OF
            for topic in message.topics:
                each = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[])
                answer.responses.append(each)
                if kind == 1:
                    each.topic, each.topic_id = "z", b"z" * 16
                for partition in topic.partitions:
                    code, index = (NEVER_HEARD_OF if kind == 2 else 0), partition.partition + 5 * (kind == 3)
                    each.partitions.append(
                        PartitionData(partition_index=index, error_code=code, high_watermark=100, records=b"")
                    )
            return answer

        for seed in range(5):
            self.begin(seed)
            self.fill()
            self.liars.answers[FETCH] = strange
            found, errors = self.read(200)
            self.assert_all(found)
            for each in errors:
                self.assertIn(str(NEVER_HEARD_OF), str(each))
            self.assert_nothing_left()

    def test_missing_metadata(self) -> None:
        """
        The consumer waits for them, asks again and again but not all the time, and reads once they come.
        """
        self.begin()
        self.fill()
        self.liars.about, self.liars.share = frozenset({METADATA}), 1.0
        self.misbehavior(60.0, never)
        found, errors = self.read(200)
        self.assert_all(found)
        self.assertEqual(errors, [])
        self.assertTrue(5 < self.liars.told < 200, self.liars.told)
        self.assert_nothing_left()

    def test_frequent_leader_changes(self) -> None:
        """
        Each record is read once and in order, from whichever broker leads.
        """
        self.begin()
        self.fill()

        def move() -> None:
            for log in self.logs.values():
                log.leader = 3 - log.leader
            if self.liars.clock.seconds() < 20:
                self.liars.clock.callLater(1.0, move)

        self.liars.clock.callLater(0.1, move)
        self.misbehavior(15.0, hangs_up)
        found, errors = self.read(200)
        self.assert_all(found)
        self.assertEqual(errors, [])
        self.assert_nothing_left()
