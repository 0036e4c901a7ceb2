"""
The commits of a table and the state they result in, as JSON. Pure.

Each commit is a JSON document, numbered without gaps. It names the files that were added and removed, and the offsets
of topics in them: so records and offsets are committed together, by one file that is created atomically. The state of
the table results from all commits in order; a snapshot is a saved state to start from.

A commit of kind ``claim`` changes nothing: a job writes it before it starts. It takes the next number, so that the job
which worked before can no longer commit. A commit of kind ``loss`` names offsets that are gone, and are not to be
loaded again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs
from attrs import field, frozen

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.offset_set import OffsetSet

FORMAT = 1
"""The version of the JSON format. A table of a newer version is neither read nor written."""


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


@frozen
class TopicOffsets:
    """
    The offsets of one topic that are in a table.

    :ivar topic_id: tells a topic from a deleted one of the same name; "" for brokers without topic ids.
    :ivar partitions: the offsets by partition.
    """

    topic_id: str
    partitions: Mapping[int, OffsetSet]

    def merged(self, name: str, other: TopicOffsets) -> TopicOffsets:
        """
        The union of two.

        :raise LakeError: an offset is in both, or the topic ids differ.
        """
        if other.topic_id != self.topic_id:
            raise LakeError(
                f"topic {name!r} has id {other.topic_id}, the one in the table {self.topic_id}: it was deleted and "
                "created again; load it into a table of its own"
            )
        partitions = dict(self.partitions)
        for partition, offsets in other.partitions.items():
            held = partitions.get(partition, OffsetSet())
            if twice := held & offsets:
                raise LakeError(f"{name}-{partition}: offsets {twice.ranges} are in the table already")
            partitions[partition] = held | offsets
        return TopicOffsets(self.topic_id, partitions)


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

    def as_json(self) -> bytes:
        """The document."""
        return _dumped(self._document())

    def _document(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "kind": self.kind.value,
            "at_ms": self.at_ms,
            "writer": self.writer,
            "staging": self.staging,
            "added": [attrs.asdict(each) for each in self.added],
            "removed": list(self.removed),
            "offsets": _topics_document(self.offsets),
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
        return cls._of(name, _loaded(name, text))

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
                offsets=_topics(document["offsets"]),
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
    :ivar offsets: the offsets that are in it or lost, by topic.
    :ivar lost: those of them that are lost.
    :ivar schema: of its rows, as Spark's JSON; None before the first.
    :ivar batches: the number of the last batch of each streaming query.
    :ivar last_change: the last commit that is not a claim; its files may not have been moved yet.
    """

    number: int = 0
    writer: str = ""
    files: Mapping[str, DataFile] = field(factory=dict)
    offsets: Mapping[str, TopicOffsets] = field(factory=dict)
    lost: Mapping[str, TopicOffsets] = field(factory=dict)
    schema: Any = None
    batches: Mapping[str, int] = field(factory=dict)
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
            offsets=_with(self.offsets, commit.offsets),
            lost=_with(self.lost, commit.offsets) if commit.kind is CommitKind.LOSS else self.lost,
            schema=self.schema if commit.schema is None else commit.schema,
            batches=self.batches if commit.batch is None else {**self.batches, commit.batch[0]: commit.batch[1]},
            last_change=self.last_change if commit.kind is CommitKind.CLAIM else commit,
        )

    def held(self, topic: str, partition: int) -> OffsetSet:
        """The offsets of a partition that need not be loaded: those in the table, and lost ones."""
        known = self.offsets.get(topic)
        return OffsetSet() if known is None else known.partitions.get(partition, OffsetSet())

    def as_json(self) -> bytes:
        """The document of a snapshot."""
        return _dumped(
            {
                "number": self.number,
                "writer": self.writer,
                "files": [attrs.asdict(each) for each in self.files.values()],
                "offsets": _topics_document(self.offsets),
                "lost": _topics_document(self.lost),
                "schema": self.schema,
                "batches": dict(self.batches),
                "last_change": None if self.last_change is None else self.last_change._document(),
            }
        )

    @classmethod
    def from_json(cls, name: str, text: bytes) -> TableState:
        """
        Read a snapshot.

        :raise LakeError: it is not one, or one of a newer format.
        """
        document = _loaded(name, text)
        try:
            change = document["last_change"]
            return cls(
                number=document["number"],
                writer=document["writer"],
                files={each.path: each for each in _files(document["files"])},
                offsets=_topics(document["offsets"]),
                lost=_topics(document["lost"]),
                schema=document["schema"],
                batches={str(name): int(number) for name, number in document["batches"].items()},
                last_change=None if change is None else Commit._of(name, change),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise LakeError(f"{name} is not a snapshot of a table: {e!r}") from e


def _with(before: Mapping[str, TopicOffsets], more: Mapping[str, TopicOffsets]) -> Mapping[str, TopicOffsets]:
    return {
        **before,
        **{name: before[name].merged(name, added) if name in before else added for name, added in more.items()},
    }


def _dumped(document: Mapping[str, Any]) -> bytes:
    return json.dumps({"format": FORMAT, **document}, separators=(",", ":")).encode()


def _loaded(name: str, text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as e:
        raise LakeError(f"{name} is not JSON: {e}") from e
    if not isinstance(document, dict):
        raise LakeError(f"{name} is not a JSON object")
    if document.get("format") != FORMAT:
        raise LakeError(f"{name} is of format {document.get('format')!r}, this program reads and writes {FORMAT}")
    return document


def _files(values: Any) -> tuple[DataFile, ...]:
    return tuple(DataFile(each["path"], each["size"]) for each in values)


def _topics(values: Any) -> dict[str, TopicOffsets]:
    return {
        name: TopicOffsets(
            topic["topic_id"],
            {
                int(partition): OffsetSet.of(*((int(start), int(end)) for start, end in ranges))
                for partition, ranges in topic["partitions"].items()
            },
        )
        for name, topic in values.items()
    }


def _topics_document(topics: Mapping[str, TopicOffsets]) -> dict[str, Any]:
    return {
        name: {
            "topic_id": topic.topic_id,
            "partitions": {str(number): offsets.ranges for number, offsets in topic.partitions.items()},
        }
        for name, topic in topics.items()
    }
