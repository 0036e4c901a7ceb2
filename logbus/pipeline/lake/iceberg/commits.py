"""
The state of loads in an Iceberg table's metadata, and whose its snapshots are. Pure.

Each commit of a load is a snapshot. Together with it, in one change of the metadata, the property :data:`STATE` gets
the whole state: offsets, schema, batches, and the snapshot's id. It is there once, whatever the number of snapshots,
and outlives their expiry. The snapshot's summary has the commit's number and writer, and the offsets that the table
then has, unless these are long: by them a table that was rolled back is loaded from there on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve, field, frozen

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.load_state import FORMAT, LoadChange, LoadState, dumped, loaded

STATE = "logbus.state"
"""The table's property with the state, as JSON."""

COMMIT, WRITER, OFFSETS = "logbus.commit", "logbus.writer", "logbus.offsets"
"""Of a snapshot's summary: the commit's number, its job, and the table's offsets."""

COMPACTION = "logbus.compaction"
"""Of the summary of a compaction, by any job: it changes no row."""

MAX_SUMMARY = 4096
"""Bytes of offsets in a summary, since metadata keep all summaries: about 150 partitions without gaps."""


@frozen(kw_only=True)
class TableState:
    """
    The state after a commit.

    :ivar number: of the commit; 0 before the first.
    :ivar writer: the unique id of the job's claim.
    :ivar snapshot: its id;  ``sequence``: its sequence number.
    :ivar quarantine: the snapshot of the quarantine that belongs to it; None: there is none.
    :ivar records: rows in the table.
    :ivar load: what loads know of the table.
    """

    number: int = 0
    writer: str = ""
    snapshot: int | None = None
    sequence: int = 0
    quarantine: int | None = None
    records: int = 0
    load: LoadState = field(factory=LoadState)

    def after(self, change: LoadChange, writer: str, records: int) -> TableState:
        """
        The next state, without its snapshot.

        :param records: rows in the table then.
        :raise LakeError: an offset is in the table already, or a topic has another id.
        """
        return evolve(
            self,
            number=self.number + 1,
            writer=writer,
            records=records,
            load=self.load.after(change),
        )

    def as_json(self) -> str:
        """The value of the property."""
        own = {name: getattr(self, name) for name in _OWN}
        return dumped({**own, **self.load.document()}).decode()

    @classmethod
    def from_json(cls, table: str, text: str) -> TableState:
        """
        Read the property.

        :raise LakeError: it is damaged, or of a newer format.
        """
        what = f"{table}: its property {STATE}"
        document = loaded(what, text.encode())
        try:
            return cls(load=LoadState.of_document(document), **{name: document[name] for name in _OWN})
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise LakeError(f"{what} is not the state of a table: {e!r}") from e

    def summary(self) -> dict[str, str]:
        """The properties of the snapshot's summary."""
        offsets = _offsets_json(self)
        found = {COMMIT: str(self.number), WRITER: self.writer}
        return found if len(offsets.encode()) > MAX_SUMMARY else {**found, OFFSETS: offsets}


_OWN = ("number", "writer", "snapshot", "sequence", "quarantine", "records")


def _offsets_json(state: TableState) -> str:
    document = {name: value for name, value in state.load.document().items() if name != "schema"}
    own = {"quarantine": state.quarantine, "records": state.records}
    return json.dumps({"format": FORMAT, **own, **document}, separators=(",", ":"))


@frozen
class Ancestor:
    """A snapshot: its id, that of its parent, its sequence number and the properties of its summary."""

    snapshot: int
    parent: int | None
    sequence: int
    operation: str = ""
    properties: Mapping[str, str] = field(factory=dict)

    @property
    def is_ours(self) -> bool:
        """Whether a job of logbus made it."""
        return WRITER in self.properties


@frozen
class Resolved:
    """
    The state that a table has now.

    :ivar notes: sentences about changes by other programs.
    """

    state: TableState
    notes: tuple[str, ...] = ()


def ancestors(current: int | None, snapshots: Iterable[Ancestor]) -> tuple[Sequence[Ancestor], int | None]:
    """
    The line of snapshots that leads to the current one, newest first, as far as they are not expired.

    :returns: and the parent of the last, if it is known though it has expired: some programs keep its id, and others
        do not.
    """
    known = {each.snapshot: each for each in snapshots}
    line: list[Ancestor] = []
    while current is not None and current in known:
        line.append(known[current])
        current = known[current].parent
    return line, current


def resolve(
    table: str, written: TableState | None, current: int | None, snapshots: Iterable[Ancestor], rows: int | None = None
) -> Resolved:
    """
    The state of a table, which others may have changed since it was written.

    :param written: the table's property; None: it has none.
    :param current: the table's snapshot.
    :param rows: in the table, if its summary says that.
    :raise LakeError: it is no table of loads, or was rolled back to where its offsets are not known.
    """
    line, gone = ancestors(current, snapshots)
    if written is None:
        if line:
            raise LakeError(
                f"{table} has snapshots, but no property {STATE}: its rows are not of a load; load into a table of its "
                "own"
            )
        return Resolved(TableState())
    since: list[Ancestor] = []
    for each in line:
        if each.snapshot == written.snapshot:
            return Resolved(written, _notes_of(since))
        if each.sequence <= written.sequence:
            break
        since.append(each)
    else:
        if line and gone == written.snapshot:
            return Resolved(written, _notes_of(since))
        if line:
            return _without_proof(table, written, since, rows)
    return _rolled_back(table, written, line)


def _notes_of(since: Sequence[Ancestor]) -> tuple[str, ...]:
    since = [each for each in since if COMPACTION not in each.properties]
    if not since:
        return ()
    what = ", ".join(sorted({each.operation or "change" for each in since}))
    count = f"{len(since)} snapshots" if len(since) > 1 else "a snapshot"
    return (f"another program has made {count} of the table since the last load ({what})",)


def _without_proof(table: str, written: TableState, since: Sequence[Ancestor], rows: int | None) -> Resolved:
    """Snapshots between the last load's and the oldest that is left have expired."""
    if rows is None or rows < written.records:
        raise LakeError(
            f"{table}: other programs have changed it since commit {written.number}, whose snapshot "
            f"{written.snapshot} has expired, and it has {'?' if rows is None else rows} rows, where it had "
            f"{written.records}: rows were deleted, or it was rolled back; load into a table of its own"
        )
    return Resolved(written, _notes_of(since))


def _rolled_back(table: str, written: TableState, line: Sequence[Ancestor]) -> Resolved:
    before = f"the table was rolled back from commit {written.number}"
    if not line:
        load = LoadState(schema=written.load.schema)
        return Resolved(
            evolve(written, quarantine=None, records=0, load=load), (f"{before} to none; all is loaded again",)
        )
    ours = next((each for each in line if each.is_ours), None)
    if ours is not None and OFFSETS in ours.properties:
        note = f"{before} to commit {ours.properties[COMMIT]}; what was loaded after that is loaded again"
        return Resolved(_state_at(table, written, ours), (note,))
    raise LakeError(
        f"{table} was rolled back from commit {written.number} to a snapshot whose offsets are not known; make "
        f"snapshot {written.snapshot} the current one again, or load into a table of its own"
    )


def _state_at(table: str, written: TableState, at: Ancestor) -> TableState:
    what = f"{table}: snapshot {at.snapshot}"
    document = loaded(what, at.properties[OFFSETS].encode())
    try:
        load = LoadState.of_document({**document, "schema": written.load.schema})
        return evolve(written, quarantine=document["quarantine"], records=document["records"], load=load)
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise LakeError(f"{what}: its {OFFSETS} are damaged: {e!r}") from e
