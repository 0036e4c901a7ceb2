"""The topology of a Kafka Streams application, as its members send it (Kafka: StreamsTopology). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from attrs import frozen

from logbus.coordination.group import TEXT_BYTES
from logbus.errors import ApiError, ErrorCode


@frozen
class InternalTopic:
    """
    A topic that belongs to the application, and is created for it: a repartition topic or a changelog topic.

    :ivar partitions: 0: follows from those of other topics.
    :ivar replication_factor: 0, or −1 as Kafka Streams has it: the broker's default.
    :ivar configs: names and values.
    """

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


@frozen
class CopartitionGroup:
    """The names of source topics that must have equal numbers of partitions."""

    source_topics: tuple[str, ...] = ()
    source_topic_regexes: tuple[str, ...] = ()
    repartition_source_topics: tuple[str, ...] = ()


@frozen
class Subtopology:
    """
    A part of a topology that is connected to others by topics only.

    :ivar source_topics: the topics of the user that it reads.
    :ivar source_topic_regexes: regular expressions of further ones.
    :ivar repartition_sink_topics: the names of repartition topics that it writes.
    :ivar state_changelog_topics: the topics that keep the changes of its stores.
    :ivar repartition_source_topics: the repartition topics that it reads.
    """

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regexes: tuple[str, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    state_changelog_topics: tuple[InternalTopic, ...] = ()
    repartition_source_topics: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def internal_topics(self) -> tuple[InternalTopic, ...]:
        """Its repartition topics, which it reads, and its changelog topics."""
        return self.repartition_source_topics + self.state_changelog_topics


@frozen
class Topology:
    """
    All subtopologies of an application.

    :ivar epoch: the version of the topology, which the application increases with a change.
    """

    epoch: int = 0
    subtopologies: tuple[Subtopology, ...] = ()

    @property
    def source_topics(self) -> frozenset[str]:
        """The topics of the user that it reads, as far as they are named."""
        return frozenset(name for each in self.subtopologies for name in each.source_topics)

    @property
    def source_topic_regexes(self) -> frozenset[str]:
        """The regular expressions of further ones."""
        return frozenset(regex for each in self.subtopologies for regex in each.source_topic_regexes)

    @property
    def internal_topics(self) -> frozenset[str]:
        """The names of its repartition topics and changelog topics."""
        return frozenset(topic.name for each in self.subtopologies for topic in each.internal_topics)

    @property
    def topics(self) -> frozenset[str]:
        """All topics that it names."""
        return self.source_topics | self.internal_topics

    @property
    def memory(self) -> int:
        """About how many bytes it takes."""
        return sum(len(text) + TEXT_BYTES for each in self.subtopologies for text in _texts(each))


def check_topology(topology: Topology) -> None:
    """
    Refuse a topology that no application can have.

    :raise ApiError: STREAMS_INVALID_TOPOLOGY.
    """
    for subtopology_id, times in Counter(each.subtopology_id for each in topology.subtopologies).items():
        if times > 1:
            raise _invalid(f"the topology has {times} subtopologies with the id {subtopology_id!r}")
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise _invalid(
                    f"the changelog topic {topic.name!r} has a number of partitions, {topic.partitions}: must be 0, "
                    "since that of the tasks is taken"
                )
        for topic in subtopology.internal_topics:
            if topic.partitions < 0 or topic.replication_factor < -1:
                raise _invalid(
                    f"the internal topic {topic.name!r} has {topic.partitions} partitions and the replication factor "
                    f"{topic.replication_factor}: at least 0 and -1 are right"
                )


def _texts(subtopology: Subtopology) -> Iterator[str]:
    yield subtopology.subtopology_id
    yield from subtopology.source_topics
    yield from subtopology.source_topic_regexes
    yield from subtopology.repartition_sink_topics
    for topic in subtopology.internal_topics:
        yield topic.name
        for name, value in topic.configs:
            yield name
            yield value
    for group in subtopology.copartition_groups:
        yield from group.source_topics
        yield from group.source_topic_regexes
        yield from group.repartition_source_topics


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
