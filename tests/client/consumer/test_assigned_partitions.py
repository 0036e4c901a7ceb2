"""The positions and fetched data of a consumer's partitions."""

from __future__ import annotations

from attrs import define
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.consumer.assigned_partitions import AssignedPartitions
from logbus.client.consumer.consumer_record import Fetched
from logbus.client.list_offsets import EARLIEST
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@define(eq=False)
class Batch:
    """Fetched data that is taken at once."""

    partition: TopicPartition
    next_offset: int
    size: int = 100

    def take(self) -> Fetched:
        self.size = 0
        return Fetched(self.partition, [], self.next_offset, 10, 100, epoch=3)


class AssignedPartitionsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.assigned = AssignedPartitions(1000)
        self.assigned.add({P0: 5, P1: 5})

    def test_taking(self) -> None:
        """
        The position follows what was taken, and the partitions take turns.
        """
        self.assigned.put(P0, Batch(P0, 7))
        self.assigned.put(P1, Batch(P1, 6))
        self.assertEqual([self.assigned.take().partition for _ in range(2)], [P0, P1])
        self.assertEqual((self.assigned.position(P0), self.assigned.epoch(P0)), (7, 3))
        self.assertFalse(self.assigned.has_data)

    def test_an_error(self) -> None:
        """
        It is raised in its turn, once; what was fetched behind the position is fetched again.
        """
        position = self.assigned.reading(P0)
        position.offset = 9
        error = ApiError(ErrorCode.CORRUPT_MESSAGE, "t-0")
        self.assigned.put_errors([(position, error), (position, error)])
        self.assertIs(self.assertRaises(ApiError, self.assigned.take), error)
        self.assertEqual((position.offset, position.has_error, self.assigned.has_data), (5, False, False))

    def test_moving(self) -> None:
        """
        A partition that moves loses its data, and has no position until that is looked up.
        """
        self.assigned.put(P0, Batch(P0, 7))
        self.assigned.seek(P0, EARLIEST)
        self.assertFalse(self.assigned.has_data)
        self.assertIsNone(self.assigned.position(P0))
        position = self.assigned.reading(P0)
        position.offset, position.wanted = 2, None
        self.assigned.located([position])
        self.assertEqual(self.assigned.position(P0), 2)

    def test_an_assignment_that_was_interrupted(self) -> None:
        """
        A token tells.
        """
        token = self.assigned.reading(P0)
        self.assigned.add({P0: 6})
        self.assertTrue(self.assigned.is_reading(token))
        self.assigned.remove([P0, TopicPartition("u", 0)])
        self.assigned.add({P0: 6})
        self.assertFalse(self.assigned.is_reading(token))

    def test_paused_partitions(self) -> None:
        """
        Their data is kept if it takes no more than a quarter of the buffer.
        """
        for _ in range(2):
            self.assigned.put(P0, Batch(P0, 7))
        self.assigned.pause([P0])
        self.assertEqual((self.assigned.paused(), self.assigned.has_data), (frozenset({P0}), False))
        self.assertEqual(self.assigned.size_of(P0), 200)
        self.assigned.put(P0, Batch(P0, 8))
        self.assigned.make_room()
        self.assertEqual(self.assigned.size_of(P0), 0)
        self.assertRaises(KeyError, self.assigned.pause, [TopicPartition("u", 0)])
