"""The records of MirrorMaker 2's topics."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import DecodeError
from logbus.mirror.copied_range import CopiedRange, TopicIds, decode_range
from logbus.mirror.mirror_records import Checkpoint, Heartbeat, OffsetSync
from logbus.model import TopicPartition

OFFSETS = st.integers(0, 2**62)
NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
PARTITIONS = st.builds(TopicPartition, NAMES, st.integers(0, 2**31 - 1))


class FormatTests(SynchronousTestCase):
    """Bytes as Apache's classes OffsetSync, Checkpoint and Heartbeat write them."""

    def test_offset_sync(self) -> None:
        """Topic and partition are the key, both offsets the value."""
        sync = OffsetSync(TopicPartition("orders", 3), 17, 42)
        self.assertEqual(sync.key.hex(), "0006" + b"orders".hex() + "00000003")
        self.assertEqual(sync.value.hex(), "0000000000000011" + "000000000000002a")

    def test_checkpoint(self) -> None:
        """Group, topic and partition are the key; a version, both offsets and the metadata the value."""
        checkpoint = Checkpoint("billing", TopicPartition("a.orders", 3), 17, 42, "m")
        self.assertEqual(checkpoint.key.hex(), "0007" + b"billing".hex() + "0008" + b"a.orders".hex() + "00000003")
        self.assertEqual(checkpoint.value.hex(), "0000" + "0000000000000011" + "000000000000002a" + "0001" + "6d")

    def test_heartbeat(self) -> None:
        """Both aliases are the key; a version and the time the value."""
        beat = Heartbeat("a", "bc", 258)
        self.assertEqual(beat.key.hex(), "000161" + "00026263")
        self.assertEqual(beat.value.hex(), "0000" + "0000000000000102")

    @given(PARTITIONS, OFFSETS, OFFSETS, NAMES, NAMES)
    def test_round_trip(
        self, partition: TopicPartition, upstream: int, downstream: int, group: str, metadata: str
    ) -> None:
        """What is written is read."""
        sync = OffsetSync(partition, upstream, downstream)
        self.assertEqual(OffsetSync.decode(sync.key, sync.value), sync)
        checkpoint = Checkpoint(group, partition, upstream, downstream, metadata)
        self.assertEqual(Checkpoint.decode(checkpoint.key, checkpoint.value), checkpoint)

    def test_the_longest_metadata(self) -> None:
        """Longer metadata than the format allows are left out, not the offset."""
        for metadata, kept in (("x" * 32_767, 32_767), ("x" * 32_768, 0), ("ä" * 16_384, 0)):
            checkpoint = Checkpoint("g", TopicPartition("t", 0), 1, 2, metadata)
            found = Checkpoint.decode(checkpoint.key, checkpoint.value)
            self.assertEqual((found.downstream, len(found.metadata)), (2, kept))

    @given(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40))
    def test_anything(self, key: bytes | None, value: bytes | None) -> None:
        """Other records are refused."""
        for kind in (OffsetSync, Checkpoint):
            try:
                kind.decode(key, value)
            except DecodeError:
                pass


class RangeTests(SynchronousTestCase):
    """Ranges of copied records."""

    @given(PARTITIONS, OFFSETS, OFFSETS, st.integers(1, 2**40), st.integers(0, 9), st.uuids(), st.uuids())
    def test_round_trip(
        self, partition: TopicPartition, up: int, down: int, count: int, gap: int, source: UUID, target: UUID
    ) -> None:
        """A range is read from the offset sync of its last record and the header."""
        one, ids = CopiedRange(partition, up, down, count, up + count + gap), TopicIds(source, target)
        sync = one.sync()
        self.assertEqual(decode_range(sync.key, sync.value, one.headers(ids)), (one, ids))

    def test_of_mirror_maker(self) -> None:
        """An offset sync without the header is about one record."""
        sync = OffsetSync(TopicPartition("t", 0), 7, 9)
        found, ids = decode_range(sync.key, sync.value, ())
        self.assertEqual((found.upstream, found.downstream, found.count, found.next_offset), (7, 9, 1, 8))
        self.assertEqual(ids, TopicIds())

    def test_joined(self) -> None:
        """Two ranges are one if neither side has a gap between them."""
        partition = TopicPartition("t", 0)
        first = CopiedRange(partition, 0, 10, 5, 5)
        self.assertEqual(first.joined(CopiedRange(partition, 5, 15, 2, 9)), CopiedRange(partition, 0, 10, 7, 9))
        self.assertIsNone(first.joined(CopiedRange(partition, 6, 15, 2, 9)))
        self.assertIsNone(first.joined(CopiedRange(partition, 5, 16, 2, 9)))
