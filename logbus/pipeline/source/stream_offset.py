"""
The offsets of a stream as JSON in Spark's checkpoint (Spark: KafkaSourceOffset). Pure.

The JSON is that of Spark's Kafka source, ``{"orders": {"0": 23}}``, with two keys that cannot be names of topics:

``:ids``
    The topics' ids, to recognize a topic that was deleted and recreated.
``:from``
    Where the first batch begins, kept with its end. Spark does not save the start, and asks for it again if it dies
    before the first batch is done, when "latest" may be another offset.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from logbus.pipeline.errors import PipelineError
from logbus.pipeline.source.offsets_json import PartitionOffsets, offsets_from_json, offsets_to_json

_IDS, _FROM = ":ids", ":from"


@frozen
class StreamOffset:
    """
    A position of a stream.

    :ivar offsets: of each partition, the offset to read next.
    :ivar ids: of topics; empty for brokers without topic ids.
    :ivar begun: where the first batch begins; None after other batches.
    """

    offsets: PartitionOffsets
    ids: Mapping[str, uuid.UUID] = field(factory=dict)
    begun: PartitionOffsets | None = None

    def as_json(self) -> dict[str, Any]:
        """The JSON that :meth:`read` reads; equal positions have equal JSON."""
        document: dict[str, Any] = offsets_to_json(self.offsets)
        if self.ids:
            document[_IDS] = {topic: str(topic_id) for topic, topic_id in sorted(self.ids.items())}
        if self.begun is not None:
            document[_FROM] = offsets_to_json(self.begun)
        return document

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> StreamOffset:
        """
        Parse JSON of a checkpoint.

        :raises PipelineError: it is not a position of this source.
        """
        try:
            offsets = offsets_from_json({topic: document[topic] for topic in document if topic not in (_IDS, _FROM)})
            ids = {str(topic): uuid.UUID(text) for topic, text in document.get(_IDS, {}).items()}
            begun = offsets_from_json(document[_FROM]) if _FROM in document else None
        except (ValueError, AttributeError, TypeError) as e:
            raise PipelineError(f"the stream's checkpoint cannot be read: {e}") from e
        return cls(offsets, ids, begun)


def resume_offsets(
    start: StreamOffset, end: StreamOffset, ids: Mapping[str, uuid.UUID], first: PartitionOffsets
) -> tuple[dict[Any, int], list[str]]:
    """
    The offsets at which a batch up to ``end`` starts, and messages about data loss.

    :param ids: of the topics that exist now.
    :param first: the log start offsets of the partitions that exist now.
    :returns: a start offset for each partition of ``end`` that can be read, none after its end; and sentences about
        losses.
    """
    known = start.offsets if end.begun is None else end.begun
    found: dict[Any, int] = {}
    lost = [f"{each} is gone; it was read up to {known[each]}" for each in sorted(known.keys() - end.offsets.keys())]
    for each, stop in sorted(end.offsets.items()):
        if each not in first or _differ(end.ids, ids, each.topic):
            if each not in known or known[each] < stop:
                lost.append(f"{each} is gone; offsets up to {stop} were to be read")
            continue
        here = first[each]
        if each not in known:
            if here > 0:
                lost.append(f"{each} is new and begins at {here}, not at 0")
        elif _differ(start.ids, end.ids, each.topic):
            lost.append(
                f"{each} is of a topic that was deleted and recreated; the old one was read up to {known[each]}"
            )
        elif known[each] < here:
            lost.append(f"{each} begins at {here} now, and was read up to {known[each]}: what is between has expired")
        elif known[each] > stop:
            lost.append(f"{each} ends at {stop}, and was read up to {known[each]}: its log was truncated")
            here = stop
        else:
            here = known[each]
        found[each] = min(here, stop)
    return found, lost


def offsets_between(start: StreamOffset, end: StreamOffset) -> int:
    """
    The number of offsets from where a batch starts up to its ``end``, also those that are gone.

    Of a partition that is new, or whose topic was recreated, they begin at 0.
    """
    known = start.offsets if end.begun is None else end.begun
    return sum(
        max(0, stop - (0 if _differ(start.ids, end.ids, each.topic) else known.get(each, 0)))
        for each, stop in end.offsets.items()
    )


def _differ(one: Mapping[str, uuid.UUID], other: Mapping[str, uuid.UUID], topic: str) -> bool:
    return topic in one and topic in other and one[topic] != other[topic]
