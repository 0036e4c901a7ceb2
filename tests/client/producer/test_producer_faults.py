"""The producer at whole brokers in memory, with lost responses, leader changes, and brokers that disappear."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from logbus.client.producer.idempotence import LAST_EPOCH, ProducerId
from logbus.client.producer.producer import DeliveryFailed, Producer, RecordMetadata
from tests.client.producer.test_transaction_manager import INIT, P0, PRODUCE, TransactionalCase


class DeliveryCase(TransactionalCase):
    """Some ways to look at it."""

    def idempotent(self, **options: Any) -> Producer:
        return self.producer(None, **{"linger": 0.0, **options})

    def sending(self, producer: Producer, values: range, **options: Any) -> list[Deferred[RecordMetadata]]:
        return [producer.send("t", b"%d" % value, partition=0, **options) for value in values]

    def written(self) -> list[int]:
        return [int(value or b"") for value in self.committed()]


class DeliveryTests(DeliveryCase):
    def test_lost_at_every_place(self) -> None:
        """
        Requests are lost, or their answers: each record is in the log once, and in order.
        """
        for pattern in range(1, 64, 3):
            producer = self.idempotent(batch_bytes=150)
            fates = ["lost" if pattern >> bit & 2 else "unanswered" if pattern >> bit & 1 else None for bit in range(6)]
            first = len(self.written())
            self.fates = {PRODUCE: [None, *fates]}
            sent = self.sending(producer, range(first, first + 12), headers=[("padding", b"x" * 30)])
            self.now(producer.flush())
            self.assertEqual(
                [self.successResultOf(each).offset for each in sent], list(range(first, first + 12)), pattern
            )
            self.assertEqual(self.written(), list(range(first + 12)), pattern)
            self.now(producer.close())

    def test_several_requests_at_a_time(self) -> None:
        """
        Once the partition knows the producer, five are under way; what was lost brings no disorder.
        """
        producer = self.idempotent(batch_bytes=150)
        self.now(producer.send("t", b"0", partition=0))
        self.asked.clear()
        sent = self.sending(producer, range(1, 20), headers=[("padding", b"x" * 30)])
        self.assertEqual(self.asked.count(PRODUCE), 5)
        self.now(producer.flush())
        self.assertEqual(self.written(), list(range(20)))
        self.assertTrue(all(each.called for each in sent))

    def test_records_after_a_failed_one(self) -> None:
        """
        After a record whose delivery failed, later ones are neither duplicated nor reordered, whether it arrived or
        not.
        """
        for fate, arrived in (("lost", []), ("unanswered", [1])):
            producer = self.idempotent(delivery_timeout=2.0)
            self.sending(producer, range(1))
            self.now(producer.flush())
            self.fates = {PRODUCE: [fate] * 100}
            (failed,) = self.sending(producer, range(1, 2))
            self.several.settle(3)
            self.failureResultOf(failed, DeliveryFailed)
            self.fates = {PRODUCE: ["unanswered", "lost"]}
            sent = self.sending(producer, range(2, 5))
            self.now(producer.flush())
            for each in sent:
                self.assertTrue(each.called)
                each.addErrback(lambda _: None)
            found = self.written()
            self.assertEqual(found[:1], [0])
            self.assertEqual(found[1:], [*arrived, 2, 3, 4][: len(found) - 1])
            self.now(producer.send("t", b"5", partition=0))
            self.assertEqual(self.written()[-1], 5)
            self.now(producer.close())
            self.doCleanups()
            self.setUp()

    def test_after_the_last_epoch(self) -> None:
        """
        When a partition's epochs are used up, one other producer id is fetched, and sending goes on.
        """
        producer = self.idempotent()
        self.now(producer.send("t", b"0", partition=0))
        queue = producer._accumulator.queue(P0)
        queue.sequences.producer = ProducerId(queue.sequences.producer.producer_id, LAST_EPOCH)
        queue.sequences.lost = True
        self.asked.clear()
        sent = self.sending(producer, range(1, 3))
        self.several.settle(3)
        self.assertEqual([self.successResultOf(each).offset for each in sent], [1, 2])
        self.assertEqual(self.asked.count(INIT), 1)

    def test_without_numbers(self) -> None:
        """
        An answer that was lost leaves the record twice, in order all the same.
        """
        producer = self.idempotent(enable_idempotence=False)
        self.sending(producer, range(1))
        self.now(producer.flush())
        self.fates = {PRODUCE: ["unanswered"]}
        for each in range(1, 4):
            producer.send("t", b"%d" % each, partition=0)
        self.now(producer.flush())
        self.assertEqual(self.written(), [0, 1, 2, 3, 1, 2, 3])


class ClusterDeliveryTests(DeliveryCase):
    """Three brokers."""

    brokers = 3

    def leader(self) -> int:
        image = self.several.metadata(self.several.alive[0]).topic("t")
        assert image is not None
        return image.partitions[0].leader

    def test_killed_leader(self) -> None:
        """Whatever was under way: the next leader gets the missing records, once and in order."""
        for turns in (0, 1, 2, 3, 5, 8):
            producer = self.idempotent(batch_bytes=150)
            first = len(self.written())
            self.sending(producer, range(first, first + 1))
            self.now(producer.flush())
            sent = self.sending(producer, range(first + 1, first + 12), headers=[("padding", b"x" * 30)])
            for _ in range(turns):
                self.several.clock.advance(0)
            killed = self.leader()
            self.several.kill(killed)
            self.now(producer.flush(), 60)
            self.assertEqual([self.successResultOf(each).offset for each in sent], list(range(first + 1, first + 12)))
            self.assertEqual(self.written(), list(range(first + 12)), turns)
            self.several.boot(killed)
            self.several.settle(3)
            self.now(producer.close())

    def test_vanished_leader(self) -> None:
        """If the connection is not even closed, the next leader is asked after the request timeout."""
        producer = self.idempotent(request_timeout=2.0)
        self.sending(producer, range(1))
        self.now(producer.flush())
        gone = self.leader()
        for each in [100, *(set(range(3)) - {gone})]:
            self.several.network.cuts |= {(gone, each), (each, gone)}
        sent = self.sending(producer, range(1, 6))
        self.several.clock.advance(0)
        self.several.kill(gone)
        self.now(producer.flush(), 90)
        self.assertEqual([self.successResultOf(each).offset for each in sent], [1, 2, 3, 4, 5])
        self.several.network.cuts.clear()
        self.assertEqual(self.written(), [0, 1, 2, 3, 4, 5])

    def test_killed_brokers_during_a_transaction(self) -> None:
        """The transaction is committed as a whole if the coordinator, or a leader, is killed during it."""
        producer = self.producer()

        async def work(first: int, kill: bool) -> None:
            async with producer.transaction():
                await producer.send("t", b"%d" % first, partition=0)
                if kill:
                    self.several.kill(self.leader())
                await producer.send("t", b"%d" % (first + 1), partition=0)

        self.now(work(0, False))
        dead = self.leader()
        self.now(work(2, True), 60)
        self.now(work(4, False), 60)
        self.assertEqual(self.written(), [0, 1, 2, 3, 4, 5])
        self.several.boot(dead)
        self.several.settle(2)
