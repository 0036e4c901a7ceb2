"""Tests Delta Lake tables without Spark, with jobs that die at any moment and other programs that come between."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any
from unittest import TestCase
from unittest.mock import patch

import pytest

pytest.importorskip("deltalake")
import pyarrow as pa
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import create_table_with_add_actions

from logbus.pipeline.errors import ClaimLost, LakeError, OptionError
from logbus.pipeline.lake import delta_files, delta_log, delta_writes
from logbus.pipeline.lake.delta_actions import KIND, STATES, AddedFile, Quarantined
from logbus.pipeline.lake.delta_files import DeltaFiles
from logbus.pipeline.lake.delta_log import DeltaLog
from logbus.pipeline.lake.delta_writes import failure_text
from logbus.pipeline.lake.load_state import LoadChange, TopicOffsets
from logbus.pipeline.lake.object_store import ArrowStore
from logbus.pipeline.lake.offset_set import OffsetSet
from logbus.pipeline.lake.part_writer import PartWriter
from logbus.pipeline.lake.store_patience import FAILURES
from tests.pipeline.delta_rows import delta_rows
from tests.pipeline.s3_server import S3Server

SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "offset", "type": "long", "nullable": False, "metadata": {}},
        {"name": "page", "type": "string", "nullable": True, "metadata": {}},
    ],
}


def schema(*fields: tuple[str, Any]) -> dict[str, Any]:
    """The usual one with more fields."""
    more = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields]
    return {"type": "struct", "fields": [*SCHEMA["fields"], *more]}


def offsets(start: int, end: int, topic_id: str = "one") -> dict[str, TopicOffsets]:
    return {"t": TopicOffsets(topic_id, {0: OffsetSet.of((start, end))})}


def written(log: DeltaLog, rows: Sequence[int], below: str = "", **columns: Any) -> list[AddedFile]:
    """What Spark's tasks do: files of these offsets, by page."""
    pages = columns.pop("page", ["p"] * len(rows))
    batch = pa.RecordBatch.from_pydict({"offset": pa.array(rows, pa.int64()), "page": pages, **columns})
    root = Path(log.url, below)
    root.mkdir(parents=True, exist_ok=True)
    return [AddedFile.of(each) for each in PartWriter(store=ArrowStore(str(root)), directories=["page"]).write([batch])]


def written_to(store: ArrowStore, rows: Sequence[int]) -> list[AddedFile]:
    """What Spark's tasks do at any place: a file of these offsets."""
    batch = pa.RecordBatch.from_pydict({"offset": pa.array(rows, pa.int64()), "page": ["a/b"] * len(rows)})
    return [AddedFile.of(each) for each in PartWriter(store=store, directories=["page"]).write([batch])]


def load(log: DeltaLog, start: int, end: int, **content: Any) -> Sequence[str]:
    """Commit offsets; the odd ones go to quarantine."""
    good = [each for each in range(start, end) if each % 2 == 0]
    odd = [each for each in range(start, end) if each % 2]
    quarantined = Quarantined(schema=SCHEMA, directories=["page"], files=written(log, odd, "_quarantine"))
    change = LoadChange(offsets=offsets(start, end), schema=SCHEMA, records=end - start, quarantined=len(odd))
    return log.commit(change, written(log, good), quarantined if odd else None, ["page"], **content)


def seen(root: Path) -> list[int]:
    """What a reader of Delta Lake finds."""
    if not DeltaTable.is_deltatable(str(root)):
        return []
    return sorted(delta_rows(root, "offset")["offset"].to_pylist())


class Killed(BaseException):
    """The process ends here."""


