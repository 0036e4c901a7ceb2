"""Batches being delivered to the application."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.consumer.batch_delivery import BatchDelivery
from logbus.client.consumer.consumer_record import ConsumerRecord, Fetched
from logbus.model import TopicPartition

PARTITIONS = [TopicPartition(name, index) for name in ("t", "u") for index in range(3)]


def record(offset: int, value: bytes = b"v") -> ConsumerRecord:
    return ConsumerRecord("t", 0, offset, 0, None, value, ())


class BatchDeliveryTests(SynchronousTestCase):
    """How far the application is."""

    def hand(self, *offsets: int) -> BatchDelivery:
        return BatchDelivery(Fetched(PARTITIONS[0], [record(each) for each in offsets], 9, 9, 0))

    def test_position_in_a_loop(self) -> None:
        """A record is done when the next is asked for; offsets may have gaps."""
        hand = self.hand(1, 4, 6)
        self.assertEqual((hand.position, hand.done), (1, 1))
        for position, done in ((4, 1), (6, 4), (9, 6)):
            next(hand.rest)
            self.assertEqual((hand.position, hand.done), (position, done))
        hand.settle()
        self.assertEqual((hand.position, hand.done, hand.is_over), (9, 9, True))

    def test_position_after_a_poll(self) -> None:
        """The records of a poll are done at the next poll."""
        hand = self.hand(1, 4, 6)
        self.assertEqual([each.offset for each in hand.take(2)], [1, 4])
        self.assertEqual((hand.position, hand.done), (6, 1))
        self.assertEqual([each.offset for each in hand.take(2)], [6])
        self.assertEqual((hand.position, hand.done), (9, 6))

    def test_two_batches_in_a_poll(self) -> None:
        """No record of the second batch is done before the first batch is."""
        hand = self.hand(4, 6)
        hand.floor = 2
        hand.take(2)
        self.assertEqual(hand.done, 2)
        hand.settle()
        self.assertEqual(hand.done, 9)
