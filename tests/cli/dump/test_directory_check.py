"""Tests of :mod:`logbus.cli.dump.directory_check` and ``logbus verify``: planted damage, and none."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.commands.verify import verify
from logbus.cli.dump.directory_check import MAX_FINDINGS, check, files_of
from logbus.model import TopicPartition
from logbus.records.batch import encode_batch
from logbus.records.header import CRC, CRC_AT, batch_crc
from logbus.records.record import Record
from logbus.storage import checkpoints
from logbus.storage.filesystem.directory_lock import LOCK_FILE
from logbus.storage.leader_epoch_cache import LeaderEpochCache
from logbus.storage.segments.indexes import OFFSET_ENTRY, TIME_ENTRY

NAME = "00000000000000000000"
BATCHES = [encode_batch([Record(0, 1000 + n, b"k", b"v%d" % n)], base_offset=n) for n in range(3)]
SEGMENT = b"".join(BATCHES)
UNCOVERED = {*range(8), *range(12, 16)}
"""Bytes of a batch that its CRC does not cover, and that another batch could have: base offset, leader epoch."""
PARTITION = TopicPartition("orders", 0)


def _batch(offset: int, epoch: int) -> bytes:
    """A batch of one record."""
    return encode_batch([Record(0, 1000 + offset, b"k", b"v%d" % offset)], base_offset=offset, leader_epoch=epoch)


class VerifyTests(SynchronousTestCase):
    def setUp(self) -> None:
        scratch = TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name) / "data"
        self.log = self.root / "orders-0"
        self.log.mkdir(parents=True)
        (self.log / f"{NAME}.log").write_bytes(SEGMENT)
        (self.log / f"{NAME}.index").write_bytes(OFFSET_ENTRY.pack(1, len(BATCHES[0])))
        (self.log / f"{NAME}.timeindex").write_bytes(TIME_ENTRY.pack(1001, 1))
        (self.log / "leader-epoch-checkpoint").write_bytes(LeaderEpochCache([(0, 0)]).encode())
        for name in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS, checkpoints.CLEANED_OFFSETS):
            (self.root / name).write_bytes(checkpoints.encode_offsets({PARTITION: 3}))
        (self.root / LOCK_FILE).write_bytes(b"1\n")

    def verify(self, *options: str) -> Result:
        return CliRunner().invoke(verify, [str(self.root), *options])

    def test_unfinished_restore(self) -> None:
        """A directory on which no broker starts is not one with nothing wrong, be there logs in it or none yet."""
        (self.root / checkpoints.UNFINISHED_RESTORE).touch()
        result = self.verify()
        self.assertEqual(result.exit_code, 1)
        self.assertIn("a restore was not finished", result.output)
        self.assertIn("Remove the directory, and restore again.", result.output)
        self.assertIn("1 finding\n", result.output)
        self.root = self.root.parent / "empty"
        self.root.mkdir()
        (self.root / checkpoints.UNFINISHED_RESTORE).touch()
        self.assertEqual(self.verify().exit_code, 1)

    def test_nothing_wrong(self) -> None:
        """An intact directory has no findings, and nothing in it is changed."""
        before = {path: path.read_bytes() for path, _ in files_of(self.root)}
        result = self.verify()
        self.assertEqual((result.exit_code, result.output.endswith("no findings\n")), (0, True), result.output)
        self.assertEqual({path: path.read_bytes() for path, _ in files_of(self.root)}, before)

    @given(st.integers(0, len(SEGMENT) - 1), st.integers(1, 255))
    def test_a_changed_byte(self, at: int, change: int) -> None:
        """Any changed byte that a CRC covers, or that says where batches begin, is found."""
        if at % len(BATCHES[0]) in UNCOVERED:
            return
        data = bytearray(SEGMENT)
        data[at] ^= change
        (self.log / f"{NAME}.log").write_bytes(data)
        self.assertNotEqual(list(check(files_of(self.root), lambda path, read: None)), [])

    def test_damaged_files(self) -> None:
        """Each finding names the file, what is wrong, what a broker does, and what to do."""
        for name in (
            "orders-0/leader-epoch-checkpoint",
            f"orders-0/{NAME}.index",
            f"orders-0/{NAME}.timeindex",
            f"orders-0/{NAME}.snapshot",
            "orders-0/partition.metadata",
            checkpoints.RECOVERY_POINTS,
            checkpoints.CLEANED_OFFSETS,
            checkpoints.CLEAN_SHUTDOWN,
            checkpoints.META_PROPERTIES,
        ):
            path = self.root / name
            kept = path.read_bytes() if path.exists() else None
            path.write_bytes(b"damaged")
            result = self.verify("--json")
            self.assertEqual(result.exit_code, 1, name)
            found = [json.loads(line) for line in result.output.splitlines()]
            self.assertEqual({each["file"] for each in found}, {str(path)})
            self.assertTrue(found[0]["what"] and found[0]["effect"] and found[0]["remedy"])
            if kept is None:
                path.unlink()
            else:
                path.write_bytes(kept)

    def test_records_that_were_sent_so(self) -> None:
        """A batch with the right checksum is not cut: the advice is not that for damage on the disk."""
        data = bytearray(SEGMENT)
        data[61] = 2
        CRC.pack_into(data, CRC_AT, batch_crc(data, 0, len(BATCHES[0])))
        (self.log / f"{NAME}.log").write_bytes(data)
        (found,) = map(json.loads, self.verify("--json").output.splitlines())
        self.assertIn("its checksum is right, but its records cannot be read", found["what"])
        self.assertIn("the batch stays", found["effect"])

    def test_lost_records(self) -> None:
        """A log that ends below its checkpoints has lost records."""
        (self.root / checkpoints.HIGH_WATERMARKS).write_bytes(checkpoints.encode_offsets({PARTITION: 9}))
        result = self.verify()
        self.assertEqual(result.exit_code, 1)
        self.assertIn("orders-0 has offset 9, but its log ends at 3", result.output)

    def test_a_lost_log(self) -> None:
        """A checkpoint that names a log that is not here is told, unless the log was about to be removed."""
        offsets = {PARTITION: 3, TopicPartition("gone", 1): 7, TopicPartition("empty", 0): 0}
        (self.root / checkpoints.HIGH_WATERMARKS).write_bytes(checkpoints.encode_offsets(offsets))
        result = self.verify()
        self.assertEqual(result.exit_code, 1)
        self.assertIn("gone-1 has offset 7, but its log is not here", result.output)
        self.assertIn("1 finding", result.output)
        (self.root / f"gone-1.{'a' * 32}-delete").mkdir()
        self.assertEqual(self.verify().exit_code, 0)

    def test_leader_epochs(self) -> None:
        """An epoch that the batches do not have is told; one that is not saved yet is not."""
        path = self.log / "leader-epoch-checkpoint"
        path.write_bytes(LeaderEpochCache([(0, 0), (2, 1)]).encode())
        result = self.verify()
        self.assertEqual(result.exit_code, 0, result.output)
        (self.log / f"{NAME}.log").write_bytes(b"".join(_batch(n, epoch) for n, epoch in enumerate((0, 1, 3))))
        result = self.verify()
        self.assertEqual(result.exit_code, 1)
        self.assertIn("offset 1 has epoch 2 there, but 1 in the log", result.output)
        path.write_bytes(LeaderEpochCache([(0, 0), (1, 1)]).encode())
        self.assertEqual(self.verify().exit_code, 0)

    def test_leftovers(self) -> None:
        """What a start removes or completes is listed, and is no finding."""
        for name in (f"{NAME}.log.swap", f"{NAME}.index.cleaned", f"{NAME}.log.deleted"):
            (self.log / name).write_bytes(b"")
        (self.root / f"old-0.{'b' * 32}-delete").mkdir()
        result = self.verify()
        self.assertEqual((result.exit_code, result.output.count("left over: ")), (0, 4), result.output)
        self.assertIn(".log.swap: A start completes the replacement.", result.output)
        told = [json.loads(line) for line in self.verify("--json").output.splitlines()]
        self.assertEqual(
            {each["leftover"] for each in told}, {"A start removes it.", "A start completes the replacement."}
        )

    def test_workers(self) -> None:
        """The directories of workers are checked each against its own checkpoints."""
        worker = self.root / "worker-1"
        (worker / "orders-1").mkdir(parents=True)
        (worker / "orders-1" / f"{NAME}.log").write_bytes(SEGMENT)
        points = {TopicPartition("orders", 1): 4}
        (worker / checkpoints.RECOVERY_POINTS).write_bytes(checkpoints.encode_offsets(points))
        result = self.verify()
        self.assertEqual(result.exit_code, 1)
        self.assertIn("orders-1 has offset 4, but its log ends at 3", result.output)

    def test_many_findings(self) -> None:
        """Of a file that is damaged throughout, the first findings are told, and the number of the rest."""
        (self.log / f"{NAME}.index").write_bytes(OFFSET_ENTRY.pack(0, 1) * (MAX_FINDINGS + 5))
        found = list(check(files_of(self.root), lambda path, read: None))
        self.assertEqual((len(found), found[-1].what), (MAX_FINDINGS + 1, "5 more"))

    def test_in_use(self) -> None:
        """While a broker holds the lock it is refused, unless asked for."""
        with (self.root / LOCK_FILE).open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            refused, asked = self.verify(), self.verify("--read-only-while-in-use")
        self.assertEqual((refused.exit_code, asked.exit_code), (2, 0))
        self.assertIn("a running broker holds", refused.output)

    def test_not_a_log_directory(self) -> None:
        """A directory without files of a log is an error, not a success."""
        result = CliRunner().invoke(verify, [str(self.root.parent / "data" / "none")])
        (self.root.parent / "empty").mkdir()
        empty = CliRunner().invoke(verify, [str(self.root.parent / "empty")])
        self.assertEqual((result.exit_code, empty.exit_code), (2, 2))
        self.assertIn("no files of a log", empty.output)
