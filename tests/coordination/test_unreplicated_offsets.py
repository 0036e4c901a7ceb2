"""Tests of :mod:`logbus.coordination.unreplicated_offsets`."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.committed_offset import CommittedOffset
from logbus.coordination.unreplicated_offsets import UnreplicatedOffsets
from logbus.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ONE, TWO = CommittedOffset(1), CommittedOffset(2)


class UnreplicatedOffsetsTests(SynchronousTestCase):
    """Changes at offsets 10, 11, and so on."""

    def setUp(self) -> None:
        self.offsets = UnreplicatedOffsets()
        self.offsets.changed("g", A, 10, ONE)
        self.offsets.changed("g", B, 11, None)
        self.offsets.changed("other", A, 12, None)

    def test_before(self) -> None:
        """What a group had, and that it had nothing; other groups' changes are not its own."""
        self.assertEqual(self.offsets.before("g"), {A: ONE, B: None})
        self.assertEqual(self.offsets.before("nobody"), {})

    def test_replicated(self) -> None:
        """A change counts once it is below the high watermark."""
        self.offsets.replicated(10)
        self.assertEqual(self.offsets.before("g"), {A: ONE, B: None})
        self.offsets.replicated(11)
        self.assertEqual(self.offsets.before("g"), {B: None})
        self.offsets.replicated(13)
        self.assertEqual((self.offsets.before("g"), self.offsets.before("other")), ({}, {}))

    def test_changed_again(self) -> None:
        """Of several changes of a partition, those that are replicated count, whatever comes after them."""
        self.offsets.changed("g", A, 13, TWO)
        self.assertEqual(self.offsets.before("g"), {A: ONE, B: None})
        self.offsets.replicated(12)
        self.assertEqual(self.offsets.before("g"), {A: TWO})
        self.offsets.replicated(14)
        self.assertEqual(self.offsets.before("g"), {})
