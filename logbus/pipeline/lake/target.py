"""The interface of a table that jobs write to, whatever its format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from attrs import asdict, evolve, frozen

from logbus.pipeline.lake.load_state import LoadChange, LoadState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@frozen
class CommitReport:
    """
    A commit that was made.

    :ivar number: of the table's state with it; later ones have higher numbers.
    :ivar files: new files, with those of the quarantine;  ``bytes``: their size.
    :ivar notes: sentences for people about changes that other programs made meanwhile.
    """

    number: int
    files: int
    bytes: int
    notes: Sequence[str] = ()


@frozen
class VacuumReport:
    """
    :ivar snapshots: that expired: readers cannot go back to them;  ``files``: that were deleted.
    """

    snapshots: int = 0
    files: int = 0

    def with_more(self, other: VacuumReport) -> VacuumReport:
        """Both in one."""
        return VacuumReport(self.snapshots + other.snapshots, self.files + other.files)


@frozen
class CompactionReport:
    """
    Files and bytes before and after, of the directories that were rewritten.

    :ivar deleted: files that no version of the table has any more;  ``expired``: snapshots.
    """

    table: str
    directories: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    deleted: int = 0
    expired: int = 0

    def after_vacuum(self, done: VacuumReport) -> CompactionReport:
        """The same with what a vacuum did after it."""
        return evolve(self, deleted=done.files, expired=done.snapshots)

    def with_more(self, other: CompactionReport) -> CompactionReport:
        """Both in one."""
        return CompactionReport(
            self.table,
            self.directories + other.directories,
            self.files_before + other.files_before,
            self.files_after + other.files_after,
            self.bytes_before + other.bytes_before,
            self.bytes_after + other.bytes_after,
        )

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


class LoadTarget(Protocol):
    """
    A table, and a job's claim to it.

    A job claims the table. Then for each batch it discards what an earlier attempt left, stages rows, and commits them
    together with the change of the :class:`.LoadState`: both happen or neither, wherever the job is killed. Rows whose
    value could not be read are staged for the quarantine, which readers of the table do not see.
    """

    @property
    def url(self) -> str:
        """Of its directory."""

    @property
    def number(self) -> int:
        """Of the last commit that :attr:`state` knows; 0: there is no table yet. It grows with every commit."""

    @property
    def state(self) -> LoadState:
        """As of the last :meth:`refresh` or :meth:`commit`."""

    @property
    def directories(self) -> tuple[str, ...] | None:
        """The columns that its files are divided by; None: any will do, since it has no files."""

    @property
    def has_rows(self) -> bool:
        """Whether there is anything to :meth:`read`."""

    @property
    def has_quarantine(self) -> bool:
        """Whether there is anything to :meth:`read_quarantine`."""

    @property
    def optimizes_by_claim(self) -> bool:
        """Whether only the job that has claimed the table can :meth:`optimize` it."""

    def refresh(self) -> LoadState:
        """
        Read what was committed since the last time.

        :raise LakeError: the table is damaged.
        """

    def claim(self, schema: Any = None, directories: Sequence[str] = ()) -> Sequence[str]:
        """
        Become the only job that can commit: the next commit of an earlier one fails. The last to claim has the table.

        :param schema: of the rows to come, as Spark's JSON, with which a format may create a table that is not there;
            None: unknown.
        :param directories: of a table that is not there.
        :returns: sentences for people about changes that other programs made to the table.
        """

    def discard(self) -> None:
        """Forget what was staged and not committed."""

    def stage(self, rows: DataFrame, directories: Sequence[str] = (), *, quarantine: bool = False) -> int:
        """
        Write rows to files that are not part of the table yet; it may be called several times.

        :param directories: columns to divide files by; the rows come sorted by them.
        :returns: the number of rows in the new files.
        :raise LakeError: the workers cannot write where the table is.
        """

    def commit(self, change: LoadChange) -> CommitReport:
        """
        Make what was staged part of the table, together with the change of the state.

        :raise ClaimLost: another job has claimed the table; nothing has happened.
        :raise LakeError: an offset is in the table already; nothing has happened.
        """

    def read(self) -> DataFrame:
        """
        The rows as of the last :meth:`refresh`.

        Spark raises an error if files were deleted since. Then refresh and read again.

        :raise LakeError: there are none.
        """

    def read_quarantine(self) -> DataFrame:
        """
        The records whose values could not be read, with the reasons.

        :raise LakeError: there are none.
        """

    def optimize(self, *, min_files: int, target_bytes: int) -> CompactionReport:
        """
        Rewrite small files as large ones.

        :param min_files: a directory with fewer small files is left alone.
        :param target_bytes: of a new file.
        :raise OptionError: a limit is not positive.
        :raise ClaimLost: another job has claimed the table; nothing has happened.
        """

    def replaced(self, *, before_ms: int) -> VacuumReport:
        """
        What :meth:`vacuum` would delete, as far as the table itself tells as of the last :meth:`refresh`: no directory
        is listed, so files that killed jobs left are not counted.

        :param before_ms: as of :meth:`vacuum`.
        :raise LakeError: the table cannot be read.
        """

    def vacuum(self, *, before_ms: int) -> VacuumReport:
        """
        Delete what only readers of old versions need, and what killed jobs have left.

        Files that are newer stay in any case: another job may be about to commit them.

        :param before_ms: versions that were replaced before this time can go; milliseconds since 1970.
        :raise LakeError: the table cannot be read.
        """
