"""Resolves the options' topics and positions to partitions and offsets (Spark: KafkaOffsetReader)."""

from __future__ import annotations

import difflib
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from logbus.client.cluster.topic_metadata import TopicMetadata
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.pipeline.blocking import Brokers, brokers_for
from logbus.pipeline.blocking.list_offsets import list_offsets
from logbus.pipeline.blocking.retry import RetryTimer
from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.source.offsets_json import PartitionOffsets, partition_names
from logbus.pipeline.source.options import Assign, SourceOptions, Subscribe, SubscribePattern
from logbus.pipeline.source.positions import EARLIEST, LATEST, AtOffsets, AtTime, AtTimes, Position

_RETRY_SECONDS = 3.0
"""Seconds for which an unknown topic is requested again: not all brokers know a new topic at once."""

_NAMED = 10
"""Topics that an error names, at most."""


@frozen
class OffsetReader:
    """Asks the brokers for topics and offsets; used in the driver."""

    options: SourceOptions

    @property
    def brokers(self) -> Brokers:
        """This process's connections and metadata."""
        return brokers_for(self.options.settings)

    def topics(self, known: Iterable[str] | None = ()) -> dict[str, TopicMetadata]:
        """
        The selected topics that exist, without internal ones.

        :param known: topics that may be missing, since they existed earlier; None: any may.
        :raises ApiError: UNKNOWN_TOPIC_OR_PARTITION: a named topic does not exist.
        """
        selection = self.options.selection
        if isinstance(selection, (Subscribe, Assign)):
            names = (
                set(selection.topics)
                if isinstance(selection, Subscribe)
                else {each.topic for each in selection.partitions}
            )
            needed = set() if known is None else names - set(known)

            timer = RetryTimer.of(self.options.settings, min(_RETRY_SECONDS, self.options.settings.retry_timeout))
            while missing := needed - (found := self.brokers.metadata(names)).keys():
                what = f"there is no topic {min(missing)!r}, which is to be read"
                unknown = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what)
                try:
                    timer.failed(unknown)
                except ApiError:
                    raise ApiError(unknown.code, f"{what}; {self._nearest(min(missing))}") from None
        else:
            pattern = re.compile(selection.pattern)
            found = {name: topic for name, topic in self.brokers.metadata().items() if pattern.search(name)}
        return {name: topic for name, topic in sorted(found.items()) if not topic.internal}

    def partitions(self, topics: Mapping[str, TopicMetadata]) -> list[TopicPartition]:
        """
        The selected partitions of topics.

        :raises ApiError: UNKNOWN_TOPIC_OR_PARTITION: an assigned partition does not exist.
        """
        there = [TopicPartition(name, index) for name, topic in topics.items() for index in topic.partitions]
        selection = self.options.selection
        if not isinstance(selection, Assign):
            return there
        if missing := sorted(each for each in selection.partitions if each.topic in topics and each not in set(there)):
            what = f"there is no partition {missing[0]}, which is to be read"
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what)
        return [each for each in selection.partitions if each in set(there)]

    def earliest(
        self, partitions: Iterable[TopicPartition], *, allow_deleted: bool = False
    ) -> dict[TopicPartition, int]:
        """
        The earliest offsets.

        :param allow_deleted: leave out a partition whose topic is being deleted; else that is an error.
        """
        return self._list_offsets(dict.fromkeys(partitions, EARLIEST), allow_deleted)

    def latest(self, partitions: Iterable[TopicPartition], *, allow_deleted: bool = False) -> dict[TopicPartition, int]:
        """The latest offsets; with read_committed the last stable ones. ``allow_deleted``: see :meth:`earliest`."""
        return self._list_offsets(dict.fromkeys(partitions, LATEST), allow_deleted)

    def at_or_after(self, time: int, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """
        The offset of the first record at or after a time, without partitions that have none.

        :param time: milliseconds since 1970.
        """
        found = self._list_offsets(dict.fromkeys(partitions, time))
        return {each: offset for each, offset in found.items() if offset >= 0}

    def resolve(
        self, position: Position, partitions: Iterable[TopicPartition], *, ending: bool
    ) -> dict[TopicPartition, int]:
        """
        The offsets of a position.

        :param ending: it is the end of a batch: if no record is at or after a time, it is the latest offset. For a
            start the option decides.
        :raises OptionError: it does not name exactly the partitions that exist.
        :raises PipelineError: no record is at or after a time.
        """
        wanted = list(partitions)
        if isinstance(position, AtOffsets):
            name = "endingOffsets" if ending else "startingOffsets"
            _check_all(name, position.offsets, wanted, "-1 is latest, -2 is earliest")
            found = dict(position.offsets)
        elif isinstance(position, AtTimes):
            name = "endingOffsetsByTimestamp" if ending else "startingOffsetsByTimestamp"
            _check_all(name, position.timestamps, wanted, "0 is the first record")
            found = self._at(position.timestamps, ending)
        elif isinstance(position, AtTime):
            found = self._at(dict.fromkeys(wanted, position.timestamp), ending)
        else:
            found = dict.fromkeys(wanted, position.offset)
        return {**found, **self._list_offsets({each: offset for each, offset in found.items() if offset < 0})}

    def no_match(self) -> str:
        """The message that no topic matches the pattern, with topics that exist; "": topics are named."""
        selection = self.options.selection
        if not isinstance(selection, SubscribePattern):
            return ""
        return f"no topic matches the pattern {selection.pattern!r}; {_some(self._there())}"

    def _nearest(self, name: str) -> str:
        """A hint for the error that there is no such topic."""
        there = self._there()
        if near := difflib.get_close_matches(name, there, 1):
            return f"did you mean {near[0]!r}?"
        return _some(there)

    def _there(self) -> list[str]:
        """The topics that exist, without internal ones."""
        return sorted(each for each, topic in self.brokers.metadata().items() if not topic.internal)

    def _at(self, times: Mapping[TopicPartition, int], ending: bool) -> dict[TopicPartition, int]:
        found = self._list_offsets(times)
        for each, offset in found.items():
            if offset < 0 and not ending and not self.options.latest_without_match:
                raise PipelineError(
                    f"{each} has no record at or after {times[each]} ms since 1970; with the option "
                    "startingOffsetsByTimestampStrategy=latest reading begins at its end"
                )
        return {each: LATEST if offset < 0 else offset for each, offset in found.items()}

    def _list_offsets(
        self, times: Mapping[TopicPartition, int], allow_deleted: bool = False
    ) -> dict[TopicPartition, int]:
        settings, wanted = self.options.settings, dict(times)
        timer = RetryTimer.of(settings)
        while True:
            try:
                asked = list_offsets(
                    self.brokers, wanted, self.options.fetching.committed, min(_RETRY_SECONDS, settings.retry_timeout)
                )
                return {each: found.offset for each, found in asked.items()}
            except Exception as e:
                deleted = self._deleted(wanted, e)
                if deleted and not allow_deleted:
                    what = f"there is no partition {deleted[0]} any more: its topic was deleted"
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what) from e
                for each in deleted:
                    del wanted[each]
                if not deleted:
                    timer.failed(e)

    def _deleted(self, wanted: Iterable[TopicPartition], error: Exception) -> list[TopicPartition]:
        """The partitions that do not exist any more, if that is what the error means."""
        if not isinstance(error, ApiError) or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return []
        topics = self.brokers.metadata({each.topic for each in wanted})
        return sorted(
            each for each in wanted if each.topic not in topics or each.partition not in topics[each.topic].partitions
        )


def _some(topics: Sequence[str]) -> str:
    more = f", and {len(topics) - _NAMED} more" if len(topics) > _NAMED else ""
    return f"there are {', '.join(topics[:_NAMED]) or 'no topics'}{more}"


def topic_ids(topics: Mapping[str, TopicMetadata]) -> dict[str, uuid.UUID]:
    """The ids of topics; without topics of brokers that have no topic ids."""
    return {name: topic.topic_id for name, topic in topics.items() if topic.topic_id.int}


def _check_all(option: str, given: PartitionOffsets, there: Iterable[TopicPartition], hint: str) -> None:
    known = set(there)
    if unknown := given.keys() - known:
        what = f"{partition_names(unknown)} is not there, or not to be read"
        raise OptionError(f"option {option!r}: {what}; name {partition_names(known)}")
    if missing := known - given.keys():
        raise OptionError(f"option {option!r}: {partition_names(missing)} must be named, too; {hint}")
