"""
A table of the lake: a directory of Parquet files with a commit log beside them.

::

    part-....parquet                           the rows, for any reader of Parquet; or in date=2026-11-21/hour=13
    _quarantine/part-....parquet               records whose value could not be read, and why
    _logbus/commits/00000000000000000012.json  a commit
    _logbus/snapshots/00000000000000000010.json  the state after a commit
    _logbus/staging/<writer>/...               files that are not committed, or not yet moved into place

Spark and other readers ignore names that begin with ``_``. A job works like this:

1. :meth:`Table.claim`: finish the last commit, and take the next number. An earlier job that is still running can no
   longer commit, and its uncommitted files are deleted.
2. Write Parquet files below :attr:`Table.staging`.
3. :meth:`Table.commit`: atomically create a file that names them and the offsets in them; then move them into place.

If the job is killed before step 3, nothing has changed, and the next claim deletes the staged files. If it is killed
during step 3, the commit either exists, and the next claim moves the files, or it does not. A file is in one place at
any time, so readers that list the directory without the commits never see a loaded record twice.

A job may be suspended at any point, and continue long after others have claimed the table. It can still move the files
of its last commit, which the others have moved already. It deletes nothing newer: file names are unique, and a claim
lists the files to delete before it takes its number, so that it lists files of earlier jobs only.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from attrs import define, field

from logbus.pipeline.errors import ClaimLost, LakeError
from logbus.pipeline.lake.commit_log import Commit, CommitKind, DataFile, TableState
from logbus.pipeline.lake.file_system import FileSystem, file_system_at, is_draft

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOME = "_logbus"
COMMITS = f"{HOME}/commits"
SNAPSHOTS = f"{HOME}/snapshots"
STAGING = f"{HOME}/staging"
SNAPSHOT_EVERY = 50
"""Commits between snapshots."""

KEEP = 100
"""Commits that are kept before a snapshot, for people and for readers that are under way."""

_DIGITS = 20
_WILD = frozenset("*?[]{}\\")
_LOOKS = 20


def _name(directory: str, number: int) -> str:
    return f"{directory}/{number:0{_DIGITS}}.json"


def _number(name: str) -> int | None:
    stem, dot, ending = name.partition(".")
    return int(stem) if dot and ending == "json" and stem.isdigit() else None


def _now_ms() -> int:
    return int(time.time() * 1000)


@define(eq=False)
class Table:
    """
    A table and this job's claim to it.

    :param files: its directory.
    :param clock: milliseconds since 1970.

    :ivar state: as of the last refresh.
    :ivar writer: the unique id of this job's claim.
    """

    files: FileSystem
    _clock: Callable[[], int] = _now_ms
    writer: str = field(factory=lambda: uuid.uuid4().hex, init=False)
    state: TableState = field(factory=TableState, init=False)
    _snapshot: int = field(default=0, init=False)

    @classmethod
    def at(cls, spark: SparkSession | None, url: str) -> Table:
        """
        The table at a URL or a path; a directory that does not exist is an empty table.

        :raise LakeError: it is a directory of other files, is damaged, or has wildcards in its name.
        """
        if wild := sorted(_WILD & set(url)):
            raise LakeError(f"{url!r} cannot be the name of a table: Spark takes {' and '.join(wild)} for patterns")
        table = cls(file_system_at(spark, url))
        table.refresh()
        return table

    @property
    def staging(self) -> str:
        """Where this job's files go before they are committed, relative to the table."""
        return f"{STAGING}/{self.writer}"

    @property
    def staging_url(self) -> str:
        """The staging directory as a URL."""
        return f"{self.files.url}/{self.staging}"

    def refresh(self) -> TableState:
        """
        Read the commits that were added since the last refresh.

        :raise LakeError: a commit is missing or damaged.
        """
        for _ in range(_LOOKS):
            try:
                self.state = self._read()
                return self.state
            except FileNotFoundError as e:
                problem = e  # Another job wrote a newer snapshot, and deleted old commits while they were read.
        raise LakeError(f"{self.files.url}: {problem}: it is listed, and cannot be read")

    def _read(self) -> TableState:
        state = TableState()
        self._snapshot = self._last_snapshot()
        if self.state.number >= self._snapshot:
            state = self.state
        else:
            name = _name(SNAPSHOTS, self._snapshot)
            state = TableState.from_json(name, self.files.read(name))
        numbers = sorted(number for name in self.files.names(COMMITS) if (number := _number(name)) is not None)
        if not numbers and not self._snapshot and any(not each.startswith((".", "_")) for each in self.files.names("")):
            raise LakeError(f"{self.files.url} holds files, but no {COMMITS}: it is not a table of logbus")
        for number in numbers:
            if number > state.number:
                name = _name(COMMITS, number)
                state = state.after(Commit.from_json(name, self.files.read(name)))
        return state

    def claim(self) -> None:
        """
        Become the only job that can commit: finish the last commit, and make the commits of earlier jobs fail.

        The last job to claim a table has it.
        """
        self.writer = uuid.uuid4().hex
        while True:
            # Listed before the number is taken, so that no files of a later job are among them.
            left = [f"{STAGING}/{name}" for name in self.files.names(STAGING)]
            for directory in (COMMITS, SNAPSHOTS):
                left += [f"{directory}/{name}" for name in self.files.names(directory) if is_draft(name)]
            self.refresh()
            if self.state.last_change is not None:
                self._apply_commit(self.state.last_change)
            try:
                self._append(CommitKind.CLAIM)
            except (ClaimLost, FileExistsError):
                continue  # Another job has committed or claimed since the refresh.
            for path in left:
                self.files.delete(path)
            self._clean_up()
            return

    def commit(self, kind: CommitKind, added: Iterable[DataFile] = (), **content: Any) -> Commit:
        """
        Add files below :attr:`staging` to the table, together with the offsets in them.

        :param added: the files, by their final paths; these are also their paths below :attr:`staging`.
        :param content: the other attributes of :class:`.Commit`: ``offsets``, ``removed``, ``records`` ...
        :raise ClaimLost: another job has claimed the table; nothing has happened.
        :raise LakeError: an offset is in the table already; nothing has happened.
        """
        files = tuple(added)
        try:
            self.files.sync(f"{self.staging}/{each.path}" for each in files)
        except FileNotFoundError:
            self._check_claim()
            raise
        commit = self._append(kind, added=files, staging=self.staging if files else "", **content)
        try:
            self._apply_commit(commit)
        except LakeError:
            # The commit is made. A later job may have moved its files, and have replaced them since.
            self._check_claim()
            raise
        self._clean_up()
        return commit

    def _append(self, kind: CommitKind, **content: Any) -> Commit:
        commit = Commit(number=self.state.number + 1, kind=kind, at_ms=self._clock(), writer=self.writer, **content)
        after = self.state.after(commit)
        try:
            self.files.create(_name(COMMITS, commit.number), commit.as_json())
        except FileExistsError:
            self._check_claim()
            raise
        # The number may have been free only since others made it long ago, and have deleted it after a snapshot.
        if self._last_snapshot() >= commit.number:
            self._check_claim()
        self.state = after
        return commit

    def _last_snapshot(self) -> int:
        return max((number for name in self.files.names(SNAPSHOTS) if (number := _number(name)) is not None), default=0)

    def _check_claim(self) -> None:
        mine = self.state
        other = self.refresh()
        if other.number > mine.number:
            raise ClaimLost(
                f"{self.files.url}: job {other.writer} has made commit {other.number} after commit {mine.number}, the "
                f"last that job {self.writer} knows: two jobs write to one table, and the later one goes on"
            )

    def _apply_commit(self, commit: Commit) -> None:
        """Delete and move files as a commit says; it can be repeated."""
        for path in commit.removed:
            self.files.delete(path)
        try:
            for each in commit.added:
                self.files.move(f"{commit.staging}/{each.path}", each.path)
            self.files.sync(each.path for each in commit.added)
        except FileNotFoundError as e:
            raise LakeError(f"{self.files.url}: commit {commit.number} names a file that is not there: {e}") from e
        if commit.staging:
            self.files.delete(commit.staging)

    def _clean_up(self) -> None:
        """Write a snapshot and delete old commits, every :data:`SNAPSHOT_EVERY` commits."""
        number = self.state.number
        if number - self._snapshot < SNAPSHOT_EVERY:
            return
        self._snapshot = number
        try:
            self.files.create(_name(SNAPSHOTS, number), self.state.as_json())
        except FileExistsError:
            pass
        for directory, upto in ((COMMITS, number - KEEP), (SNAPSHOTS, number - KEEP - 1)):
            for name in self.files.names(directory):
                if (old := _number(name)) is not None and old <= upto:
                    self.files.delete(f"{directory}/{name}")

    def staged(self) -> tuple[DataFile, ...]:
        """The Parquet files that this job has written to :attr:`staging` and not committed yet."""
        prefix = f"{self.staging}/"
        return tuple(
            DataFile(path.removeprefix(prefix), size)
            for path, size in sorted(self.files.walk(self.staging))
            if path.endswith(".parquet") and "/_temporary/" not in path and not path.rpartition("/")[2].startswith(".")
        )
