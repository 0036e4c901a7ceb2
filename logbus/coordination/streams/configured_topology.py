"""
Configures a topology: finds the numbers of partitions of its internal topics, and of its tasks (Kafka:
InternalTopicManager). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from typing import NoReturn

from attrs import evolve, frozen

from logbus.coordination.streams.status import Status, StatusCode, some_of
from logbus.coordination.streams.topology import InternalTopic, Subtopology, Topology
from logbus.errors import ApiError, ErrorCode

PartitionsOf = Callable[[str], int | None]
"""The number of partitions of a topic; None: there is no such topic."""


@frozen
class ConfiguredSubtopology:
    """
    A subtopology with the numbers that follow from existing topics.

    :ivar tasks: the number of its tasks: one for each partition of the source topic that has the most.
    :ivar repartition_source_topics: as in the topology, with numbers of partitions.
    :ivar state_changelog_topics: likewise.
    """

    subtopology_id: str
    tasks: int
    source_topics: tuple[str, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[InternalTopic, ...] = ()
    state_changelog_topics: tuple[InternalTopic, ...] = ()

    @property
    def is_stateful(self) -> bool:
        """Whether it has state that standby tasks can keep a copy of."""
        return bool(self.state_changelog_topics)


@frozen
class ConfiguredTopology:
    """
    A topology with what follows from existing topics.

    :ivar epoch: that of the topology.
    :ivar subtopologies: by id, in its order; empty if the numbers of partitions cannot be found.
    :ivar missing: the internal topics to create, with their numbers of partitions.
    :ivar problem: why there can be no tasks yet.
    """

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology]
    missing: tuple[InternalTopic, ...] = ()
    problem: Status | None = None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.problem is None


def configure(topology: Topology, partitions_of: PartitionsOf) -> ConfiguredTopology:
    """
    Configure a topology for the topics that exist.

    Regular expressions of source topics are not looked at: heartbeats with them are refused, as by Kafka 4.3.

    :raise ApiError: STREAMS_INVALID_TOPOLOGY: internal topics can have no number of partitions, whatever topics exist.
    """
    counts = _PartitionCounts(topology, partitions_of)
    try:
        counts.check_source_topics()
        counts.find_repartition_topics()
        counts.enforce_copartitioning()
        counts.find_changelog_topics()
        subtopologies = {each.subtopology_id: counts.configured(each) for each in counts.subtopologies}
        missing = counts.missing(subtopologies.values())
    except _Problem as problem:
        return ConfiguredTopology(topology.epoch, {}, (), problem.status)
    if not missing:
        return ConfiguredTopology(topology.epoch, subtopologies)
    detail = f"internal topics are missing: {some_of(topic.name for topic in missing)}"
    return ConfiguredTopology(
        topology.epoch, subtopologies, missing, Status(StatusCode.MISSING_INTERNAL_TOPICS, detail)
    )


class _Problem(Exception):
    """Ends a configuration."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


