"""
How far a stream has read, as Spark keeps it in its checkpoint. Pure.

It is what Spark's Kafka source keeps, ``{"orders": {"0": 23}}``, and two keys that no topic can have as a name:

``:ids``
    The topics' ids: a topic that is deleted and made anew is another, whatever its offsets are.
``:from``
    In the end of the first batch, where that began. Spark does not keep the beginning, and asks for it again if it dies
    before the first batch is done: "latest" would then be somewhere else.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from logbus.pipeline.errors import PipelineError
from logbus.pipeline.source.spelling import Offsets, offsets_of, spelled

_IDS, _FROM = ":ids", ":from"


@frozen
class Checkpoint:
    """
    :ivar offsets: that are read next.
    :ivar ids: of topics; those of brokers without ids are left out.
    :ivar begun: where the first batch began, None in others.
    """

    offsets: Offsets
    ids: Mapping[str, uuid.UUID] = field(factory=dict)
    begun: Offsets | None = None

    def as_json(self) -> dict[str, Any]:
        """What :meth:`read` reads; always the same for the same."""
        told: dict[str, Any] = spelled(self.offsets)
        if self.ids:
            told[_IDS] = {topic: str(topic_id) for topic, topic_id in sorted(self.ids.items())}
        if self.begun is not None:
            told[_FROM] = spelled(self.begun)
        return told

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Checkpoint:
        """
        :raises PipelineError: this is no checkpoint of ours.
        """
        try:
            offsets = offsets_of({topic: told[topic] for topic in told if topic not in (_IDS, _FROM)})
            ids = {str(topic): uuid.UUID(text) for topic, text in told.get(_IDS, {}).items()}
            begun = offsets_of(told[_FROM]) if _FROM in told else None
        except (ValueError, AttributeError, TypeError) as e:
            raise PipelineError(f"the stream's checkpoint cannot be read: {e}") from e
        return cls(offsets, ids, begun)


def beginning(
    start: Checkpoint, end: Checkpoint, ids: Mapping[str, uuid.UUID], first: Offsets
) -> tuple[dict[Any, int], list[str]]:
    """
    Where to begin to read up to ``end``, and what cannot be read any more.

    :param ids: of the topics that are there now.
    :param first: the first offsets that are kept now, of partitions that are there now.
    :returns: an offset for each partition of ``end`` that can be read, none beyond its end; and sentences about losses.
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
                f"{each} is of a topic that was deleted and made anew; the old one was read up to {known[each]}"
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


def _differ(one: Mapping[str, uuid.UUID], other: Mapping[str, uuid.UUID], topic: str) -> bool:
    return topic in one and topic in other and one[topic] != other[topic]
