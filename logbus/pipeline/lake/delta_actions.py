"""
The entries of Delta Lake's log about data files and our commits: statistics, partition values, positions. Pure.

Source: the Delta transaction log protocol (``PROTOCOL.md`` of delta-io/delta): *Per-file Statistics*, *Partition Value
Serialization*, *Transaction Identifiers*.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.load_state import LoadState, dumped, loaded
from logbus.pipeline.lake.part_files import ColumnStatistics, PartFile

CLAIM_ID = "logbus.claim"
"""The ``appId`` whose version is the number of claims so far."""

STATE_ID = "logbus.state"
"""The ``appId`` whose version is the :class:`Position` of the last commit of a load or a query."""

KIND = "logbus.kind"
"""The key of a commit's information that tells our commits from other programs'."""

CREATION = "logbus.creation"
"""The key of the first commit's information that tells a job its own from another's; a unique value."""

STATES = "_logbus/states"
"""The directory of the states. Engines take no notice of names that begin with ``_``, and their VACUUM neither."""

_COMMIT_BITS = 32
_INDEXED_COLUMNS = 32
"""As Delta's ``delta.dataSkippingNumIndexedCols``."""

_TEXTS = ("string", "binary")
_NUMBERS = ("byte", "short", "integer", "long", "float", "double")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_ATOMIC = frozenset(("boolean", *_NUMBERS, *_TEXTS, *_TIMES))
_MOST_NOTES = 10
_LONGEST_TEXT = 100
"""Characters of a bound; longer ones are left out."""

_HARMLESS = (
    "OPTIMIZE",
    "VACUUM",
    "CREATE",
    "SET ",
    "UNSET ",
    "ADD ",
    "CHANGE ",
    "COMPUTE ",
    "UPGRADE ",
    "REORG",
    "ANALYZE",
)
"""Beginnings of the operations that leave a table's rows as they were."""


@frozen(order=True)
class Position:
    """
    The position of a commit in the order of our commits.

    :ivar claim: the number of the claim, from 1 on; one job has it.
    :ivar commit: of the job, from 1 on.
    """

    claim: int
    commit: int

    @property
    def version(self) -> int:
        """As the version of a transaction identifier, which grows from commit to commit."""
        return self.claim << _COMMIT_BITS | self.commit

    @classmethod
    def of_version(cls, version: int) -> Position:
        """The position of a :attr:`version`."""
        return cls(version >> _COMMIT_BITS, version & (1 << _COMMIT_BITS) - 1)

    @property
    def path(self) -> str:
        """The file of the state after the commit, relative to the table."""
        return f"{STATES}/{self.claim:010}-{self.commit:010}.json"


NOWHERE = Position(0, 0)


@frozen
class AddedFile:
    """An ``add`` action: a file, its values of the partition columns as text, and its statistics as JSON."""

    path: str
    size: int
    partition: Mapping[str, str | None]
    statistics: str

    @classmethod
    def of(cls, part: PartFile) -> AddedFile:
        """The action for a file that a task has written."""
        values = {name: partition_text(value) for name, value in part.partition.items()}
        return cls(part.path, part.size, values, statistics_json(part))


@frozen(kw_only=True)
class Quarantined:
    """
    Files that belong to the quarantine, which is a table of its own, as soon as their commit is made.

    :ivar schema: of their rows, as Spark's JSON.
    :ivar directories: the quarantine's partition columns.
    """

    schema: Any = None
    directories: Sequence[str] = ()
    files: Sequence[AddedFile] = ()


@frozen(kw_only=True)
class DeltaState:
    """
    The content of a state's file: the state for loads, without the schema, and the last commit's quarantined files.
    """

    load: LoadState
    quarantined: Quarantined

    def as_json(self) -> bytes:
        """The file's content."""
        odd = self.quarantined
        files = [[each.path, each.size, dict(each.partition), each.statistics] for each in odd.files]
        return dumped(
            {
                **self.load.document(),
                "schema": None,
                "quarantined": {"schema": odd.schema, "directories": list(odd.directories), "files": files},
            }
        )

    @classmethod
    def from_json(cls, name: str, text: bytes) -> DeltaState:
        """
        Read a file.

        :raise LakeError: it is damaged, or of a newer format.
        """
        state = LoadState.from_json(name, text)
        try:
            odd = loaded(name, text)["quarantined"]
            files = tuple(AddedFile(*each) for each in odd["files"])
            quarantined = Quarantined(schema=odd["schema"], directories=tuple(odd["directories"]), files=files)
        except (KeyError, TypeError) as e:
            raise LakeError(f"{name} is not the state of a table: {e!r}") from e
        return cls(load=state, quarantined=quarantined)


