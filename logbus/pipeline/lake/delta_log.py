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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from logbus.pipeline.errors import ClaimLost, LakeError
from logbus.pipeline.lake.delta_actions import (
    CLAIM_ID,
    KIND,
    NOWHERE,
    STATE_ID,
    STATES,
    AddedFile,
    DeltaState,
    Position,
    Quarantined,
    foreign_changes,
    unknown_type,
)
from logbus.pipeline.lake.file_system import LocalFileSystem
from logbus.pipeline.lake.layout import QUARANTINE
from logbus.pipeline.lake.load_state import LoadChange, LoadState
from logbus.pipeline.lake.object_store import ArrowStore, store_options
from logbus.pipeline.lake.schema_evolution import has_more, merged_schema

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

KEEP = 20
"""States before the last that are kept, for readers that are under way."""

_ATTEMPTS = 100
"""Of a commit, while other programs commit."""

_FAILURES = 5
"""Of a claim, one after the other, for which no other program's commit is the reason."""

_HISTORY = 100
"""Versions that are looked through for other programs' changes."""


def now_ms() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)


def storage_options(url: str, given: Mapping[str, str]) -> dict[str, str]:
    """
    The options of a store as delta-rs takes them.

    :raise LakeError: no store is known for the URL's scheme.
    :raise OptionError: an option is none of the store's.
    """
    options = store_options(url, given)
    if endpoint := options.pop("AWS_ENDPOINT_URL_S3", "") or options.get("AWS_ENDPOINT_URL", ""):
        options["AWS_ENDPOINT_URL"] = endpoint
        if endpoint.startswith("http:"):
            options["AWS_ALLOW_HTTP"] = "true"
    if options.get("AZURE_STORAGE_ENDPOINT", "").startswith("http:"):
        options["AZURE_ALLOW_HTTP"] = "true"
    if emulator := options.pop("STORAGE_EMULATOR_HOST", ""):
        address = emulator if "://" in emulator else f"http://{emulator}"
        account = {"gcs_base_url": address, "disable_oauth": True}
        account |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        options["GOOGLE_SERVICE_ACCOUNT_KEY"] = json.dumps(account)
        options["GOOGLE_ALLOW_HTTP"] = "true"
    return options


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
    _settled: Position = field(default=NOWHERE, init=False)
    _commits: int = field(default=0, init=False)
    _noted: int = field(default=-1, init=False)
    """The version up to which other programs' changes have been told of."""

    def __attrs_post_init__(self) -> None:
        if "%" in self.url:
            raise LakeError(f"{self.url!r} cannot be the name of a Delta Lake table: delta-rs takes % for an escape")
        self._options = storage_options(self.url, self.given)
        self.store = ArrowStore(self.url, self.given)
        self.state = _EMPTY
        if (local := self.store.local_root()) is not None:
            self.url = str(local)

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
                self.state = DeltaState.from_json(f"{self.url}/{position.path}", self._read(position.path))
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
        from deltalake.exceptions import DeltaError, TableNotFoundError

        if self._table is not None:
            self._table.update_incremental()
            return
        try:
            table = DeltaTable(self.url, storage_options=self._options)
        except TableNotFoundError:
            return
        except DeltaError as e:
            raise LakeError(f"{self.url}: its log cannot be read: {e}") from e
        if table.transaction_version(CLAIM_ID) is None and table.file_uris():
            raise LakeError(
                f"{self.url} is a Delta Lake table that another program made: which offsets are in it is not known; "
                "load into a table of its own"
            )
        self._table = table

    def _position(self) -> Position:
        version = None if self._table is None else self._table.transaction_version(STATE_ID)
        return NOWHERE if version is None else Position.of_version(version)

    def _claims(self) -> int:
        return 0 if self._table is None else self._table.transaction_version(CLAIM_ID) or 0

    def claim(self, schema: Any = None, directories: Sequence[str] = ()) -> tuple[str, ...]:
        """
        See :class:`.LoadTarget`. Without a schema a table that is not there is claimed by the first commit.

        :raise LakeError: the table has other partition columns, or Delta Lake has no such type.
        """
        failures = 0
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
            notes = foreign_changes(self.url, self._history(self._table.version()))
            try:
                made = self._append([], self._properties("claim", {CLAIM_ID: claim}))
            except _failures() as e:
                before = self._table.version()
                self._look()
                failures = failures + 1 if self._table.version() == before else 0
                if failures == _FAILURES:
                    raise LakeError(f"{self.url} cannot be claimed: {e}") from e
                continue
            self.claimed, self._commits = claim, 0
            self._noted = made
            self.refresh()
            if self._claims() == claim:
                self._settle()
                return notes
        raise LakeError(f"{self.url} cannot be claimed, since other programs go on committing to it")

    def _create(self, schema: Any, directories: Sequence[str]) -> None:
        from deltalake.transaction import create_table_with_add_actions

        try:
            create_table_with_add_actions(
                self.url,
                delta_schema(self.url, schema),
                [],
                mode="error",
                partition_by=list(directories),
                storage_options=self._options,
                commit_properties=self._properties("claim", {CLAIM_ID: 1}),
            )
        except _failures() as e:
            self.refresh()
            if self._table is None:
                raise
            raise ClaimLost(f"{self.url}: another job has created the table") from e
        self.claimed, self._commits, self._noted = 1, 0, 0
        self.refresh()

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
        self._write(position.path, after.as_json())
        kind = "loss" if change.lost else "load"
        properties = self._properties(
            kind,
            {CLAIM_ID: self.claimed, STATE_ID: position.version},
            {"logbus.records": change.records, "logbus.quarantined": change.quarantined},
        )
        for _ in range(_ATTEMPTS):
            try:
                self._widen(change.schema)
                made = self._append(added, properties)
            except _failures() as e:
                if self._is_made(position, e):
                    made = self._table.version()
                    break
                continue
            break
        else:
            raise LakeError(f"{self.url}: other programs commit to it all the time; nothing was committed")
        notes = foreign_changes(self.url, self._history(made - 1, self._noted), self._noted)
        self._noted = made
        self.state, self.position = after, position
        self._sync()
        self._settle()
        self._clean_up()
        return notes

    def _is_made(self, position: Position, error: Exception) -> bool:
        """
        Whether a commit was made though it failed; else it is to be repeated.

        :raise ClaimLost: another job has claimed the table.
        :raise Exception: the error, if it is no other program's commit.
        """
        assert self._table is not None
        before = self._table.version()
        self._look()
        if self._position() == position and self._claims() == self.claimed:
            return True
        self._check_claim()
        if self._table.version() == before:
            if isinstance(error, OSError):
                raise error
            raise LakeError(f"{self.url}: {error}") from error
        return False

    def _check_claim(self) -> None:
        if (last := self._claims()) != self.claimed:
            raise ClaimLost(
                f"{self.url}: claim {last} was made after claim {self.claimed}, which is this job's: two jobs write to "
                "one table, and the later one goes on"
            )

    def _widen(self, schema: Any) -> None:
        """
        Add columns and fields of the new rows' schema to the table.

        :raise LakeError: a column would change its type.
        """
        from deltalake import Field

        if schema is None:
            return
        assert self._table is not None
        now = self.schema
        wanted = merged_schema(self.url, now, schema)
        known = {each["name"]: each for each in now["fields"]}
        more = [each for each in wanted["fields"] if has_more(known.get(each["name"]), each)]
        if not more:
            return
        delta_schema(self.url, {**wanted, "fields": more})
        self._table.alter.add_columns(
            [Field.from_json(json.dumps(_nullable(each))) for each in more],
            commit_properties=self._properties("schema", {CLAIM_ID: self.claimed}),
        )
        self._look()
        self._check_claim()

    def _append(self, added: Sequence[AddedFile], properties: CommitProperties) -> int:
        """Commit files; the version that this made."""
        assert self._table is not None
        made = self._table.version() + 1
        _append_to(self._table, added, properties, self._clock())
        self._look()
        return made

    def _properties(
        self, kind: str, transactions: Mapping[str, int], more: Mapping[str, Any] | None = None
    ) -> CommitProperties:
        from deltalake import CommitProperties, Transaction

        return CommitProperties(
            custom_metadata={KIND: kind, **(more or {})},
            max_commit_retries=0,
            app_transactions=[Transaction(name, version) for name, version in transactions.items()],
        )

    def quarantine(self) -> DeltaTable | None:
        """The quarantine's table; None: there is none yet."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return DeltaTable(f"{self.url}/{QUARANTINE}", storage_options=self._options)
        except TableNotFoundError:
            return None

    def unsettled(self, table: DeltaTable | None) -> Sequence[AddedFile]:
        """The files of the last commit that the quarantine does not have yet."""
        done = None if table is None else table.transaction_version(STATE_ID)
        return self.state.quarantined.files if done is None or done < self.position.version else ()

    def _settle(self) -> None:
        """Commit the last commit's quarantined files to the quarantine; it can be repeated, by any job."""
        if self._settled == self.position or not (odd := self.state.quarantined).files:
            self._settled = self.position
            return
        from deltalake import Field
        from deltalake.transaction import create_table_with_add_actions

        url = f"{self.url}/{QUARANTINE}"
        properties = self._properties("load", {STATE_ID: self.position.version})
        for attempt in range(_ATTEMPTS):
            table = self.quarantine()
            if not self.unsettled(table):
                break
            try:
                if table is None:
                    create_table_with_add_actions(
                        url,
                        delta_schema(url, odd.schema),
                        [_action(each, self._clock()) for each in odd.files],
                        mode="error",
                        partition_by=list(odd.directories),
                        storage_options=self._options,
                        commit_properties=properties,
                    )
                else:
                    now = json.loads(table.schema().to_json())
                    known = {each["name"]: each for each in now["fields"]}
                    wanted = merged_schema(url, now, odd.schema)["fields"]
                    if more := [each for each in wanted if has_more(known.get(each["name"]), each)]:
                        fields = [Field.from_json(json.dumps(_nullable(each))) for each in more]
                        table.alter.add_columns(fields, commit_properties=self._properties("schema", {}))
                        table.update_incremental()
                    _append_to(table, odd.files, properties, self._clock())
            except _failures():
                if attempt == _ATTEMPTS - 1:
                    raise
        self._settled = self.position

    def _history(self, last: int, after: int = -1) -> Iterator[dict[str, Any]]:
        """
        What the log says of versions, newest first, as far as it is kept; delta-rs' own reads many more of them.

        :param last: the first one;  ``after``: the one behind the last.
        """
        for version in range(last, max(after, last - _HISTORY), -1):
            try:
                lines = self._read(f"_delta_log/{version:020}.json").splitlines()
            except FileNotFoundError:
                return
            infos = [info for line in lines if (info := json.loads(line).get("commitInfo")) is not None]
            yield {**(infos[0] if infos else {}), "version": version}

    def _read(self, path: str) -> bytes:
        with self.store.file_system().open_input_stream(f"{self.store.root()}/{path}") as file:
            return bytes(file.read())

    def _write(self, path: str, content: bytes) -> None:
        files, target = self.store.file_system(), f"{self.store.root()}/{path}"
        if self.store.local_root() is not None:
            files.create_dir(target.rpartition("/")[0])
        with files.open_output_stream(target) as file:
            file.write(content)
        if (root := self.store.local_root()) is not None:
            LocalFileSystem(root).sync([path])

    def _sync(self) -> None:
        """Flush the last version of a local table to disk."""
        if (root := self.store.local_root()) is not None and self._table is not None:
            LocalFileSystem(root).sync([f"_delta_log/{self._table.version():020}.json"])

    def _clean_up(self) -> None:
        """Delete old states, every :data:`KEEP` commits."""
        from pyarrow import fs

        if self.position.commit % KEEP:
            return
        files = self.store.file_system()
        found = files.get_file_info(fs.FileSelector(f"{self.store.root()}/{STATES}", allow_not_found=True))
        last = self.position.path.rpartition("/")[2]
        for each in sorted(each.base_name for each in found if each.base_name < last)[:-KEEP]:
            try:
                files.delete_file(f"{self.store.root()}/{STATES}/{each}")
            except FileNotFoundError:
                pass


