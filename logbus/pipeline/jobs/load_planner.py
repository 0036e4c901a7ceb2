"""Plans a load: compares the brokers' offsets with those in the table."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import define, field, frozen

from logbus.model import TopicPartition
from logbus.pipeline.blocking.list_offsets import list_offsets
from logbus.pipeline.errors import DataLossFound, LakeError
from logbus.pipeline.jobs.wanted_offsets import WantedOffsets
from logbus.pipeline.lake.load_state import LoadState
from logbus.pipeline.source.offset_reader import OffsetReader, topic_ids
from logbus.pipeline.source.options import SourceOptions, SubscribePattern
from logbus.pipeline.source.positions import LATEST, AtOffsets, AtTimes, Position

_NAMED = 10
"""Topics that a message names."""


@frozen
class LoadPlan:
    """
    The offsets to load.

    :ivar wanted: by partition.
    :ivar ids: the ids of topics; empty for brokers without topic ids.
    :ivar losses: sentences about data loss.
    :ivar no_match: the message that no topic matches the pattern; "": one does, or topics are named.
    :ivar gone: the message that topics of the pattern, of which the table has records, are not there; "": all are.
    """

    wanted: Mapping[TopicPartition, WantedOffsets]
    ids: Mapping[str, str]
    losses: Sequence[str]
    no_match: str = ""
    gone: str = ""


@define
class LoadPlanner:
    """
    Makes plans from the brokers' present offsets.

    :param reading: what to load.
    :param url: of the table, for errors.
    """

    reading: SourceOptions
    url: str
    _sleep: Callable[[float], None] = time.sleep
    _offset_reader: OffsetReader = field(init=False)
    _first: frozenset[TopicPartition] | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._offset_reader = OffsetReader(self.reading)

    def plan(self, state: LoadState) -> LoadPlan:
        """
        Make a plan.

        :raise DataLossFound: offsets are gone, and ``failOnDataLoss`` is set.
        :raise LakeError: a topic was recreated since it was loaded.
        :raise ApiError: a topic does not exist.
        """
        topics = self._offset_reader.topics()
        partitions = self._offset_reader.partitions(topics)
        ids = {name: str(topic_id) for name, topic_id in topic_ids(topics).items()}
        for name in topics:
            if (held := state.offsets.get(name)) is not None:
                self._check_id(name, held.topic_id, ids.get(name, ""))
        if self._first is None:
            self._first = frozenset(partitions)
        log_starts = self._offset_reader.earliest(partitions)
        starts = self._resolved(self.reading.starting, partitions, log_starts, ending=False)
        ends = self._resolved(self.reading.ending, partitions, log_starts, ending=True)
        lasts = self._offset_reader.latest(partitions)
        wanted = {
            each: WantedOffsets(
                held=state.held(*each),
                log_start=log_starts[each],
                start=starts[each],
                end=min(ends[each], lasts[each]),
            )
            for each in partitions
        }
        losses = [
            f"{each}: offsets {start} to {end - 1} are not kept any more, and were not loaded"
            for each, of in wanted.items()
            for start, end in of.lost.ranges
        ]
        losses += self._moved_back({each: state.held(*each).end for each in partitions}, lasts)
        if losses and self.reading.fail_on_data_loss:
            more = f"; and {len(losses) - 10} more" if len(losses) > 10 else ""
            raise DataLossFound(
                f"data are lost: {'; '.join(losses[:10])}{more}; with failOnDataLoss=false (--allow-data-loss) the "
                "rest is loaded"
            )
        no_match = "" if wanted else self._offset_reader.no_match()
        return LoadPlan(wanted, ids, losses, no_match, self._gone(state.offsets.keys() - topics.keys()))

    def check_ids(self, before: Mapping[str, str]) -> None:
        """
        Check that topics still have the same ids.

        :raise LakeError: one was deleted, or deleted and created again.
        """
        topics = self._offset_reader.topics()
        now = topic_ids(topics)
        for name, topic_id in before.items():
            if name not in topics:
                raise LakeError(
                    f"{self.url}: topic {name!r} was deleted while a batch of it was read; nothing of the batch was "
                    "committed"
                )
            self._check_id(name, topic_id, str(now.get(name, "")))

    def _gone(self, names: Iterable[str]) -> str:
        """The message that of these topics those of the pattern are gone; "": there are none."""
        selection = self.reading.selection
        if not isinstance(selection, SubscribePattern):
            return ""  # That a named topic is missing is an error.
        gone = sorted(name for name in names if re.search(selection.pattern, name))
        if not gone:
            return ""
        named = f"{', '.join(gone[:_NAMED])}{f', and {more} more' if (more := len(gone) - _NAMED) > 0 else ''}"
        return f"not there any more: {named}; what the table lacks of {'them' if gone[1:] else 'it'} cannot be loaded"

    def _check_id(self, name: str, before: str, now: str) -> None:
        if now != before:
            raise LakeError(
                f"{self.url}: topic {name!r} has id {now or 'none'}, the one in the table {before or 'none'}: it was "
                "deleted and created again; load it into a table of its own"
            )

    def _resolved(
        self,
        position: Position,
        partitions: Sequence[TopicPartition],
        log_starts: Mapping[TopicPartition, int],
        *,
        ending: bool,
    ) -> dict[TopicPartition, int]:
        known = list(partitions)
        if isinstance(position, (AtOffsets, AtTimes)):
            # Options cannot name partitions added since: they are read from their start, without an end.
            assert self._first is not None
            known = [each for each in partitions if each in self._first]
        new = dict.fromkeys(partitions, 2**63 - 1) if ending else log_starts
        return {**new, **self._offset_reader.resolve(position, known, ending=ending)}

    def _moved_back(self, held: Mapping[TopicPartition, int], lasts: Mapping[TopicPartition, int]) -> list[str]:
        """Messages about partitions that end before their loaded offsets: new records get offsets loaded already."""
        behind = {each: end for each, end in held.items() if end > lasts[each]}
        for attempt in range(1 + self.reading.end_retries):
            if not behind:
                break
            if attempt:
                self._sleep(self.reading.end_retry_interval)
            # With uncommitted records, since the table may have been loaded with read_uncommitted.
            now = list_offsets(self._offset_reader.brokers, dict.fromkeys(behind, LATEST), False)
            behind = {each: end for each, end in behind.items() if end > now[each].offset}
        return [f"{each} ends before offset {end}, up to which it was loaded" for each, end in sorted(behind.items())]
