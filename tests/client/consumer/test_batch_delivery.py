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

    def test_a_loop_is_at_the_last_one(self) -> None:
        """
        It is done when the next is asked for; offsets may leave gaps.
        """
        hand = self.hand(1, 4, 6)
        self.assertEqual((hand.position, hand.done), (1, 1))
        for position, done in ((4, 1), (6, 4), (9, 6)):
            next(hand.rest)
            self.assertEqual((hand.position, hand.done), (position, done))
        hand.settle()
        self.assertEqual((hand.position, hand.done, hand.is_over), (9, 9, True))

    def test_a_poll_is_at_all_it_gave(self) -> None:
        """
        None of it is done before the next.
        """
        hand = self.hand(1, 4, 6)
        self.assertEqual([each.offset for each in hand.take(2)], [1, 4])
        self.assertEqual((hand.position, hand.done), (6, 1))
        self.assertEqual([each.offset for each in hand.take(2)], [6])
        self.assertEqual((hand.position, hand.done), (9, 6))

    def test_two_batches_in_one_poll(self) -> None:
        """
        Nothing of the second is done before the first.
        """
        hand = self.hand(4, 6)
        hand.floor = 2
        hand.take(2)
        self.assertEqual(hand.done, 2)
        hand.settle()
        self.assertEqual(hand.done, 9)