def unknown_type(kind: Any) -> str:
    """
    The type, or that of a part of it, that Delta Lake does not have; "" if it has all.

    :param kind: as Spark's JSON has it.
    """
    if isinstance(kind, str):
        return "" if kind in _ATOMIC or kind.startswith("decimal") else kind
    parts = {
        "struct": lambda: [each["type"] for each in kind["fields"]],
        "array": lambda: [kind["elementType"]],
        "map": lambda: [kind["keyType"], kind["valueType"]],
    }
    if kind["type"] not in parts:
        return str(kind["type"])
    return next(filter(None, map(unknown_type, parts[kind["type"]]())), "")


def partition_text(value: Any) -> str | None:
    """A partition column's value as the log has it; None for null, and for an empty string, which is the same there."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        utc = value if value.tzinfo is None else value.astimezone(datetime.UTC)
        # Not strftime, which leaves out a year's leading zeros: then Spark reads no time.
        return utc.replace(tzinfo=None).isoformat(" ", "microseconds")
    return str(value)


def statistics_json(part: PartFile) -> str:
    """
    A file's statistics: the number of rows, and of top-level columns the number of nulls and the bounds.

    There are bounds for integers, dates, times and short texts. Those of floats would leave out NaN, and those of
    others readers do not use.
    """
    found: dict[str, Any] = {"numRecords": part.records, "minValues": {}, "maxValues": {}, "nullCount": {}}
    columns = part.footer.schema.to_arrow_schema()
    known = part.statistics()
    for field in list(columns)[:_INDEXED_COLUMNS]:
        statistics = known.get(field.name)
        if statistics is None or field.type.num_fields:
            continue
        if statistics.nulls is not None:
            found["nullCount"][field.name] = statistics.nulls
        if (bounds := bounds_of(statistics)) is not None:
            found["minValues"][field.name], found["maxValues"][field.name] = bounds
    return json.dumps(found)


def bounds_of(statistics: ColumnStatistics) -> tuple[Any, Any] | None:
    """The least and the greatest value as JSON has them; None: they are unknown, or not used."""
    low, high = statistics.minimum, statistics.maximum
    if low is None or high is None:
        return None
    if isinstance(low, datetime.datetime):
        try:
            return _millis(low), _millis(high, up=True)
        except OverflowError:
            return None
    if isinstance(low, datetime.date):
        return low.isoformat(), high.isoformat()
    if isinstance(low, str):
        return (low, high) if max(len(low), len(high)) <= _LONGEST_TEXT else None
    if isinstance(low, int) and not isinstance(low, bool):
        return low, high
    return None


def _millis(at: datetime.datetime, *, up: bool = False) -> str:
    """A time to the millisecond, below or above: readers differ in how they take more digits."""
    spare = at.microsecond % 1000
    if spare:
        at -= datetime.timedelta(microseconds=spare)
        if up:
            at += datetime.timedelta(milliseconds=1)
    text = at.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"{text}Z" if at.tzinfo is not None else text


def foreign_changes(url: str, history: Iterable[Mapping[str, Any]], after: int = -1) -> tuple[str, ...]:
    """
    Sentences about other programs' commits that changed rows.

    :param history: what the log says of commits, newest first, as delta-rs gives it.
    :param after: the last version that needs no mention; −1: the last of ours.
    """
    found: list[str] = []
    for each in history:
        version, what = int(each.get("version", 0)), str(each.get("operation", "unknown"))
        if version <= after or (KIND in each and after < 0):
            break
        if KIND in each:
            continue
        if not what.upper().startswith(_HARMLESS):
            found.insert(
                0,
                f"{url}: version {version} is another program's {what}: the rows stay as that left them, and offsets "
                "that were loaded are not loaded again",
            )
    return tuple(found[-_MOST_NOTES:])