class _PartitionCounts:
    """
    Numbers of partitions on the way to a configuration.

    Steps that depend on an order take subtopologies by their ids, as Kafka does up to ten of them: an application that
    moves between brokers finds the internal topics it needs.
    """

    def __init__(self, topology: Topology, partitions_of: PartitionsOf) -> None:
        self.subtopologies = sorted(topology.subtopologies, key=lambda each: each.subtopology_id)
        self._partitions_of = partitions_of
        self._decided: dict[str, int] = {}
        repartition_topics = [topic for each in self.subtopologies for topic in each.repartition_source_topics]
        self._repartition_topics = {topic.name for topic in repartition_topics}
        self._fixed = {topic.name: topic.partitions for topic in repartition_topics if topic.partitions}

    def check_source_topics(self) -> None:
        missing = {name for each in self.subtopologies for name in each.source_topics if not self._partitions_of(name)}
        if missing:
            raise _Problem(StatusCode.MISSING_SOURCE_TOPICS, f"source topics are missing: {some_of(missing)}")

    def find_repartition_topics(self) -> None:
        """
        A repartition topic has as many partitions as the subtopology that writes it has tasks.

        Subtopologies are gone through in rounds, until each has a source topic whose number is known. Where others are
        found in a later round, those known so far are taken.
        """
        self._decided.update(self._fixed)
        readers: dict[str, list[int]] = {}
        for place, each in enumerate(self.subtopologies):
            for topic in each.repartition_source_topics:
                readers.setdefault(topic.name, []).append(place)
        due = [(0, place) for place in range(len(self.subtopologies))]
        waiting = set(range(len(self.subtopologies)))
        while due:
            turn, place = heappop(due)
            if place not in waiting:
                continue
            writer = self.subtopologies[place]
            known = [self._decided.get(topic.name, 0) for topic in writer.repartition_source_topics]
            count = max([*known, *(self._partitions_of(name) or 0 for name in writer.source_topics)], default=0)
            if not count:
                continue
            waiting.remove(place)
            for name in writer.repartition_sink_topics:
                if name not in self._decided:
                    self._decided[name] = count
                    for reader in readers.get(name, ()):
                        heappush(due, (turn + (reader <= place), reader))
        written = {name for place in waiting for name in self.subtopologies[place].repartition_sink_topics}
        if unknown := (written | self._repartition_topics) - self._decided.keys():
            _refuse(f"repartition topics have no number of partitions, and none can be found: {some_of(unknown)}")

    def enforce_copartitioning(self) -> None:
        """Give repartition topics that are read together with other topics the same number of partitions."""
        for subtopology in self.subtopologies:
            for group in subtopology.copartition_groups:
                self._enforce({*group.source_topics, *group.repartition_source_topics})

    def _enforce(self, names: set[str]) -> None:
        counts = {name: self._count(name) for name in sorted(names)}
        # What cannot change decides: topics of the user, or else numbers that the application set.
        firm = names - self._repartition_topics or names & self._fixed.keys()
        numbers = {counts[name] for name in firm or names}
        if firm and len(numbers) > 1:
            self._not_copartitioned(counts)
        for name in names & self._repartition_topics:
            self._decided[name] = max(numbers)
            if name in self._fixed and counts[name] != max(numbers):
                self._not_copartitioned(counts)

    def _not_copartitioned(self, counts: Mapping[str, int]) -> NoReturn:
        listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise _Problem(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS, f"topics must have equal numbers of partitions: {listed}"
        )

    def find_changelog_topics(self) -> None:
        """A changelog topic has a partition for each task."""
        for each in self.subtopologies:
            tasks = self._tasks(each)
            self._decided.update((topic.name, tasks) for topic in each.state_changelog_topics)

    def configured(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        return ConfiguredSubtopology(
            subtopology.subtopology_id,
            self._tasks(subtopology),
            subtopology.source_topics,
            subtopology.repartition_sink_topics,
            tuple(self._numbered(topic) for topic in subtopology.repartition_source_topics),
            tuple(self._numbered(topic) for topic in subtopology.state_changelog_topics),
        )

    def missing(self, subtopologies: Iterable[ConfiguredSubtopology]) -> tuple[InternalTopic, ...]:
        """The internal topics that do not exist; those that do must have the right number of partitions."""
        wanted = {
            topic.name: topic
            for each in subtopologies
            for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
        }
        missing = []
        for name, topic in sorted(wanted.items()):
            count = self._partitions_of(name)
            if not count:
                missing.append(topic)
            elif count != topic.partitions:
                raise _Problem(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"the internal topic {name} has {count} partitions, and must have {topic.partitions}",
                )
        return tuple(missing)

    def _tasks(self, subtopology: Subtopology) -> int:
        names = (*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics))
        if not names:
            _refuse(f"the subtopology {subtopology.subtopology_id!r} has no source topics")
        return max(map(self._count, names))

    def _numbered(self, topic: InternalTopic) -> InternalTopic:
        return evolve(topic, partitions=topic.partitions or self._decided[topic.name])

    def _count(self, name: str) -> int:
        """The partitions that a topic has, or will have."""
        count = self._partitions_of(name) or self._decided.get(name)
        if count is None:
            _refuse(f"the topic {name!r} must be copartitioned, and is no source topic")
        return count


def _refuse(message: str) -> NoReturn:
    raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
