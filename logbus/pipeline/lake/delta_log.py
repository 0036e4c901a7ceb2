"""
The log of a Delta Lake table, as loads use it: claims, and commits of files together with offsets. No Spark.

::

    part-....parquet                              rows; or in date=2026-11-21/hour=13
    _delta_log/00000000000000000012.json          a version of the table, as any engine reads it
    _logbus/states/0000000003-0000000007.json     the state for loads after a commit
    _quarantine/part-....parquet                  records whose value could not be read, and why:
    _quarantine/_delta_log/...                    a Delta Lake table of its own

The log is written by delta-rs, which creates each version only if there is none of its number. Two transaction
identifiers in it are ours: ``logbus.claim`` counts claims, and ``logbus.state`` names the file with the state. They
are part of the table's own state, so they outlive checkpoints, cleaned logs, and whatever other programs commit. A job
works like this:

1. :meth:`DeltaLog.claim`: commit nothing but the next number of claims. An earlier job can no longer commit: the
   version that it would make is taken, and before it tries a later one it finds that the last claim is not its own.
2. Write files of unique names, directly to their places. Until a commit names them they are not part of the table;
   ``VACUUM`` deletes those that no commit ever names.
3. :meth:`DeltaLog.commit`: write the file with the state, and commit the new data files together with its position. The
   files of the quarantine are named in the state: they are committed to that table next, or by the next claim.

Other programs may change the table meanwhile. A commit that finds a version of theirs in its place takes the next.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from logbus.pipeline.errors import ClaimLost, LakeError
from logbus.pipeline.lake import delta_writes
from logbus.pipeline.lake.delta_actions import (
    CLAIM_ID,
    CREATION,
    NOWHERE,
    STATE_ID,
    AddedFile,
    DeltaState,
    Position,
    Quarantined,
    foreign_changes,
)
from logbus.pipeline.lake.delta_files import DeltaFiles
from logbus.pipeline.lake.delta_quarantine import DeltaQuarantine, unsettled
from logbus.pipeline.lake.delta_writes import failure_text, failures, properties_of, storage_options
from logbus.pipeline.lake.layout import QUARANTINE
from logbus.pipeline.lake.load_state import LoadChange, LoadState
from logbus.pipeline.lake.object_store import ArrowStore
from logbus.pipeline.lake.store_patience import FailedAttempts, waiting

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

_ATTEMPTS = 100
"""Of a commit, while other programs commit."""


def now_ms() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)


@define(eq=False)
class DeltaLog:
    """
    A table and this job's claim to it.

    :param url: of its directory, or a local path.
    :param given: options of the store.
    :param clock: milliseconds since 1970.

    :ivar state: as of the last refresh.
    :ivar position: of the last commit of a load or a query.
    :ivar claimed: the number of this job's claim; 0: it has none.
    """

    url: str
    given: Mapping[str, str] = field(factory=dict, repr=False)
    _clock: Callable[[], int] = now_ms
    store: ArrowStore = field(init=False)
    state: DeltaState = field(init=False)
    position: Position = field(default=NOWHERE, init=False)
    claimed: int = field(default=0, init=False)
    _options: dict[str, str] = field(init=False, repr=False)
    _table: DeltaTable | None = field(default=None, init=False)
    _files: DeltaFiles = field(init=False)
    _odd: DeltaQuarantine = field(init=False)
    _commits: int = field(default=0, init=False)
    _noted: int = field(default=-1, init=False)
    """The version up to which other programs' changes have been told of."""

    def __attrs_post_init__(self) -> None:
        if "%" in self.url:
            raise LakeError(f"{self.url!r} cannot be the name of a Delta Lake table: delta-rs takes % for an escape")
        self._options = storage_options(self.url, self.given)
        self.store = ArrowStore(self.url, self.given)
        self._files = DeltaFiles(self.store)
        self.state = _EMPTY
        if (local := self.store.local_root()) is not None:
            self.url = str(local)
        self._odd = DeltaQuarantine(f"{self.url}/{QUARANTINE}", self._options, self._clock)

    @property
    def table(self) -> DeltaTable | None:
        """The table as of the last refresh; None: there is none yet."""
        return self._table

    @property
    def number(self) -> int:
        """Of the version, from 1 on; 0: there is no table."""
        return 0 if self._table is None else self._table.version() + 1

    @property
    def schema(self) -> Any:
        """Of the table, as Spark's JSON; None: there is no table."""
        return None if self._table is None else json.loads(self._table.schema().to_json())

    @property
    def directories(self) -> tuple[str, ...] | None:
        """The partition columns; None: there is no table."""
        return None if self._table is None else tuple(self._table.metadata().partition_columns)

    def load_state(self) -> LoadState:
        """What loads know of the table."""
        return evolve(self.state.load, schema=self.schema)

    def refresh(self) -> LoadState:
        """
        Read what was committed since the last time.

        :raise LakeError: the table is another program's, was replaced, or lacks its state.
        """
        self._look()
        position = self._position()
        for _ in range(_ATTEMPTS):
            if position in (self.position, NOWHERE):
                return self.load_state()
            try:
                self.state = DeltaState.from_json(f"{self.url}/{position.path}", self._files.read(position.path))
                self.position = position
            except FileNotFoundError as e:
                # Another job may have deleted it after some more commits.
                self._look()
                before, position = position, self._position()
                if position == before:
                    raise LakeError(
                        f"{self.url}: {position.path} is missing, which has the offsets that are in the table; restore "
                        "it, or load into a table of its own"
                    ) from e
        raise LakeError(f"{self.url}: its state cannot be read, since other jobs go on committing")

    def _look(self) -> None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        table = self._table
        try:
            with waiting(self.url, "to read its log"):
                if table is not None:
                    table.update_incremental()
                    return
                table = DeltaTable(self.url, storage_options=self._options)
        except TableNotFoundError as e:
            if table is None:
                return
            raise delta_writes.unreadable(self.url, e) from e
        except failures() as e:
            raise delta_writes.unreadable(self.url, e) from e
        if delta_writes.transaction(self.url, table, CLAIM_ID) is None and table.file_uris():
            raise LakeError(
                f"{self.url} is a Delta Lake table that another program made: which offsets are in it is not known; "
                "load into a table of its own"
            )
        self._table = table

    def _position(self) -> Position:
        version = self._transaction(STATE_ID)
        return NOWHERE if version is None else Position.of_version(version)

    def _claims(self) -> int:
        return self._transaction(CLAIM_ID) or 0

    def _transaction(self, name: str) -> int | None:
        """The version of a transaction identifier; None: there is none."""
        return None if self._table is None else delta_writes.transaction(self.url, self._table, name)

    def claim(self, schema: Any = None, directories: Sequence[str] = ()) -> tuple[str, ...]:
        """
        See :class:`.LoadTarget`. Without a schema a table that is not there is claimed by the first commit.

        :raise LakeError: the table has other partition columns, or Delta Lake has no such type.
        """
        failed = FailedAttempts()
        for _ in range(_ATTEMPTS):
            self.refresh()
            if self._table is None:
                if schema is None:
                    return ()
                try:
                    self._create(schema, directories)
                except ClaimLost:
                    continue
                return ()
            claim = self._claims() + 1
            notes = foreign_changes(self.url, self._files.history(self._table.version()))
            try:
                made = self._append([], properties_of("claim", {CLAIM_ID: claim}))
            except failures() as e:
                if failed.is_last(self._table.version()):
                    raise LakeError(f"{self.url} cannot be claimed: {failure_text(e)}") from e
                continue
            self.claimed, self._commits = claim, 0
            self._noted = made
            self.refresh()
            if self._claims() == claim:
                self._settle()
                return notes
        raise LakeError(f"{self.url} cannot be claimed, since other programs go on committing to it")

    def commit(
        self,
        change: LoadChange,
        added: Sequence[AddedFile] = (),
        quarantined: Quarantined | None = None,
        directories: Sequence[str] | None = None,
    ) -> tuple[str, ...]:
        """
        Commit files together with offsets.

        :param directories: that the files are divided by; None: as the table's.
        :returns: sentences about other programs' changes meanwhile.
        :raise ClaimLost: another job has claimed the table; nothing has happened.
        :raise LakeError: an offset is in the table already, or the schema does not fit; nothing has happened.
        """
        if self._table is None and not self.claimed:
            self._create(change.schema, directories or ())
        self.refresh()  # An earlier attempt may have been made though it failed.
        self._check_claim()
        self._settle()
        assert self._table is not None
        if directories is not None and tuple(directories) != self.directories:
            raise LakeError(
                f"{self.url}: its files are divided by {_names(self.directories)}, and the new ones by "
                f"{_names(directories)}; write them to a table of their own"
            )
        after = DeltaState(
            load=evolve(self.state.load.after(change), schema=None), quarantined=quarantined or Quarantined()
        )
        self._commits += 1  # No attempt overwrites the state of another.
        position = Position(self.claimed, self._commits)
        self._files.write(position.path, after.as_json())
        kind = "loss" if change.lost else "load"
        properties = properties_of(
            kind,
            {CLAIM_ID: self.claimed, STATE_ID: position.version},
            {"logbus.records": change.records, "logbus.quarantined": change.quarantined},
        )
        failed = FailedAttempts()
        for _ in range(_ATTEMPTS):
            before = self._table.version()
            try:
                self._widen(change.schema)
                made = self._append(added, properties)
            except failures() as e:
                if self._is_made(position):
                    made = self._table.version()
                    break
                if failed.is_last(before):
                    raise LakeError(f"{self.url}: a commit has failed: {failure_text(e)}") from e
                continue
            break
        else:
            raise LakeError(f"{self.url}: other programs commit to it all the time; nothing was committed")
        notes = foreign_changes(self.url, self._files.history(made - 1, self._noted), self._noted)
        self._noted = made
        self.state, self.position = after, position
        self._files.sync(made)
        self._settle()
        self._files.clean_up(position)
        return notes

    def _is_made(self, position: Position) -> bool:
        """
        Whether a commit was made though it failed.

        If not it can be repeated: should the store make it later, after a request that it did not answer, then only
        one of the two gets the version.

        :raise ClaimLost: another job has claimed the table.
        """
        self._look()
        if self._position() == position and self._claims() == self.claimed:
            return True
        self._check_claim()
        return False

    def _check_claim(self) -> None:
        if (last := self._claims()) != self.claimed:
            raise ClaimLost(
                f"{self.url}: claim {last} was made after claim {self.claimed}, which is this job's: two jobs write to "
                "one table, and the later one goes on"
            )

    def _create(self, schema: Any, directories: Sequence[str]) -> None:
        """
        Create the table, and claim it.

        :raise ClaimLost: another job has created it.
        :raise LakeError: that fails.
        """
        mine = uuid.uuid4().hex
        properties = properties_of("claim", {CLAIM_ID: 1}, {CREATION: mine})
        failed = FailedAttempts()
        while True:
            try:
                delta_writes.create(self.url, self._options, schema, directories, properties)
                self.refresh()
                break
            except failures() as e:
                if self._is_created(mine):
                    break
                if failed.is_last(-1):
                    raise LakeError(f"{self.url} cannot be created: {failure_text(e)}") from e
        self.claimed, self._commits, self._noted = 1, 0, 0

    def _is_created(self, mine: str) -> bool:
        """
        Whether the table is there though it could not be created: the store's answer, of this attempt or an earlier
        one, was lost.

        :raise ClaimLost: another job has created it.
        """
        self.refresh()
        if self._table is None:
            return False
        if next(self._files.history(0), {}).get(CREATION) != mine:
            raise ClaimLost(f"{self.url}: another job has created the table")
        return True

    def _widen(self, schema: Any) -> None:
        """
        Add columns and fields of the new rows' schema to the table.

        :raise LakeError: a column would change its type.
        """
        assert self._table is not None
        if schema is not None and delta_writes.widen(
            self.url, self._table, schema, properties_of("schema", {CLAIM_ID: self.claimed})
        ):
            self._look()
            self._check_claim()

    def _append(self, added: Sequence[AddedFile], properties: CommitProperties) -> int:
        """Commit files; the version that this made."""
        assert self._table is not None
        made = self._table.version() + 1
        delta_writes.append(self._table, added, properties, self._clock())
        self._look()
        return made

    def quarantine(self) -> DeltaTable | None:
        """The quarantine's table; None: there is none yet."""
        return self._odd.table()

    def unsettled(self, table: DeltaTable | None) -> Sequence[AddedFile]:
        """The files of the last commit that the quarantine does not have yet."""
        return unsettled(table, self.state.quarantined, self.position)

    def _settle(self) -> None:
        """Commit the last commit's quarantined files to the quarantine; it can be repeated, by any job."""
        self._odd.settle(self.state.quarantined, self.position)


def _names(directories: Sequence[str] | None) -> str:
    return ", ".join(directories or ()) or "no column"


_EMPTY = DeltaState(load=LoadState(), quarantined=Quarantined())
