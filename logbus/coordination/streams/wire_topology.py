"""
Converts a topology from and to messages, where groups of copartitioned topics are indexes into lists. Pure.

All lists are sorted, so that members whose topologies are the same send equal ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from logbus.coordination.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from logbus.errors import ApiError, ErrorCode
from logbus.wire.messages.streams_groups import CopartitionGroupIds, KeyValue, SubtopologyInfo, TopicInfo

MAX_SUBTOPOLOGIES = 1000
"""Limit of the subtopologies that a member may send. Applications have some dozens."""

MAX_TOPICS = 10_000
"""Limit of the topics, and regular expressions of topics, that they may name together."""

MAX_COPARTITIONED = 10_000
"""Limit of the groups of copartitioned topics, and of the topics in them, together."""

MOST_INDEXES = 2**15
"""The most topics that an index of a message can tell apart."""


def check_size(described: Sequence[SubtopologyInfo]) -> None:
    """
    Refuse a topology that would keep the broker from other work.

    :raise ApiError: STREAMS_INVALID_TOPOLOGY.
    """
    if len(described) > MAX_SUBTOPOLOGIES:
        raise ApiError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"the topology has {len(described)} subtopologies: {MAX_SUBTOPOLOGIES} are allowed",
        )
    topics = sum(
        len(each.source_topics)
        + len(each.source_topic_regex)
        + len(each.repartition_sink_topics)
        + len(each.repartition_source_topics)
        + len(each.state_changelog_topics)
        for each in described
    )
    if topics > MAX_TOPICS:
        raise ApiError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY, f"the topology names {topics} topics: {MAX_TOPICS} are allowed"
        )
    copartitioned = sum(
        1 + len(group.source_topics) + len(group.source_topic_regex) + len(group.repartition_source_topics)
        for each in described
        for group in each.copartition_groups
    )
    if copartitioned > MAX_COPARTITIONED:
        raise ApiError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"the topology has {copartitioned} copartition groups and topics in them: {MAX_COPARTITIONED} are allowed",
        )


def read_topology(epoch: int, described: Iterable[SubtopologyInfo]) -> Topology:
    """
    The topology in a message.

    :raise ApiError: STREAMS_INVALID_TOPOLOGY: a group of copartitioned topics has an index that is not in its list, or
        a list is too long for indexes.
    """
    return Topology(epoch, tuple(sorted(map(_subtopology, described), key=lambda each: each.subtopology_id)))


def _subtopology(described: SubtopologyInfo) -> Subtopology:
    repartition_names = [topic.name for topic in described.repartition_source_topics]
    return Subtopology(
        subtopology_id=described.subtopology_id,
        source_topics=tuple(sorted(set(described.source_topics))),
        source_topic_regexes=tuple(sorted(set(described.source_topic_regex))),
        repartition_sink_topics=tuple(sorted(set(described.repartition_sink_topics))),
        state_changelog_topics=_internal_topics(described.state_changelog_topics),
        repartition_source_topics=_internal_topics(described.repartition_source_topics),
        copartition_groups=tuple(
            sorted(
                (
                    CopartitionGroup(
                        _named(described.source_topics, group.source_topics),
                        _named(described.source_topic_regex, group.source_topic_regex),
                        _named(repartition_names, group.repartition_source_topics),
                    )
                    for group in described.copartition_groups
                ),
                key=lambda group: (group.source_topics, group.source_topic_regexes, group.repartition_source_topics),
            )
        ),
    )


def _named(names: Sequence[str], indexes: Iterable[int]) -> tuple[str, ...]:
    wanted = set(indexes)
    if len(names) > MOST_INDEXES:
        raise ApiError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"a subtopology with copartition groups may read {MOST_INDEXES} topics, not {len(names)}",
        )
    for index in wanted:
        if not 0 <= index < len(names):
            raise ApiError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                f"a copartition group has the index {index} into a list of {len(names)} topics",
            )
    return tuple(sorted({names[index] for index in wanted}))


def _internal_topics(topics: Iterable[TopicInfo]) -> tuple[InternalTopic, ...]:
    found = {
        topic.name: InternalTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            tuple(sorted({config.key: config.value for config in topic.topic_configs}.items())),
        )
        for topic in topics
    }
    return tuple(topic for _, topic in sorted(found.items()))


def subtopologies(topology: Topology) -> list[SubtopologyInfo]:
    """The subtopologies in the format of messages."""
    return [
        SubtopologyInfo(
            subtopology_id=each.subtopology_id,
            source_topics=list(each.source_topics),
            source_topic_regex=list(each.source_topic_regexes),
            state_changelog_topics=topic_infos(each.state_changelog_topics),
            repartition_sink_topics=list(each.repartition_sink_topics),
            repartition_source_topics=topic_infos(each.repartition_source_topics),
            copartition_groups=_copartition_groups(each),
        )
        for each in topology.subtopologies
    ]


def _copartition_groups(subtopology: Subtopology) -> list[CopartitionGroupIds]:
    sources = {name: index for index, name in enumerate(subtopology.source_topics)}
    regexes = {regex: index for index, regex in enumerate(subtopology.source_topic_regexes)}
    repartitions = {topic.name: index for index, topic in enumerate(subtopology.repartition_source_topics)}
    return [
        CopartitionGroupIds(
            source_topics=[sources[name] for name in group.source_topics],
            source_topic_regex=[regexes[regex] for regex in group.source_topic_regexes],
            repartition_source_topics=[repartitions[name] for name in group.repartition_source_topics],
        )
        for group in subtopology.copartition_groups
    ]


def topic_infos(topics: Iterable[InternalTopic]) -> list[TopicInfo]:
    """Internal topics in the format of messages."""
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=key, value=value) for key, value in topic.configs],
        )
        for topic in topics
    ]
