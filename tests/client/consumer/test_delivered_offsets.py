"""The generation in which records were delivered, and lost partitions."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.consumer.delivered_offsets import DeliveredOffsets
from logbus.client.group_metadata import CommittedOffset, GroupMetadata
from logbus.model import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
FIVE, SIX, SEVEN = (GroupMetadata("g", generation, "m") for generation in (5, 6, 7))


class DeliveredOffsetsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.deliveries = DeliveredOffsets()

    def test_kept_partitions_follow_the_generation(self) -> None:
        """While all delivered partitions are kept, the current metadata are returned."""
        self.deliveries.delivered(P0)
        self.deliveries.given_up([P1], FIVE, {})
        self.assertEqual(self.deliveries.metadata(SIX), SIX)

    def test_the_first_loss_counts(self) -> None:
        """
        Until metadata were asked for and more is delivered, however often they are asked for, and also if the
        partition comes back.
        """
        self.deliveries.delivered(P0)
        self.deliveries.delivered(P1)
        self.deliveries.given_up([P0], FIVE, {})
        self.deliveries.delivered(P0)
        self.deliveries.given_up([P1], SIX, {})
        for _ in range(2):
            self.assertEqual(self.deliveries.metadata(SEVEN), FIVE)
        self.deliveries.delivered(P0)
        self.assertEqual(self.deliveries.metadata(SEVEN), SEVEN)

    def test_metadata_asked_for_twice(self) -> None:
        """
        A partition that goes after metadata were asked for is still what the transaction is about.
        """
        self.deliveries.delivered(P0)
        self.assertEqual(self.deliveries.metadata(FIVE), FIVE)
        self.deliveries.given_up([P0], FIVE, {})
        self.assertEqual(self.deliveries.metadata(SIX), FIVE)

    def test_lost_records(self) -> None:
        """Records delivered and not committed when their partition was revoked; each is reported once."""
        places = {P0: CommittedOffset(3), P1: CommittedOffset(4)}
        for each in places:
            self.deliveries.delivered(each)
        self.deliveries.committed({P0: CommittedOffset(3), P1: CommittedOffset(2)}, places)
        self.deliveries.given_up(places, FIVE, places)
        self.assertEqual(self.deliveries.take_lost(), {P1: CommittedOffset(4)})
        self.assertEqual(self.deliveries.take_lost(), {})

    def test_commit_during_a_revocation(self) -> None:
        """Offsets whose commit succeeds after the partition was revoked are not lost."""
        self.deliveries.delivered(P0)
        self.deliveries.given_up([P0], FIVE, {P0: CommittedOffset(3)})
        self.deliveries.committed({P0: CommittedOffset(3)}, {})
        self.assertEqual(self.deliveries.take_lost(), {})