def _names(directories: Sequence[str] | None) -> str:
    return ", ".join(directories or ()) or "no column"


_EMPTY = DeltaState(load=LoadState(), quarantined=Quarantined())


def _failures() -> tuple[type[Exception], ...]:
    """What a commit may fail with though it may have been made."""
    from deltalake.exceptions import DeltaError

    return DeltaError, OSError


def _append_to(table: DeltaTable, added: Sequence[AddedFile], properties: CommitProperties, now_ms: int) -> None:
    table.create_write_transaction(
        [_action(each, now_ms) for each in added],
        "append",
        table.schema(),
        partition_by=table.metadata().partition_columns,
        commit_properties=properties,
    )


def _action(file: AddedFile, now_ms: int) -> Any:
    from deltalake.transaction import AddAction

    return AddAction(file.path, file.size, dict(file.partition), now_ms, True, file.statistics)


def delta_schema(url: str, schema: Any) -> Any:
    """
    A schema in Spark's JSON as a ``deltalake.Schema``; all columns may be null.

    :raise LakeError: Delta Lake lacks a type; it names the column.
    """
    from deltalake import Field, Schema

    for each in schema["fields"]:
        if unknown := unknown_type(each["type"]):
            raise LakeError(f"{url}: Delta Lake has no type for column {each['name']!r}, which is {unknown}")
    return Schema([Field.from_json(json.dumps(_nullable(each))) for each in schema["fields"]])


def _nullable(each: Any) -> Any:
    """A field that may be null, as are its own: older rows may lack it."""
    return {**each, "nullable": True, "metadata": {}, "type": _nullable_type(each["type"])}


def _nullable_type(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return kind
    made = {key: _nullable_type(value) for key, value in kind.items()}
    if kind["type"] == "struct":
        made["fields"] = [_nullable(each) for each in kind["fields"]]
    return {key: True if key in ("containsNull", "valueContainsNull") else value for key, value in made.items()}
