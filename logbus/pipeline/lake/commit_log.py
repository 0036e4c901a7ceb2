"""
The commits of a table of Parquet files and the state they result in, as JSON. Pure.

Each commit is a JSON document, numbered without gaps. It names the files that were added and removed, and the offsets
of topics in them: so records and offsets are committed together, by one file that is created atomically. The state of
the table results from all commits in order; a snapshot is a saved state to start from.

A commit of kind ``claim`` changes nothing: a job writes it before it starts. It takes the next number, so that the job
which worked before can no longer commit. A commit of kind ``loss`` names offsets that are gone, and are not to be
loaded again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs
from attrs import field, frozen

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.load_state import (
    LoadChange,
    LoadState,
    TopicOffsets,
    dumped,
    loaded,
    topics_document,
    topics_of,
)


class CommitKind(Enum):
    """The kind of a commit."""

    CLAIM = "claim"
    LOAD = "load"
    LOSS = "loss"
    COMPACT = "compact"


@frozen
class DataFile:
    """
    A Parquet file.

    :ivar path: relative to the table.
    :ivar size: bytes.
    """

    path: str
    size: int


@frozen(kw_only=True)
class Commit:
    """
    One change of a table.

    :ivar number: from 1 on, without gaps.
    :ivar at_ms: when, in milliseconds since 1970; for information only.
    :ivar writer: the unique id of the job's claim.
    :ivar staging: the directory below the table in which the new files are until they are moved; "" for none.
    :ivar added: the new files, by their final paths.
    :ivar removed: paths of files that are no longer part of the table.
    :ivar offsets: the offsets in the new files, by topic; empty for a compaction; of a loss the offsets that are gone.
    :ivar records: rows in the new files;  ``quarantined``: those of them whose value could not be read.
    :ivar schema: of the table from here on, as Spark's JSON; None: unchanged.
    :ivar batch: the query and number of a streaming batch, so that it is not written twice.
    """

    number: int
    kind: CommitKind
    at_ms: int
    writer: str
    staging: str = ""
    added: tuple[DataFile, ...] = ()
    removed: tuple[str, ...] = ()
    offsets: Mapping[str, TopicOffsets] = field(factory=dict)
    records: int = 0
    quarantined: int = 0
    schema: Any = None
    batch: tuple[str, int] | None = None

    @property
    def change(self) -> LoadChange:
        """What it changes for loads."""
        is_loss = self.kind is CommitKind.LOSS
        return LoadChange(
            offsets={} if is_loss else self.offsets,
            lost=self.offsets if is_loss else {},
            records=self.records,
            quarantined=self.quarantined,
            schema=self.schema,
            batch=self.batch,
        )

    def as_json(self) -> bytes:
        """The document."""
        return dumped(self._document())

    def _document(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "kind": self.kind.value,
            "at_ms": self.at_ms,
            "writer": self.writer,
            "staging": self.staging,
            "added": [attrs.asdict(each) for each in self.added],
            "removed": list(self.removed),
            "offsets": topics_document(self.offsets),
            "records": self.records,
            "quarantined": self.quarantined,
            "schema": self.schema,
            "batch": self.batch,
        }

    @classmethod
    def from_json(cls, name: str, text: bytes) -> Commit:
        """
        Read a document.

        :param name: of the file, for errors.
        :raise LakeError: it is not one, or one of a newer format.
        """
        return cls._of(name, loaded(name, text))

    @classmethod
    def _of(cls, name: str, document: Mapping[str, Any]) -> Commit:
        try:
            return cls(
                number=document["number"],
                kind=CommitKind(document["kind"]),
                at_ms=document["at_ms"],
                writer=document["writer"],
                staging=document["staging"],
                added=_files(document["added"]),
                removed=tuple(document["removed"]),
                offsets=topics_of(document["offsets"]),
                records=document["records"],
                quarantined=document["quarantined"],
                schema=document["schema"],
                batch=None if document["batch"] is None else (str(document["batch"][0]), int(document["batch"][1])),
            )
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
            raise LakeError(f"{name} is not a commit of a table: {e!r}") from e


@frozen(kw_only=True)
class TableState:
    """
    A table after a commit.

    :ivar number: the last commit's; 0 before the first.
    :ivar writer: of the last commit.
    :ivar files: the table's files, by path.
    :ivar load: what loads know of it.
    :ivar last_change: the last commit that is not a claim; its files may not have been moved yet.
    """

    number: int = 0
    writer: str = ""
    files: Mapping[str, DataFile] = field(factory=dict)
    load: LoadState = field(factory=LoadState)
    last_change: Commit | None = None

    def after(self, commit: Commit) -> TableState:
        """
        The state after one more commit.

        :raise LakeError: it is not the next commit, or contradicts the state.
        """
        if commit.number != self.number + 1:
            raise LakeError(f"commit {commit.number} cannot follow commit {self.number}")
        files = dict(self.files)
        for path in commit.removed:
            if files.pop(path, None) is None:
                raise LakeError(f"commit {commit.number} removes {path}, which the table does not have")
        for each in commit.added:
            if each.path in files:
                raise LakeError(f"commit {commit.number} adds {each.path}, which the table has already")
            files[each.path] = each
        return TableState(
            number=commit.number,
            writer=commit.writer,
            files=files,
            load=self.load.after(commit.change),
            last_change=self.last_change if commit.kind is CommitKind.CLAIM else commit,
        )

    def as_json(self) -> bytes:
        """The document of a snapshot."""
        return dumped(
            {
                "number": self.number,
                "writer": self.writer,
                "files": [attrs.asdict(each) for each in self.files.values()],
                **self.load.document(),
                "last_change": None if self.last_change is None else self.last_change._document(),
            }
        )

    @classmethod
    def from_json(cls, name: str, text: bytes) -> TableState:
        """
        Read a snapshot.

        :raise LakeError: it is not one, or one of a newer format.
        """
        document = loaded(name, text)
        try:
            change = document["last_change"]
            return cls(
                number=document["number"],
                writer=document["writer"],
                files={each.path: each for each in _files(document["files"])},
                load=LoadState.of_document(document),
                last_change=None if change is None else Commit._of(name, change),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise LakeError(f"{name} is not a snapshot of a table: {e!r}") from e


def _files(values: Any) -> tuple[DataFile, ...]:
    return tuple(DataFile(each["path"], each["size"]) for each in values)
