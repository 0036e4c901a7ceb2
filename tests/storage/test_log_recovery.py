"""Recovery of logs: all kinds of damage, and the log messages about it."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.log import Log
from logbus.storage.log_recovery import Progress
from logbus.storage.offset_lookup import offset_for_timestamp
from logbus.storage.settings import StorageSettings
from logbus.testing.simulation.environment.memory_disk import Directory, Inode, MemoryDisk
from tests.storage.builders import NOW_MS, PARTITION, a_manager, batch, data_of, finish, offsets_of, read_all

CONFIG = TopicConfig(segment_bytes=1000, index_interval_bytes=150)
SIZE = len(batch(b"%06d" % 0))


class RecoveryTests(SynchronousTestCase):
    """A log of 40 batches in several segments, to be damaged."""

    def setUp(self) -> None:
        self.disk = MemoryDisk()
        log = self.open()
        self.assertIsNone(self.manager.get(PARTITION))
        log = self.successResultOf(self.manager.create(PARTITION))
        for i in range(40):
            append_as_leader(
                log, batch(b"%06d" % i, timestamp=NOW_MS + i, producer_id=9, producer_epoch=0, base_sequence=i), i // 10
            )
        self.bases = [segment.base_offset for segment in log.segments]
        self.assertGreater(len(self.bases), 3)
        self.last = self.bases[-1]
        self.log_directory = self.directory()

    def open(self) -> Log | None:
        """A broker's next life on the same disk; the last one is simply forgotten."""
        self.disk = self.disk.after_kill()
        self.manager = a_manager(self.disk, default_config=CONFIG)
        self.successResultOf(self.manager.open())
        return self.manager.get(PARTITION)

    def directory(self) -> dict[str, Inode | Directory]:
        entry = self.disk.tree.entries["orders-0"]
        assert isinstance(entry, Directory)
        return entry.entries

    def file(self, base: int, suffix: str) -> Inode:
        inode = self.log_directory[f"{base:020d}{suffix}"]
        assert isinstance(inode, Inode)
        return inode

    def write(self, base: int, suffix: str, data: bytes) -> None:
        inode = self.file(base, suffix)
        inode.truncate(0)
        inode.write(0, data)

    def flushed(self) -> None:
        """Stop as if everything up to here had been synced and put down."""
        log = self.manager.get(PARTITION)
        assert log is not None
        self.successResultOf(log.flusher.write_back_and_wait())
        self.successResultOf(self.manager.directories[0].checkpoint_recovery_points())

    def closed(self) -> None:
        self.successResultOf(self.manager.close())

    def reopened(self, end: int = 40) -> Log:
        """The log of the next life, which must hold exactly the first ``end`` records, and find them all."""
        log = self.open()
        assert log is not None
        self.assertEqual([value for _, value in read_all(log)], [b"%06d" % i for i in range(end)])
        for offset in range(end):
            self.assertEqual(offsets_of(data_of(log.read(offset, 1).data)), [offset])
            found = finish(offset_for_timestamp(log, NOW_MS + offset))
            assert found is not None
            self.assertEqual((found.offset, found.epoch), (offset, offset // 10))
        self.assertIsNone(finish(offset_for_timestamp(log, NOW_MS + end)))
        self.assertEqual(list(log.epochs), [(e, e * 10) for e in range((end + 9) // 10)])
        entry = log.producers.get(9)
        assert entry is not None
        self.assertEqual((entry.last_sequence, entry.last_offset), (end - 1, end - 1))
        more = batch(b"%06d" % end, timestamp=NOW_MS + end, producer_id=9, producer_epoch=0, base_sequence=end)
        self.assertEqual(append_as_leader(log, more, end // 10).base_offset, end)
        return log

    def cut(self, damage: Callable[[], None], end: int) -> str:
        """After ``damage`` the log ends at ``end``; the one line that says what was cut."""
        damage()
        with capturedLogs() as lines:
            self.reopened(end)
        said = [str(line["problem"]) for line in lines if "cut at offset" in (line["log_format"] or "")]
        self.assertEqual(len(said), 1)
        return said[0]

    def test_undamaged(self) -> None:
        """After a kill without damage nothing is cut, and everything is as it was."""
        with capturedLogs() as lines:
            self.reopened()
        self.assertFalse([line for line in lines if "cut" in line["log_format"]])

    def test_torn_batch(self) -> None:
        """A batch that ends in the middle is cut off."""
        inode = self.file(self.last, ".log")
        size = len(inode.content())
        count = size // SIZE
        for torn in (1, SIZE - 62, SIZE - 30):
            with self.subTest(torn=torn):
                self.setUp()
                inode = self.file(self.last, ".log")
                problem = self.cut(lambda inode=inode, torn=torn: inode.truncate(size - torn), self.last + count - 1)  # type: ignore[misc]
                self.assertIn("bytes", problem)

    def test_nonsense_behind_the_end(self) -> None:
        """Bytes that are no batch are cut off."""
        inode = self.file(self.last, ".log")
        problem = self.cut(lambda: inode.write(len(inode.content()), b"nonsense" * 40), 40)
        self.assertIn("magic", problem)

    def test_zeros_behind_the_end(self) -> None:
        """A tail of zeros, as file systems leave them, is cut off, short or long."""
        for count in (5, 300, 100_000):
            self.setUp()
            inode = self.file(self.last, ".log")
            self.cut(lambda inode=inode, count=count: inode.write(len(inode.content()), bytes(count)), 40)  # type: ignore[misc]

    def test_flipped_bit(self) -> None:
        """At a bad CRC the log ends, also in the middle, and later segments go."""
        inode = self.file(self.bases[1], ".log")
        data = bytearray(inode.content())
        data[2 * SIZE + 70] ^= 4

        problem = self.cut(lambda: self.write(self.bases[1], ".log", bytes(data)), self.bases[1] + 2)
        self.assertIn("CRC", problem)
        self.assertEqual(sorted(n for n in self.directory() if n.endswith(".log"))[-1], f"{self.bases[1]:020d}.log")

    def test_below_the_recovery_point(self) -> None:
        """What is synced is not scanned: a clean kill reads next to nothing."""
        self.flushed()
        with capturedLogs() as lines:
            self.reopened()
        scanned = next(line["scanned"] for line in lines if "logs opened" in line["log_format"])
        self.assertLess(scanned, 1000)

    def test_damage_below_the_recovery_point(self) -> None:
        """If the walk has to begin far before it, and meets damage, what was known of later offsets is forgotten."""
        self.flushed()

        def damage() -> None:
            directory = self.directory()
            for name in [name for name in directory if name.endswith(".snapshot")]:
                del directory[name]
            inode = directory[f"{self.bases[1]:020d}.log"]
            assert isinstance(inode, Inode)
            inode.write(16, b"\0")

        self.assertIn("magic 0", self.cut(damage, self.bases[1]))

    def test_indexes(self) -> None:
        """Indexes that are missing, of a wrong length, full of zeros or from another life are rebuilt."""
        for name, damage in {
            "missing": lambda data: None,
            "wrong length": lambda data: data + b"\0" * 5,
            "zeros": lambda data: bytes(len(data)),
            "empty": lambda data: b"",
            "short": lambda data: data[: len(data) // 24 * 12],
            "behind the end": lambda data: data + b"\x7f\xff\xff\xff" * 6,
            "wrong positions": lambda data: data[:-1] + bytes([data[-1] ^ 1]) if data else data,
        }.items():
            for suffix in (".index", ".timeindex"):
                for stop in (self.flushed, self.closed, lambda: None):
                    if suffix == ".timeindex" and name in ("wrong positions", "behind the end"):
                        continue
                    with self.subTest(damage=name, suffix=suffix, stop=stop):
                        self.setUp()
                        stop()
                        for base in self.bases:
                            path = f"{base:020d}{suffix}"
                            if path not in self.log_directory:
                                continue
                            damaged = damage(self.file(base, suffix).content())
                            if damaged is None:
                                del self.log_directory[path]
                            elif damaged != self.file(base, suffix).content() and (
                                damaged or name != "wrong positions"
                            ):
                                self.write(base, suffix, damaged)
                        self.reopened()

    def test_append_first_with_a_wrong_index(self) -> None:
        """An index that is well formed but wrong is noticed by an append, too."""
        log = self.manager.get(PARTITION)
        assert log is not None
        for i in range(40, 44):
            append_as_leader(log, batch(b"%06d" % i, timestamp=NOW_MS + i), 3)
        self.closed()
        data = self.file(self.last, ".index").content()
        self.write(self.last, ".index", data[:-1] + bytes([data[-1] ^ 1]))
        again = self.open()
        assert again is not None
        append_as_leader(again, batch(b"%06d" % 44, timestamp=NOW_MS + 44), 3)
        self.assertEqual([value for _, value in read_all(again)], [b"%06d" % i for i in range(45)])

    def test_snapshots(self) -> None:
        """Missing and corrupt producer snapshots cost a longer scan, nothing else."""
        for stop in (self.flushed, self.closed, lambda: None):
            for damage in ("missing", "corrupt"):
                with self.subTest(damage=damage, stop=stop):
                    self.setUp()
                    stop()
                    for name in [name for name in self.log_directory if name.endswith(".snapshot")]:
                        if damage == "missing":
                            del self.log_directory[name]
                        else:
                            inode = self.log_directory[name]
                            assert isinstance(inode, Inode)
                            inode.write(0, b"\xff")
                    self.reopened()

    def test_epoch_file_damaged(self) -> None:
        """Without its file the epochs of what is scanned are known."""
        inode = self.log_directory["leader-epoch-checkpoint"]
        assert isinstance(inode, Inode)
        inode.truncate(3)
        self.reopened()

    def test_epochs_before_the_recovery_point(self) -> None:
        """A recovery that starts before an epoch does leaves the epoch history as it is."""
        for stop in (self.closed, self.flushed):
            with self.subTest(stop=stop):
                self.setUp()
                log = self.manager.get(PARTITION)
                assert log is not None
                append_as_leader(log, batch(b"x"), 9)
                expected = list(log.epochs)
                stop()
                for _ in range(2):
                    again = self.open()
                    assert again is not None
                    self.assertEqual(list(again.epochs), expected)

    def test_checkpoints_damaged(self) -> None:
        """Without recovery points the whole log is scanned."""
        self.flushed()
        self.disk.replace("recovery-point-offset-checkpoint", b"\0\0\0")
        self.reopened()

    def test_leftovers(self) -> None:
        """Files of deleted segments, half-written replacements and orphaned indexes go."""
        for name in ("00000000000000000003.log.deleted", "x.tmp", "00000000000000000003.index"):
            self.disk.open(f"orders-0/{name}", create=True)
        self.reopened()
        self.assertFalse(
            [n for n in self.directory() if n.endswith((".deleted", ".tmp")) or n.startswith("0" * 19 + "3")]
        )

    def test_progress(self) -> None:
        """A long recovery says how far it is, every five seconds."""
        clock = Clock()
        progress = Progress(clock.seconds)
        log = self.manager.get(PARTITION)
        assert log is not None
        with capturedLogs() as lines:
            for _ in range(11):
                clock.advance(1)
                progress.add(log, 1000, 5000, log.segments[0])
        self.assertEqual([line["scanned"] for line in lines], [5000, 10_000])

    def test_clean_stop(self) -> None:
        """After a clean stop nothing is scanned, and the marker is gone before anything is written."""
        self.closed()
        self.assertIn(".logbus_cleanshutdown", self.disk.names(""))
        with capturedLogs() as lines:
            log = self.open()
        assert log is not None
        self.assertNotIn(".logbus_cleanshutdown", self.disk.names(""))
        opened = next(line for line in lines if "logs opened" in line["log_format"])
        self.assertEqual((opened["count"], opened["recovered"], opened["scanned"]), (1, 0, 0))
        self.assertEqual(self.disk.open_files, 0)
        self.closed()
        self.reopened()

    def test_damage_after_a_clean_stop(self) -> None:
        """A log that is not what the marker says is recovered, the marker notwithstanding."""
        self.closed()
        inode = self.file(self.last, ".log")
        self.cut(lambda: inode.write(len(inode.content()), b"nonsense" * 40), 40)

    def test_damaged_marker(self) -> None:
        """A damaged marker counts as none."""
        self.closed()
        self.disk.replace(".logbus_cleanshutdown", b"00000000\n{}")
        self.reopened()

    @settings(max_examples=60, deadline=None)
    @given(st.integers(0), st.integers(0, 7))
    def test_any_flipped_bit(self, at: int, bit: int) -> None:
        """Wherever a bit flips, what comes back is a run of the records that were written, from the start."""
        self.setUp()
        base = self.bases[at % len(self.bases)]
        data = bytearray(self.file(base, ".log").content())
        data[at % len(data)] ^= 1 << bit
        self.write(base, ".log", bytes(data))
        log = self.open()
        assert log is not None
        found = [value for _, value in read_all(log)]
        # Offset and epoch lie outside the CRC's reach: a batch that claims a later offset looks like a gap.
        self.assertEqual(found, [b"%06d" % i for i in range(len(found))])
        self.assertGreaterEqual(len(found), base)


class ManyBatchesTests(SynchronousTestCase):
    """Sizes around those of the chunks that recovery reads."""

    def test_batches_larger_than_a_chunk(self) -> None:
        """A batch is put together from as many bytes as it takes."""
        disk = MemoryDisk()
        settings = StorageSettings(write_back_bytes=1 << 40)
        config = TopicConfig(max_message_bytes=1 << 23)
        manager = a_manager(disk, settings=settings, default_config=config)
        self.successResultOf(manager.open())
        log = self.successResultOf(manager.create(PARTITION))
        sizes = [10, 1 << 20, (1 << 20) - 70, 5, 3 << 20, 100, 70_000, 65_536]
        for size in sizes:
            append_as_leader(log, batch(b"x" * size), 0)
        manager = a_manager(disk.after_kill(), settings=settings, default_config=config)
        self.successResultOf(manager.open())
        again = manager.get(PARTITION)
        assert again is not None
        self.assertEqual([len(value or b"") for _, value in read_all(again)], sizes)
