"""Tests tables without Spark, with jobs that die at any moment."""

from __future__ import annotations

import errno
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import TestCase
from unittest.mock import patch

from attrs import define, field

from logbus.pipeline.errors import ClaimLost, LakeError
from logbus.pipeline.lake import table as tables
from logbus.pipeline.lake.commit_log import CommitKind, DataFile
from logbus.pipeline.lake.file_system import LocalFileSystem, draft_of
from logbus.pipeline.lake.load_state import TopicOffsets
from logbus.pipeline.lake.offset_set import OffsetSet
from logbus.pipeline.lake.table import Table


class Killed(BaseException):
    """The process ends here."""


@define
class KilledFiles:
    """
    Files of a process that is killed.

    :ivar left: operations that change something until then.
    """

    files: LocalFileSystem
    left: int
    done: int = field(default=0, init=False)

    @property
    def url(self) -> str:
        return self.files.url

    def names(self, directory: str) -> list[str]:
        return self.files.names(directory)

    def walk(self, directory: str) -> Iterator[tuple[str, int]]:
        return self.files.walk(directory)

    def read(self, path: str) -> bytes:
        return self.files.read(path)

    def _live(self) -> None:
        if self.done >= self.left:
            raise Killed
        self.done += 1

    def create(self, path: str, content: bytes) -> None:
        self._live()
        self.files.create(path, content)

    def move(self, source: str, target: str) -> None:
        self._live()
        self.files.move(source, target)

    def delete(self, path: str) -> None:
        self._live()
        self.files.delete(path)

    def sync(self, paths: Iterable[str]) -> None:
        self.files.sync(paths)


@define
class InterferedFiles:
    """Files with one change by somebody else between two operations."""

    files: LocalFileSystem
    before: dict[tuple[str, str], Callable[[], object]]

    @property
    def url(self) -> str:
        return self.files.url

    def __getattr__(self, name: str) -> Any:
        def call(*paths: Any) -> Any:
            for key in list(self.before):
                if key[0] == name and key[1] in str(paths[0]):
                    self.before.pop(key)()
            return getattr(self.files, name)(*paths)

        return call


def _write(files: KilledFiles, table: Table, path: str, rows: list[int]) -> DataFile:
    """What Spark does."""
    files._live()
    target = files.files.root / table.staging / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(rows))
    return DataFile(path, target.stat().st_size)


def _seen(root: Path) -> list[int]:
    """What a reader who knows nothing of commits finds."""
    found = [
        row
        for path in root.rglob("*.parquet")
        if not any(part.startswith("_") for part in path.relative_to(root).parts)
        for row in json.loads(path.read_text())
    ]
    return sorted(found)