@contextlib.contextmanager
def killed_after(left: int) -> Iterator[list[int]]:
    """A process that is killed before or after an operation that changes something; how many there were."""
    done = [0]

    def tick() -> None:
        if done[0] >= left:
            raise Killed
        done[0] += 1

    def mortal(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            tick()
            result = function(*arguments, **named)
            tick()
            return result

        return call

    with (
        patch.object(DeltaTable, "create_write_transaction", mortal(DeltaTable.create_write_transaction)),
        patch("deltalake.transaction.create_table_with_add_actions", mortal(create_table_with_add_actions)),
        patch.object(DeltaFiles, "write", mortal(DeltaFiles.write)),
    ):
        yield done


class DeltaLogTests(TestCase):
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
        """Load what is missing of ten offsets, three at a time; the operations it took."""
        with killed_after(left) as done:
            log = DeltaLog(str(root))
            log.claim(SCHEMA, ["page"])
            while (start := log.load_state().held("t", 0).end) < 10:
                load(log, start, min(start + 3, 10))
        return done[0]

    def test_killed_at_any_moment(self) -> None:
        """Wherever jobs are killed, twice in a row, each offset is there once in the end, and never twice before."""
        whole = self.job(self.root / "whole", 10**9)
        self.assertEqual(seen(self.root / "whole"), [0, 2, 4, 6, 8])
        self.assertEqual(seen(self.root / "whole" / "_quarantine"), [1, 3, 5, 7, 9])
        self.assertGreater(whole, 20)
        for first in range(whole):
            with self.subTest(first=first):
                root = self.root / str(first)
                for left in (first, first * 7 % whole, 10**9):
                    with contextlib.suppress(Killed):
                        self.job(root, left)
                    for found in (seen(root), seen(root / "_quarantine")):
                        self.assertEqual(len(found), len(set(found)))
                self.assertEqual((seen(root), seen(root / "_quarantine")), ([0, 2, 4, 6, 8], [1, 3, 5, 7, 9]))
                self.assertEqual(DeltaLog(str(root)).refresh().held("t", 0), OffsetSet.of((0, 10)))

    def opened(self, *, claim: bool = True) -> DeltaLog:
        log = DeltaLog(str(self.root))
        log.refresh()
        if claim:
            log.claim(SCHEMA, ["page"])
        return log

    def test_the_later_job_takes_over(self) -> None:
        """A job that was taken over is told so when it commits, and nothing happens; also if it waits for long."""
        early, late = self.opened(), self.opened()
        for _ in range(2):
            with self.assertRaisesRegex(ClaimLost, "claim 2 was made after claim 1, which is this job's"):
                load(early, 0, 2)
        load(late, 0, 4)
        with self.assertRaises(ClaimLost):
            load(early, 4, 6)
        self.assertEqual((seen(self.root), seen(self.root / "_quarantine")), ([0, 2], [1, 3]))
        self.assertEqual(late.load_state().held("t", 0), OffsetSet.of((0, 4)))

    def test_claimed_between_the_look_and_the_commit(self) -> None:
        """The version that the earlier job would make is taken."""
        early = self.opened()
        write = DeltaFiles.write

        def overtaken(files: DeltaFiles, path: str, content: bytes) -> None:
            write(files, path, content)
            self.opened()

        with patch.object(DeltaFiles, "write", overtaken), self.assertRaisesRegex(ClaimLost, "claim 2 was made after"):
            load(early, 0, 2)
        self.assertEqual(seen(self.root), [])

    def test_two_that_create(self) -> None:
        """One creates the table; the other, which does not know its columns yet, finds that when it commits."""
        early = self.opened(claim=False)
        early.claim()
        self.assertEqual(early.number, 0)
        late = self.opened()
        self.assertEqual(late.number, 1)
        with self.assertRaisesRegex(ClaimLost, "another job has created the table"):
            load(early, 0, 2)
        late = self.opened(claim=False)
        self.assertEqual((late.load_state().offsets, seen(self.root)), ({}, []))

    def test_created_though_it_failed(self) -> None:
        """As when an answer of a store is lost, and the next attempt finds the table: it is this job's own."""
        log = self.opened(claim=False)
        log.claim()
        create, problems = create_table_with_add_actions, [OSError("connection reset")]

        def lost(*arguments: Any, **named: Any) -> None:
            if problems:
                raise problems.pop()
            create(*arguments, **named)
            raise CommitFailedError("the answer was lost")

        with patch("deltalake.transaction.create_table_with_add_actions", lost):
            load(log, 0, 3)
        load(log, 3, 5)
        self.assertEqual((seen(self.root), log.claimed), ([0, 2, 4], 1))

    def test_commit_that_was_made_though_it_failed(self) -> None:
        """As when an answer of a store is lost: the commit stands, and is not made twice."""
        log = self.opened()
        append = DeltaTable.create_write_transaction

        def lost(*arguments: Any, **named: Any) -> None:
            append(*arguments, **named)
            raise CommitFailedError("the answer was lost")

        with patch.object(DeltaTable, "create_write_transaction", lost):
            log.commit(LoadChange(offsets=offsets(0, 3), schema=SCHEMA), written(log, [0, 1, 2]))
        load(log, 3, 5)
        self.assertEqual(seen(self.root), [0, 1, 2, 4])

    def test_failure_that_passes(self) -> None:
        """As when a store resets a connection, or answers too late: the commit is tried again."""
        log = self.opened()
        append, failures = DeltaTable.create_write_transaction, [OSError("connection reset")] * 4

        def fails(*arguments: Any, **named: Any) -> None:
            if failures:
                raise failures.pop()
            append(*arguments, **named)

        with patch.object(DeltaTable, "create_write_transaction", fails):
            load(log, 0, 2)
        self.assertEqual(failures, [])
        self.assertEqual(seen(self.root), [0])

    def test_quarantine_that_cannot_be_written(self) -> None:
        """That is told after a few attempts, and left to the next load; the rows that can be read are there."""
        log = self.opened()
        load(log, 0, 2)
        append, tried = DeltaTable.create_write_transaction, list[str]()

        def fails(table: DeltaTable, *arguments: Any, **named: Any) -> None:
            if "_quarantine" in table.table_uri:
                tried.append(table.table_uri)
                raise OSError("503")
            append(table, *arguments, **named)

        failed = patch.object(DeltaTable, "create_write_transaction", fails)
        words = f"^{self.root}/_quarantine: a commit has failed: 503; .* and the next run commits these$"
        with failed, self.assertRaisesRegex(LakeError, words):
            load(log, 2, 4)
        self.assertEqual(len(tried), FAILURES)
        self.assertEqual(seen(self.root), [0, 2])
        self.opened()
        self.assertEqual(seen(self.root / "_quarantine"), [1, 3])

    def test_failure_without_a_reason(self) -> None:
        """It is told as it is; files may be left, and nothing is committed."""
        log = self.opened()
        failed = patch.object(DeltaTable, "create_write_transaction", side_effect=CommitFailedError("no"))
        with failed, self.assertRaisesRegex(LakeError, f"^{self.root}: a commit has failed: no$"):
            load(log, 0, 2)
        full = patch.object(DeltaTable, "create_write_transaction", side_effect=OSError(28, "No space left"))
        with full, self.assertRaisesRegex(LakeError, f"^{self.root}: a commit has failed: .*No space left"):
            load(log, 0, 2)
        load(log, 0, 2)
        self.assertEqual(seen(self.root), [0])

    def test_list_cut_off(self) -> None:
        """A store whose answer breaks off is told on one line, and without colours."""
        log = self.opened()
        cut = OSError("Kernel error -> Generic S3 error\n   \x1b[31m\u21b3\x1b[0m end of file before message length")
        broken = patch.object(DeltaTable, "update_incremental", side_effect=cut)
        said = "its log cannot be read: Kernel error -> Generic S3 error : end of file before message length"
        with broken, self.assertRaisesRegex(LakeError, f"^{self.root}: {said}$"):
            log.refresh()

    def test_messages(self) -> None:
        """They name the table, and are without the colours and the functions that delta-rs adds."""
        self.assertEqual(
            failure_text(OSError("Generic error \x1b[31m\u21b3\x1b[0m No space left")), "Generic error: No space left"
        )
        self.assertEqual(failure_text(OSError("of column 0: it is odd")), "of column 0: it is odd")
        full = patch("deltalake.transaction.create_table_with_add_actions", side_effect=OSError(28, "No space left"))
        with full, self.assertRaisesRegex(LakeError, f"^{self.root} cannot be created: .*No space left"):
            self.opened()
        log = self.opened()
        load(log, 0, 2)
        last = max((self.root / "_delta_log").glob("*.json"))
        last.write_text("{garbage")
        with self.assertRaisesRegex(
            LakeError, f"^{self.root}: its log cannot be read: [^:]*: Json error: .*[^0]$"
        ) as caught:
            DeltaLog(str(self.root)).refresh()
        self.assertNotIn("<unknown>", str(caught.exception))
        self.assertNotIn("clone", str(caught.exception))

    def test_claim_that_cannot_be_written(self) -> None:
        """It is not blamed on other programs; a failure that passes is no matter."""
        log = DeltaLog(str(self.root))
        log.claim()
        load(log, 0, 2)
        append, failures = DeltaTable.create_write_transaction, [OSError(28, "No space left")] * 2

        def fails(*arguments: Any, **named: Any) -> None:
            if failures:
                raise failures.pop()
            append(*arguments, **named)

        with patch.object(DeltaTable, "create_write_transaction", fails):
            DeltaLog(str(self.root)).claim()
        full = patch.object(DeltaTable, "create_write_transaction", side_effect=OSError(28, "No space left"))
        with full, self.assertRaisesRegex(LakeError, r"cannot be claimed: .*No space left"):
            DeltaLog(str(self.root)).claim()

    def test_other_programs(self) -> None:
        """
        A table that is optimized, cleaned and changed by others between any two steps keeps its offsets; what was done
        to the rows is told.
        """
        log = self.opened()
        load(log, 0, 4)
        load(log, 4, 8)
        write = DeltaFiles.write

        def disturbed(files: DeltaFiles, path: str, content: bytes) -> None:
            write(files, path, content)
            other = DeltaTable(str(self.root))
            other.optimize.compact()
            other.vacuum(0, dry_run=False, enforce_retention_duration=False)
            other.delete("offset = 0")

        with patch.object(DeltaFiles, "write", disturbed):
            notes = load(log, 8, 12)
        self.assertEqual(len(notes), 1, notes)
        self.assertRegex(notes[0], r"version \d+ is another program's DELETE: the rows stay as that left them")
        DeltaTable(str(self.root)).delete("offset = 2")
        log.refresh()
        (note,) = load(log, 12, 14)
        self.assertIn("is another program's DELETE", note, "between two commits")
        self.assertEqual(load(log, 14, 16), ())
        write_deltalake(str(self.root), pa.table({"offset": [100], "page": ["theirs"]}), mode="append")
        DeltaTable(str(self.root)).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
        later = DeltaLog(str(self.root))
        (note,) = later.claim()
        self.assertIn("is another program's WRITE", note)
        self.assertEqual(later.load_state().held("t", 0), OffsetSet.of((0, 16)))
        load(later, 16, 18)
        self.assertEqual(seen(self.root), [4, 6, 8, 10, 12, 14, 16, 100])
        self.assertEqual(seen(self.root / "_quarantine"), [1, 3, 5, 7, 9, 11, 13, 15, 17])
        DeltaTable(str(self.root)).restore(0)
        self.assertEqual(self.opened().load_state().held("t", 0), OffsetSet.of((0, 18)), "offsets are not loaded twice")

    def test_checkpoints_and_cleaned_logs(self) -> None:
        """The offsets outlive the versions that committed them; old states are deleted."""
        log = self.opened()
        DeltaTable(str(self.root)).alter.set_table_properties({"delta.checkpointInterval": "10"})
        for start in range(2 * delta_files.KEEP + 5):
            load(log, start, start + 1)
        logs = self.root / "_delta_log"
        last = json.loads((logs / "_last_checkpoint").read_text())["version"]
        self.assertGreater(last, 30)
        for each in logs.glob("*.json"):
            if int(each.stem) <= last:
                each.unlink()
        self.assertLess(len(list((self.root / STATES).iterdir())), 2 * delta_files.KEEP + 1)
        again = self.opened()
        self.assertEqual(again.load_state().held("t", 0), OffsetSet.of((0, 2 * delta_files.KEEP + 5)))
        load(again, 45, 47)
        self.assertEqual(seen(self.root), list(range(0, 47, 2)))

    def test_schema_evolution(self) -> None:
        """New columns and fields of any depth are added; a column cannot change its type, in the quarantine neither."""
        log = self.opened()
        load(log, 0, 2)
        place = {"type": "struct", "fields": schema(("x", "integer"))["fields"][2:]}
        log.commit(
            LoadChange(offsets=offsets(2, 3), schema=schema(("at", "timestamp"), ("place", place))),
            written(log, [2], place=[{"x": 1}]),
        )
        more = {
            "type": "struct",
            "fields": schema(
                ("x", "integer"), ("y", {"type": "array", "elementType": "string", "containsNull": False})
            )["fields"][2:],
        }
        log.commit(
            LoadChange(offsets=offsets(3, 4), schema=schema(("place", more))),
            written(log, [3], place=[{"x": 1, "y": ["z"]}]),
        )
        rows = delta_rows(self.root).to_pylist()
        found = {row["offset"]: row["place"] for row in rows}
        self.assertEqual(found, {0: None, 2: {"x": 1, "y": None}, 3: {"x": 1, "y": ["z"]}})
        before = log.number
        with self.assertRaisesRegex(LakeError, "column 'page' is string in the table and integer in the new rows"):
            log.commit(LoadChange(schema={"type": "struct", "fields": [{**SCHEMA["fields"][1], "type": "integer"}]}))
        self.assertEqual(self.opened(claim=False).number, before)
        with self.assertRaisesRegex(LakeError, "Delta Lake has no type for column 'gone', which is interval day"):
            log.commit(LoadChange(schema=schema(("gone", "interval day"))))

    def test_contradictions(self) -> None:
        """No offset comes twice, and no topic under another id."""
        log = self.opened()
        load(log, 0, 2)
        for change, words in (
            (LoadChange(offsets=offsets(1, 3)), "offsets .* are in the table already"),
            (LoadChange(offsets=offsets(2, 3, "two")), "deleted and created again"),
        ):
            with self.assertRaisesRegex(LakeError, words):
                log.commit(change)
        log.commit(LoadChange(lost=offsets(2, 4), batch=("q", 3)))
        state = self.opened(claim=False).load_state()
        self.assertEqual((state.held("t", 0), state.lost), (OffsetSet.of((0, 4)), offsets(2, 4)))
        self.assertEqual(state.batches, {"q": 3})
        kinds = [each[KIND] for each in DeltaTable(str(self.root)).history()]
        self.assertEqual(kinds, ["loss", "load", "claim"])

    def test_partition_values(self) -> None:
        """Values of any characters are read as they were written; an empty one is null."""
        log = self.opened()
        pages = ["/", "a=b/c", None, "ü %", "100%25 #1?", "", "x:y", "é" * 150]
        log.commit(LoadChange(offsets=offsets(0, 8), schema=SCHEMA), written(log, list(range(8)), page=pages))
        rows = delta_rows(self.root).to_pylist()
        self.assertEqual({row["offset"]: row["page"] for row in rows}, {**dict(enumerate(pages)), 5: None})

    def test_tables_that_are_not_ours(self) -> None:
        """Another program's table is left alone, unless it is empty; a state that is gone is named."""
        theirs = self.root / "theirs"
        write_deltalake(str(theirs), pa.table({"offset": [1]}))
        with self.assertRaisesRegex(LakeError, "is a Delta Lake table that another program made"):
            DeltaLog(str(theirs)).refresh()
        DeltaTable.create(
            str(self.root / "empty"), Schema([Field("offset", "long"), Field("page", "string")]), partition_by=["page"]
        )
        log = DeltaLog(str(self.root / "empty"))
        log.claim(SCHEMA, ["page"])
        load(log, 0, 2)
        for each in (self.root / "empty" / STATES).iterdir():
            each.unlink()
        with self.assertRaisesRegex(LakeError, "0000000001-0000000001.json is missing, which has the offsets"):
            DeltaLog(str(self.root / "empty")).refresh()
        (theirs / "_delta_log" / f"{0:020}.json").write_text("{")
        with self.assertRaisesRegex(LakeError, f"^{theirs}: its log cannot be read: "):
            DeltaLog(str(theirs)).refresh()
        with self.assertRaisesRegex(LakeError, "cannot be the name of a Delta Lake table: delta-rs takes % for"):
            DeltaLog(str(self.root / "100%"))
        with self.assertRaisesRegex(OptionError, "AWS_REGION is no option of a local directory"):
            DeltaLog(str(theirs), {"AWS_REGION": "here"})


class ObjectStoreTests(TestCase):
    def test_busy_store(self) -> None:
        """
        On an S3 server that fails one request in ten each commit is made once, and the first of two jobs is told that
        it was taken over.
        """
        with S3Server("lake", failing=0.1) as server:
            url = "s3://lake/t"
            quarantine = ArrowStore(f"{url}/_quarantine", server.options)
            log, late = DeltaLog(url, server.options), DeltaLog(url, server.options)
            log.claim(SCHEMA, ["page"])
            for each in range(2):
                odd = Quarantined(schema=SCHEMA, directories=["page"], files=written_to(quarantine, [each + 100]))
                log.commit(
                    LoadChange(offsets=offsets(each, each + 1), schema=SCHEMA), written_to(log.store, [each]), odd
                )
            late.claim()
            with self.assertRaisesRegex(ClaimLost, "^s3://lake/t: claim 2 was made after claim 1"):
                log.commit(LoadChange(offsets=offsets(9, 10)), written_to(log.store, [9]))
            self.assertEqual(late.load_state().held("t", 0), OffsetSet.of((0, 2)))
            for place, expected in ((url, [0, 1]), (f"{url}/_quarantine", [100, 101])):
                found = delta_rows(place, "offset", options=delta_writes.storage_options(place, server.options))
                self.assertEqual(sorted(found["offset"].to_pylist()), expected)
            self.assertGreater(server.failed, 3)


class Expiring(S3Server):
    """An S3 server whose credentials expire: after so many more requests it refuses all."""

    left: float = float("inf")

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        self.left -= 1
        if self.left >= 0:
            return super()._answer(environ, start)
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start("403 Forbidden", [("Content-Type", "application/xml"), ("Content-Length", str(len(EXPIRED)))])
        return [EXPIRED]


EXPIRED = b"<?xml version='1.0'?><Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>"


def rows_of(table: DeltaTable | None) -> int:
    """How many rows a table has, as its log says."""
    return 0 if table is None else sum(pa.table(table.get_add_actions(flatten=True))["num_records"].to_pylist())


def test_refused_in_the_middle() -> None:
    """
    Whenever in the middle of a commit a store begins to refuse, the error is one line, which names the table. The next
    job knows whether the commit was made, and makes that to the quarantine.
    """
    with Expiring("lake") as server:
        for granted in count(step=4):  # Requests.
            url = f"s3://lake/t{granted}"
            log = DeltaLog(url, server.options)
            log.claim(SCHEMA, ["page"])
            quarantine = ArrowStore(f"{url}/_quarantine", server.options)
            odd = Quarantined(schema=SCHEMA, directories=["page"], files=written_to(quarantine, [1]))
            good = written_to(log.store, [0])
            server.left, problem = granted, ""
            try:
                log.commit(LoadChange(offsets=offsets(0, 2), schema=SCHEMA), good, odd)
            except LakeError as e:
                problem = str(e)
            server.left = float("inf")
            later = DeltaLog(url, server.options)
            later.claim(SCHEMA, ["page"])
            rows = later.load_state().held("t", 0).end // 2
            assert (rows_of(later.table), rows_of(later.quarantine())) == (rows, rows)
            if not problem:
                break
            assert problem.startswith(url)
            assert problem.isprintable()
        assert rows == 1
        assert granted > 10


def test_vacuum(tmp_path: Path) -> None:
    """
    Old files that no version has go, of the table and of its quarantine; those of the last hour stay, and so do those
    that the quarantine does not have yet.
    """
    pytest.importorskip("pyspark")
    from logbus.pipeline.lake.delta_table import DeltaLakeTable

    log = DeltaLog(str(tmp_path))
    log.claim()
    load(log, 0, 4)
    table = DeltaLakeTable(None, log)
    left, young = (Path(log.url, each.path) for each in (*written(log, [100]), *written(log, [101])))
    (odd_left,) = (tmp_path / "_quarantine" / each.path for each in written(log, [101], "_quarantine"))
    day_ago = delta_log.now_ms() - 86_400_000
    for each in tmp_path.rglob("*.parquet"):
        if each != young:
            os.utime(each, (day_ago / 2000, day_ago / 2000))
    assert table.replaced(before_ms=day_ago).files == 0, "those are not in the log"
    with patch.object(DeltaLog, "unsettled", return_value=[log.state.quarantined.files[0]]):
        assert table.vacuum(before_ms=day_ago).files == 1
    assert (left.exists(), young.exists(), odd_left.exists()) == (False, True, True)
    assert table.vacuum(before_ms=day_ago).files == 1
    assert not odd_left.exists()
    assert table.vacuum(before_ms=2**53).files == 0
    assert (seen(tmp_path), seen(tmp_path / "_quarantine")) == ([0, 2], [1, 3])
    assert load(log, 4, 6) == ()
    assert DeltaLog(str(tmp_path)).claim(SCHEMA, ["page"]) == (), "it is no other program's change"
