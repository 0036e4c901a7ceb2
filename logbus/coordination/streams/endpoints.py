"""The partitions that tasks read; for interactive queries (KIP-1071), those of each process. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from attrs import define, field, frozen

from logbus.coordination.streams.configured_topology import ConfiguredTopology
from logbus.coordination.streams.streams_group_member import Endpoint, StreamsGroupMember, StreamsPosition
from logbus.coordination.streams.tasks import Tasks

TopicPartitions = Mapping[str, tuple[int, ...]]
"""Partition numbers by topic name."""


@frozen
class EndpointPartitions:
    """
    What one member has.

    :ivar active: the partitions that its active tasks read.
    :ivar standby: those that its standby tasks would read.
    """

    endpoint: Endpoint
    active: TopicPartitions
    standby: TopicPartitions


@define(eq=False)
class EndpointCache:
    """
    The partitions of each member, kept until its tasks or the topics change: when one member's tasks change, all
    members ask for the partitions of all.
    """

    _topology: ConfiguredTopology | None = None
    _known: dict[str, tuple[StreamsPosition, EndpointPartitions]] = field(factory=dict)

    def partitions(
        self,
        members: Iterable[tuple[StreamsGroupMember, StreamsPosition]],
        topology: ConfiguredTopology,
        partitions_of: Callable[[str], int | None],
    ) -> list[EndpointPartitions]:
        """
        The partitions of each member that has an endpoint.

        :param topology: another object each time that a topic changes.
        :param partitions_of: the number of partitions of a topic; None: there is no such topic.
        """
        before = self._known if topology is self._topology else {}
        self._topology, self._known = topology, {}
        for member, position in members:
            if member.endpoint is None:
                continue
            known = before.get(member.member_id)
            if known is None or known[0] is not position or known[1].endpoint != member.endpoint:
                found = EndpointPartitions(
                    member.endpoint,
                    dict(partitions_read(position.assigned.active, topology, partitions_of)),
                    dict(partitions_read(position.assigned.standby, topology, partitions_of)),
                )
                known = position, found
            self._known[member.member_id] = known
        return [found for _, found in self._known.values()]


def partitions_read(
    tasks: Tasks, topology: ConfiguredTopology, partitions_of: Callable[[str], int | None]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """
    Yield each topic that tasks read, with partitions.

    The last tasks read none of a topic with fewer partitions.

    :param partitions_of: the number of partitions of a topic; None: there is no such topic.
    """
    for subtopology_id, numbers in sorted(tasks.items()):
        subtopology = topology.subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        repartitioned = (topic.name for topic in subtopology.repartition_source_topics)
        for name in (*subtopology.source_topics, *repartitioned):
            count = partitions_of(name) or 0
            yield name, tuple(sorted(number for number in numbers if number < count))
