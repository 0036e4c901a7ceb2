"""
The state of loads into a table: the offsets in it, the schema of its rows, the last batches of queries; and JSON. Pure.

Each format of tables keeps a :class:`LoadState` in its own way, and commits the change of it together with the rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.offset_set import OffsetSet

FORMAT = 1
"""The version of the JSON format. A table of a newer version is neither read nor written."""


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
class LoadChange:
    """
    The changes of one commit of a load or a query.

    :ivar offsets: the offsets in the new rows, by topic.
    :ivar lost: offsets that are gone, and are not to be loaded again.
    :ivar records: new rows, with those in quarantine;  ``quarantined``: those whose value could not be read.
    :ivar schema: of the table's rows from here on, as Spark's JSON; None: unchanged.
    :ivar batch: the query and number of a streaming batch, so that it is not written twice.
    """

    offsets: Mapping[str, TopicOffsets] = field(factory=dict)
    lost: Mapping[str, TopicOffsets] = field(factory=dict)
    records: int = 0
    quarantined: int = 0
    schema: Any = None
    batch: tuple[str, int] | None = None


@frozen(kw_only=True)
class LoadState:
    """
    The state of loads into a table after a commit.

    :ivar offsets: the offsets that are in it or lost, by topic.
    :ivar lost: those of them that are lost.
    :ivar schema: of its rows, as Spark's JSON; None before the first.
    :ivar batches: the number of the last batch of each streaming query.
    """

    offsets: Mapping[str, TopicOffsets] = field(factory=dict)
    lost: Mapping[str, TopicOffsets] = field(factory=dict)
    schema: Any = None
    batches: Mapping[str, int] = field(factory=dict)

    def after(self, change: LoadChange) -> LoadState:
        """
        The state after one more commit.

        :raise LakeError: an offset or a batch is in the table already, or a topic has another id.
        """
        if change.batch is not None and change.batch[1] <= self.batches.get(change.batch[0], -1):
            raise LakeError(
                f"batch {change.batch[1]} of the query {change.batch[0]} is in the table already: another job has "
                "written it meanwhile; run one job at a time"
            )
        return LoadState(
            offsets=_with(_with(self.offsets, change.offsets), change.lost),
            lost=_with(self.lost, change.lost),
            schema=self.schema if change.schema is None else change.schema,
            batches=self.batches if change.batch is None else {**self.batches, change.batch[0]: change.batch[1]},
        )

    def held(self, topic: str, partition: int) -> OffsetSet:
        """The offsets of a partition that need not be loaded: those in the table, and lost ones."""
        known = self.offsets.get(topic)
        return OffsetSet() if known is None else known.partitions.get(partition, OffsetSet())

    def document(self) -> dict[str, Any]:
        """The state, of values that JSON has."""
        return {
            "offsets": topics_document(self.offsets),
            "lost": topics_document(self.lost),
            "schema": self.schema,
            "batches": dict(self.batches),
        }

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> LoadState:
        """
        The state of a :meth:`document`.

        :raise KeyError, TypeError, ValueError, AttributeError: it is none.
        """
        return cls(
            offsets=topics_of(document["offsets"]),
            lost=topics_of(document["lost"]),
            schema=document["schema"],
            batches={str(name): int(number) for name, number in document["batches"].items()},
        )

    def as_json(self) -> bytes:
        """The state as a JSON document of its own."""
        return dumped(self.document())

    @classmethod
    def from_json(cls, name: str, text: bytes) -> LoadState:
        """
        Read a document.

        :param name: of the place where it is, for errors.
        :raise LakeError: it is not one, or one of a newer format.
        """
        document = loaded(name, text)
        try:
            return cls.of_document(document)
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise LakeError(f"{name} is not the state of a table: {e!r}") from e


def _with(before: Mapping[str, TopicOffsets], more: Mapping[str, TopicOffsets]) -> Mapping[str, TopicOffsets]:
    return {
        **before,
        **{name: before[name].merged(name, added) if name in before else added for name, added in more.items()},
    }


def dumped(document: Mapping[str, Any]) -> bytes:
    """A document with the version of its format."""
    return json.dumps({"format": FORMAT, **document}, separators=(",", ":")).encode()


def loaded(name: str, text: bytes) -> dict[str, Any]:
    """
    Read what :func:`dumped` made.

    :raise LakeError: it is not JSON, or of a newer format.
    """
    try:
        document = json.loads(text)
    except ValueError as e:
        raise LakeError(f"{name} is not JSON: {e}") from e
    if not isinstance(document, dict):
        raise LakeError(f"{name} is not a JSON object")
    if document.get("format") != FORMAT:
        raise LakeError(f"{name} is of format {document.get('format')!r}, this program reads and writes {FORMAT}")
    return document


def topics_of(values: Any) -> dict[str, TopicOffsets]:
    """The offsets of :func:`topics_document`."""
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


def topics_document(topics: Mapping[str, TopicOffsets]) -> dict[str, Any]:
    """Offsets by topic, of values that JSON has."""
    return {
        name: {
            "topic_id": topic.topic_id,
            "partitions": {str(number): offsets.ranges for number, offsets in topic.partitions.items()},
        }
        for name, topic in topics.items()
    }
