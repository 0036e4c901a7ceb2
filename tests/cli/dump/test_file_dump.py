"""Tests of :mod:`logbus.cli.dump.file_dump`: intact and damaged files."""

from __future__ import annotations

import uuid
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.dump.file_dump import UnknownFileType, dump, is_dumpable
from logbus.model import TopicPartition
from logbus.records.batch import ControlType, Marker, encode_batch, encode_marker_batch
from logbus.records.compression import Codec
from logbus.records.record import Record
from logbus.storage import checkpoints
from logbus.storage.leader_epoch_cache import LeaderEpochCache
from logbus.storage.producers.producer_snapshot import encode_snapshot
from logbus.storage.producers.producer_state_manager import BatchMetadata, ProducerStateEntry, ProducerStateManager
from logbus.storage.segments import transaction_index
from logbus.storage.segments.indexes import OFFSET_ENTRY, TIME_ENTRY
from logbus.storage.segments.transaction_index import AbortedTransaction

NAME = "00000000000000000010"


def batch(offset: int, *values: bytes, **options: Any) -> bytes:
    return encode_batch([Record(0, 1000 + offset, b"k", value) for value in values], base_offset=offset, **options)


class DumpTests(SynchronousTestCase):
    def setUp(self) -> None:
        scratch = TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)

    def dump(self, name: str, data: bytes, **options: bool) -> list[dict[str, Any]]:
        (self.directory / name).write_bytes(data)
        return list(dump(self.directory / name, **options))

    def damage(self, name: str, data: bytes, **options: bool) -> list[tuple[int, str]]:
        found = self.dump(name, data, **options)
        return [(each["position"], each["damage"]) for each in found if "damage" in each]

    def test_a_segment_in_tiered_storage(self) -> None:
        """The records of an object in a directory are checked like those of the segment that it was."""
        name, data = f"{NAME}-{uuid.UUID(int=7)}.log", batch(10, b"a")
        self.assertEqual(self.damage(name, data), [])
        self.assertEqual([each["base_offset"] for each in self.dump(name, data)], [10])
        (damage,) = self.damage(name, data[:-1] + b"?")
        self.assertIn("CRC", damage[1])
        self.assertEqual(
            [is_dumpable(Path(each)) for each in (name, f"{NAME}-x.log", "7-x.chunks")], [True, False, False]
        )

    def test_a_segment(self) -> None:
        """
        Each batch with where it is and what its header says, and its records when asked for.
        """
        first = batch(10, b"a", b"b", codec=Codec.ZSTD)
        second = encode_marker_batch(
            Marker(ControlType.ABORT, 3), producer_id=5, producer_epoch=1, timestamp=9, base_offset=12
        )
        found = self.dump(f"{NAME}.log", first + second, records=True)
        self.assertEqual([each["position"] for each in found], [0, len(first)])
        self.assertEqual((found[0]["base_offset"], found[0]["last_offset"], found[0]["codec"]), (10, 11, "zstd"))
        self.assertEqual([each["value"] for each in found[0]["records"]], ["a", "b"])
        self.assertEqual((found[1]["control"], found[1]["producer_id"]), (True, 5))
        self.assertEqual(found[1]["records"][0]["marker"], "abort")
        self.assertEqual(self.dump(f"{NAME}.log", b""), [])

    def test_wrong_crc(self) -> None:
        """A damaged batch is shown with its position, and the dump goes on behind it."""
        first, second = bytearray(batch(10, b"a")), batch(11, b"b")
        first[-2] ^= 1
        ((position, what),) = self.damage(f"{NAME}.log", bytes(first) + second)
        self.assertEqual(position, 0)
        self.assertIn("CRC", what)
        self.assertEqual(len(self.dump(f"{NAME}.log", bytes(first) + second)), 2)

    def test_a_torn_end(self) -> None:
        """
        A batch cut short, and less than a header, are told with what is left.
        """
        whole = batch(10, b"a")
        ((position, what),) = self.damage(f"{NAME}.log", whole + batch(11, b"b" * 50)[:-5])
        self.assertEqual(position, len(whole))
        self.assertIn("no batch begins here", what)
        self.assertEqual(self.damage(f"{NAME}.log", whole + b"\0" * 7)[0][0], len(whole))

    def test_descending_offsets(self) -> None:
        """
        A batch before the end of the one before it, or before the segment's own offset, is out of place.
        """
        self.assertIn("below 12", self.damage(f"{NAME}.log", batch(10, b"a", b"b") + batch(11, b"c"))[0][1])
        self.assertIn("below 10", self.damage(f"{NAME}.log", batch(9, b"a"))[0][1])

    def test_unreadable_records(self) -> None:
        """A deep dump finds a batch with a correct CRC and invalid records."""
        from logbus.records.header import CRC, CRC_AT, batch_crc

        data = bytearray(batch(10, b"abc"))
        data[61] = 2
        CRC.pack_into(data, CRC_AT, batch_crc(data, 0, len(data)))
        self.assertEqual(self.damage(f"{NAME}.log", bytes(data)), [])
        self.assertIn("cannot be read", self.damage(f"{NAME}.log", bytes(data), deep=True)[0][1])

    @given(st.binary(max_size=200), st.integers(min_value=0, max_value=150), st.booleans())
    def test_arbitrary_bytes(self, noise: bytes, keep: int, deep: bool) -> None:
        """
        Whatever the bytes are, the dump ends and every item has its position.
        """
        path = self.directory / f"{NAME}.log"
        path.write_bytes(batch(10, b"abcdef", b"g")[:keep] + noise)
        for each in dump(path, deep=deep, records=True):
            self.assertIn("position", each)

    def test_offset_indexes(self) -> None:
        """
        Entries are shown absolute; those that go back, point at no batch, or are cut off are damage.
        """
        first, second = batch(10, b"a"), batch(11, b"b", b"c")
        (self.directory / f"{NAME}.log").write_bytes(first + second)
        good = OFFSET_ENTRY.pack(0, 0) + OFFSET_ENTRY.pack(2, len(first))
        (a, b) = self.dump(f"{NAME}.index", good, deep=True)
        self.assertEqual((a["offset"], b["offset"], b["segment_position"]), (10, 12, len(first)))
        self.assertEqual(self.damage(f"{NAME}.index", good, deep=True), [])
        self.assertIn("no batch", self.damage(f"{NAME}.index", OFFSET_ENTRY.pack(0, 5), deep=True)[0][1])
        self.assertIn("ends with 10", self.damage(f"{NAME}.index", OFFSET_ENTRY.pack(1, 0), deep=True)[0][1])
        self.assertIn("behind", self.damage(f"{NAME}.index", good + OFFSET_ENTRY.pack(1, 5))[0][1])
        self.assertEqual(self.damage(f"{NAME}.index", good + b"xyz")[0][0], 16)

    def test_preallocated_indexes(self) -> None:
        """An index of a segment that Kafka writes to ends with zeros, which are no entries."""
        for name, entry in ((f"{NAME}.index", OFFSET_ENTRY), (f"{NAME}.timeindex", TIME_ENTRY)):
            self.assertEqual(len(self.dump(name, entry.pack(3, 4) + bytes(entry.size * 100))), 1)
            self.assertEqual(self.dump(name, bytes(entry.size * 100)), [])
            self.assertEqual(len(self.dump(name, bytes(entry.size))), 1)

    def test_time_indexes(self) -> None:
        """
        An entry that promises too early a time for what the segment holds is damage.
        """
        (self.directory / f"{NAME}.log").write_bytes(batch(10, b"a") + batch(11, b"b"))
        good = TIME_ENTRY.pack(1010, 0) + TIME_ENTRY.pack(1011, 1)
        self.assertEqual([each["offset"] for each in self.dump(f"{NAME}.timeindex", good, deep=True)], [10, 11])
        self.assertEqual(self.damage(f"{NAME}.timeindex", good, deep=True), [])
        self.assertIn("later", self.damage(f"{NAME}.timeindex", TIME_ENTRY.pack(1010, 1), deep=True)[0][1])
        self.assertIn("ends at 11", self.damage(f"{NAME}.timeindex", TIME_ENTRY.pack(2000, 9), deep=True)[0][1])

    def test_snapshots(self) -> None:
        """
        Producers and where they are; a wrong CRC is told.
        """
        producers = ProducerStateManager(10, [ProducerStateEntry(5, 1, [BatchMetadata(0, 3, 4, 7, 99)], 99)])
        data = encode_snapshot(producers)
        (found,) = self.dump(f"{NAME}.snapshot", data)
        self.assertEqual((found["producer_id"], found["last_sequence"], found["last_offset"]), (5, 3, 7))
        self.assertIn("CRC", self.damage(f"{NAME}.snapshot", data[:-1] + b"?")[0][1])

    def test_small_files(self) -> None:
        """
        Checkpoints, the topic's id, whose directory it is, the marker of a clean stop; and damage to any of them.
        """
        topic_id = uuid.uuid4()
        offsets = checkpoints.encode_offsets({TopicPartition("t", 3): 17})
        for name in (checkpoints.RECOVERY_POINTS, checkpoints.LOG_START_OFFSETS, checkpoints.HIGH_WATERMARKS):
            self.assertEqual(self.dump(name, offsets), [{"topic": "t", "partition": 3, "offset": 17}])
            self.assertEqual(len(self.damage(name, offsets[:-1])), 1)
        small = {
            "leader-epoch-checkpoint": (LeaderEpochCache([(2, 5)]).encode(), {"epoch": 2, "start_offset": 5}),
            "partition.metadata": (checkpoints.encode_partition_metadata(topic_id), {"topic_id": str(topic_id)}),
            "meta.properties": (
                checkpoints.MetaProperties(4, "me", 2).encode(),
                {"broker_id": 4, "cluster_id": "me", "directories": 2},
            ),
            checkpoints.CLEAN_SHUTDOWN: (
                checkpoints.encode_marker([checkpoints.encode_marker_entry("t-0", {"a": 1})]),
                {"log": "t-0", "state": {"a": 1}},
            ),
        }
        for name, (data, item) in small.items():
            self.assertEqual(self.dump(name, data), [item])
            self.assertEqual(len(self.damage(name, b"nonsense")), 1, name)

    def test_aborted_transactions(self) -> None:
        """
        Entries are shown as they are; those that cannot be, and those of which the segment has no marker, are damage.
        """
        marker = encode_marker_batch(
            Marker(ControlType.ABORT, 3), producer_id=5, producer_epoch=1, timestamp=9, base_offset=12
        )
        (self.directory / f"{NAME}.log").write_bytes(batch(10, b"a", b"b") + marker)
        name = f"{NAME}.txnindex"
        (entry,) = self.dump(name, transaction_index.encode([AbortedTransaction(5, 7, 12, 13)]), deep=True)
        self.assertEqual(
            entry,
            {"position": 0, "producer_id": 5, "first_offset": 7, "last_offset": 12, "last_stable_offset": 13},
        )
        good = AbortedTransaction(5, 7, 12, 13)
        for entries, position, what in (
            ([good, AbortedTransaction(6, 10, 11, 13)], transaction_index.ENTRY_SIZE, "does not lie behind"),
            ([AbortedTransaction(5, 12, 9, 13)], 0, "no transaction of this segment, which begins at 10"),
            ([AbortedTransaction(5, 7, 9, 13)], 0, "no transaction of this segment"),
            ([AbortedTransaction(6, 7, 12, 13)], 0, "no marker of producer 6"),
            ([AbortedTransaction(5, 7, 10, 13)], 0, "no marker of producer 5"),
        ):
            self.assertEqual(
                [at for at, _ in self.damage(name, transaction_index.encode(entries), deep=True)], [position]
            )
            self.assertIn(what, self.damage(name, transaction_index.encode(entries), deep=True)[0][1])
        self.assertEqual(self.damage(name, transaction_index.encode([AbortedTransaction(6, 7, 12, 13)])), [])
        self.assertIn("version 1", self.damage(name, b"\0\1" + transaction_index.encode([good])[2:])[0][1])
        self.assertEqual(
            self.damage(name, transaction_index.encode([good])[:-3])[0],
            (0, "31 bytes at the end are less than an entry of 34"),
        )

    def test_kafkas_own_properties(self) -> None:
        """
        A directory of Kafka's is shown, though a broker of ours would not take it over.
        """
        found = self.dump("meta.properties", b"#\n#Fri May 1\nnode.id=1\nversion=1\ncluster.id=abc\n")
        self.assertEqual(found, [{"node.id": "1", "version": "1", "cluster.id": "abc"}])

    def test_unknown_files(self) -> None:
        """A file that does not belong in a log directory is refused; the error lists the names that do."""
        error = self.assertRaises(UnknownFileType, self.dump, "notes.txt", b"")
        self.assertIn("*.log", str(error))