class TableTests(TestCase):
    """Jobs on a table."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        # The order of operations is looked at here, not whether the disk keeps them.
        fsync = patch("logbus.pipeline.lake.file_system.os.fsync")
        fsync.start()
        self.addCleanup(fsync.stop)

    def job(self, root: Path, left: int) -> int:
        """Load what is missing of ten offsets, three at a time, and make one file of all; the operations it took."""
        files = KilledFiles(LocalFileSystem(root), left)
        table = Table(files)
        table.claim()
        while (start := table.state.load.held("t", 0).end) < 10:
            rows = list(range(start, min(start + 3, 10)))
            odd = [row for row in rows if row % 2]
            added = [
                _write(files, table, f"hour={start}/part-{table.writer}.parquet", [r for r in rows if r not in odd])
            ]
            added.append(_write(files, table, f"hour=odd/part-{table.writer}-{start}.parquet", odd))
            table.commit(
                CommitKind.LOAD, added, offsets={"t": TopicOffsets("", {0: OffsetSet.of((rows[0], rows[-1] + 1))})}
            )
        if len(table.state.files) > 1:
            old = list(table.state.files)
            rows = sorted(row for path in old for row in json.loads((root / path).read_text()))
            whole = _write(files, table, f"all/part-{table.writer}.parquet", rows)
            table.commit(CommitKind.COMPACT, [whole], removed=tuple(old))
        return files.done

    def test_killed_at_any_moment(self) -> None:
        """Wherever jobs are killed, twice in a row, each offset is there once in the end, and never twice before."""
        whole = self.job(self.root / "whole", 10**9)
        self.assertEqual(_seen(self.root / "whole"), list(range(10)))
        self.assertGreater(whole, 30)
        for first in range(whole):
            with self.subTest(first=first):
                root = self.root / str(first)
                for left in (first, first * 7 % whole, 10**9):
                    try:
                        self.job(root, left)
                    except Killed:
                        pass
                    seen = _seen(root)
                    self.assertEqual(len(seen), len(set(seen)))
                self.assertEqual(seen, list(range(10)))
                table = Table(LocalFileSystem(root))
                table.refresh()
                self.assertEqual(table.state.load.held("t", 0), OffsetSet.of((0, 10)))
                self.assertEqual(
                    [Path(path).name for path in table.state.files], [p.name for p in root.rglob("*.parquet")]
                )

    def test_the_later_job_takes_over(self) -> None:
        """A job that was taken over is told so when it commits, and what it wrote is gone."""
        files = LocalFileSystem(self.root)
        early, late = Table(files), Table(files)
        early.claim()
        file = _write(KilledFiles(files, 9), early, "part-early.parquet", [0])
        late.claim()
        offsets = {"t": TopicOffsets("", {0: OffsetSet.of((0, 1))})}
        late.commit(CommitKind.LOAD, [_write(KilledFiles(files, 9), late, "part-late.parquet", [0])], offsets=offsets)
        (self.root / early.staging).mkdir(parents=True)
        (self.root / early.staging / file.path).write_text("[0]")
        with self.assertRaisesRegex(ClaimLost, f"job {late.writer} has made commit 3 after commit 1"):
            early.commit(CommitKind.LOAD, [file], offsets=offsets)
        self.assertEqual(_seen(self.root), [0])

    def test_a_slow_claim(self) -> None:
        """A job that claims slowly deletes nothing of one that has claimed after it."""
        late = Table(LocalFileSystem(self.root))
        staged = []

        def overtake() -> None:
            late.claim()
            staged.append(_write(KilledFiles(LocalFileSystem(self.root), 9), late, "part-late.parquet", [0]))

        (self.root / tables.STAGING / "dead").mkdir(parents=True)
        (self.root / tables.COMMITS).mkdir()
        (self.root / tables.COMMITS / draft_of("1.json")).touch()
        slow = Table(InterferedFiles(LocalFileSystem(self.root), {("delete", "dead"): overtake}))
        slow.claim()
        offsets = {"t": TopicOffsets("", {0: OffsetSet.of((0, 1))})}
        late.commit(CommitKind.LOAD, staged, offsets=offsets)
        self.assertEqual(_seen(self.root), [0])
        with self.assertRaises(ClaimLost):
            slow.commit(CommitKind.LOAD, offsets=offsets)
        self.assertEqual(late.files.names(tables.STAGING), [])
        self.assertEqual(late.files.names(tables.COMMITS), [f"{number:020}.json" for number in (1, 2, 3)])

    def test_frozen_job(self) -> None:
        """What it committed stands, others go on from there, and it is told so."""
        late = Table(LocalFileSystem(self.root))

        def overtake() -> None:
            late.claim()
            late.commit(
                CommitKind.COMPACT,
                [_write(KilledFiles(LocalFileSystem(self.root), 9), late, "part-all.parquet", [0, 1])],
                removed=tuple(late.state.files),
            )

        slow = Table(InterferedFiles(LocalFileSystem(self.root), {("move", "part-1"): overtake}))
        slow.claim()
        added = [
            _write(KilledFiles(LocalFileSystem(self.root), 9), slow, f"part-{each}.parquet", [each])
            for each in range(2)
        ]
        offsets = {"t": TopicOffsets("", {0: OffsetSet.of((0, 2))})}
        with self.assertRaisesRegex(ClaimLost, "has made commit 4 after commit 2"):
            slow.commit(CommitKind.LOAD, added, offsets=offsets)
        self.assertEqual(_seen(self.root), [0, 1])

    def test_files_of_replaced_jobs(self) -> None:
        """What was deleted under a job's hands ends it as one that was taken over."""
        late = Table(LocalFileSystem(self.root))
        early = Table(InterferedFiles(LocalFileSystem(self.root), {("sync", ""): late.claim}))
        early.claim()
        file = _write(KilledFiles(LocalFileSystem(self.root), 9), early, "part-1.parquet", [1])
        with self.assertRaisesRegex(ClaimLost, "has made commit 2 after commit 1"):
            early.commit(CommitKind.LOAD, [file])
        self.assertEqual(_seen(self.root), [])

    def test_a_job_that_slept_longer_than_commits_are_kept(self) -> None:
        """A number whose commit was deleted is not free: what the job loads is in the table already."""
        early, late = (Table(LocalFileSystem(self.root)) for _ in range(2))
        early.claim()
        late.claim()
        offsets = {"t": TopicOffsets("", {0: OffsetSet.of((0, 1))})}
        late.commit(
            CommitKind.LOAD, [_write(KilledFiles(late.files, 9), late, "part-late.parquet", [0])], offsets=offsets
        )
        for _ in range(tables.KEEP + 2 * tables.SNAPSHOT_EVERY):
            late.commit(CommitKind.LOSS)
        self.assertNotIn(f"{2:020}.json", late.files.names(tables.COMMITS))
        file = _write(KilledFiles(early.files, 9), early, "part-early.parquet", [0])
        with self.assertRaisesRegex(ClaimLost, f"job {late.writer} has made commit .* after commit 1"):
            early.commit(CommitKind.LOAD, [file], offsets=offsets)
        self.assertEqual(_seen(self.root), [0])

    def test_a_claim_whose_draft_was_deleted(self) -> None:
        """It takes the next number."""
        late = Table(LocalFileSystem(self.root))
        early = Table(LocalFileSystem(self.root))
        early.files = InterferedFiles(LocalFileSystem(self.root), {("create", "1.json"): late.claim})
        early.claim()
        self.assertEqual(early.state.number, 2)

    def test_claims_only(self) -> None:
        """Jobs that find nothing to load leave no endless log."""
        for _ in range(2 * tables.KEEP):
            Table(LocalFileSystem(self.root)).claim()
        files = LocalFileSystem(self.root)
        self.assertLess(len(files.names(tables.COMMITS)), tables.KEEP + tables.SNAPSHOT_EVERY + 1)
        self.assertEqual(Table(files).refresh().number, 2 * tables.KEEP)

    def test_unreadable_commit(self) -> None:
        """A name without a file is said, and not looked at for ever."""
        commits = self.root / tables.COMMITS
        commits.mkdir(parents=True)
        (commits / f"{1:020}.json").symlink_to("nowhere")
        with self.assertRaisesRegex(LakeError, "0001.json.* is listed, and cannot be read"):
            Table(LocalFileSystem(self.root)).refresh()

    def test_snapshots(self) -> None:
        """The log of commits does not grow without end, and a table is read on from a snapshot."""
        files = LocalFileSystem(self.root)
        table = Table(files)
        table.claim()
        for start in range(3 * tables.KEEP):
            offsets = {"t": TopicOffsets("", {0: OffsetSet.of((start, start + 1))})}
            table.commit(CommitKind.LOAD, offsets=offsets)
        self.assertLess(len(files.names(tables.COMMITS)), tables.KEEP + tables.SNAPSHOT_EVERY + 1)
        self.assertLess(len(files.names(tables.SNAPSHOTS)), 5)
        self.assertEqual(Table(files).refresh(), table.state)
        self.assertEqual(table.state.load.held("t", 0), OffsetSet.of((0, 3 * tables.KEEP)))

    def test_synced_files_and_directories(self) -> None:
        """Files, and the directories that name them, up to the table's."""
        synced = set()
        (self.root / "a" / "b").mkdir(parents=True)
        (self.root / "a" / "b" / "f").touch()
        files = LocalFileSystem(self.root)
        with patch("logbus.pipeline.lake.file_system._sync", side_effect=synced.add):
            files.sync(["a/b/f"])
            self.assertEqual(synced, {self.root / each for each in ("", "a", "a/b", "a/b/f")})
            synced.clear()
            files.create("c/g", b"")
            self.assertEqual(synced, {self.root / each for each in ("", "c", "c/g")})

    def test_file_system_errors(self) -> None:
        """A full disk is told with the file's name, and a place without links with what they are for."""
        files = LocalFileSystem(self.root)
        full = OSError(errno.ENOSPC, "No space left on device")
        with patch("os.fsync", side_effect=full), self.assertRaises(OSError) as caught:
            files.create("c/g", b"x")
        self.assertEqual(
            (caught.exception.errno, caught.exception.filename), (errno.ENOSPC, str(self.root / "c" / "g"))
        )
        no_links = OSError(errno.EPERM, "Operation not permitted")
        with patch("os.link", side_effect=no_links), self.assertRaisesRegex(LakeError, "without hard links"):
            files.create("c/g", b"x")
        self.assertEqual(files.names("c"), [], "no draft is left")

    def test_foreign_directory(self) -> None:
        """A directory with other files is left alone."""
        (self.root / "part-0.parquet").write_text("[]")
        with self.assertRaisesRegex(LakeError, "holds files, but no _logbus/commits: it is not a table"):
            Table(LocalFileSystem(self.root)).refresh()

    def test_deleted_file(self) -> None:
        """A file of the last commit that is nowhere is named."""
        files = LocalFileSystem(self.root)
        table = Table(files)
        table.claim()
        table.commit(CommitKind.LOAD, [_write(KilledFiles(files, 9), table, "part-1.parquet", [1])])
        (self.root / "part-1.parquet").unlink()
        with self.assertRaisesRegex(LakeError, "commit 2 names a file that is not there: .*part-1.parquet"):
            Table(files).claim()
