"""Processed and committed positions."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.connector.positions import Positions
from logbus.model import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class PositionsTests(SynchronousTestCase):
    def test_uncommitted_positions(self) -> None:
        """Only changed offsets are committed, and start offsets of partitions without a commit."""
        positions = Positions()
        positions.begin(P0, 5)
        positions.begin(P1, None, 100)
        self.assertEqual(positions.uncommitted(), {P1: 100})
        positions.reached(P0, 6)
        self.assertEqual(positions.uncommitted([P0]), {P0: 6})
        positions.committed({P0: 6, P1: 100})
        self.assertEqual(positions.uncommitted(), {})

    def test_nowhere_to_begin(self) -> None:
        """A partition without offset or reset has nothing to commit."""
        positions = Positions()
        positions.begin(P0, None)
        self.assertIsNone(positions.get(P0))
        self.assertEqual(positions.uncommitted(), {})

    def test_dropped(self) -> None:
        """A dropped partition is not committed, whatever a late loop reports."""
        positions = Positions()
        positions.begin(P0, 5)
        positions.drop([P0])
        positions.reached(P0, 9)
        positions.committed({P0: 9})
        self.assertEqual((positions.uncommitted(), positions.all()), ({}, []))

    def test_begun_already(self) -> None:
        """A partition that was kept goes on where it is."""
        positions = Positions()
        positions.begin(P0, 5)
        positions.reached(P0, 9)
        positions.begin(P0, 5)
        self.assertEqual(positions.get(P0), 9)
