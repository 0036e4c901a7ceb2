"""Tests of :mod:`logbus.coordination.streams.endpoints`."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.streams.configured_topology import ConfiguredSubtopology, ConfiguredTopology
from logbus.coordination.streams.endpoints import EndpointCache, EndpointPartitions
from logbus.coordination.streams.streams_group_member import StreamsGroupMember, StreamsPosition
from logbus.coordination.streams.tasks import TaskSets


def position(*tasks: int) -> StreamsPosition:
    return StreamsPosition(assigned=TaskSets({"0": frozenset(tasks)}))


def topology() -> ConfiguredTopology:
    return ConfiguredTopology(0, {"0": ConfiguredSubtopology("0", 4, ("t",))})


class EndpointCacheTests(SynchronousTestCase):
    """The partitions at endpoints are found once."""

    def setUp(self) -> None:
        self.cache = EndpointCache()
        self.counted = 0
        self.count = 4
        self.one = StreamsGroupMember("m1", endpoint=("one", 80)), position(0, 1)
        self.two = StreamsGroupMember("m2", endpoint=("two", 80)), position(2, 3)
        self.topology = topology()
        self.ask(self.one, self.two)

    def partitions_of(self, topic: str) -> int:
        self.counted += 1
        return self.count

    def ask(self, *members: tuple[StreamsGroupMember, StreamsPosition]) -> list[EndpointPartitions]:
        self.counted = 0
        return self.cache.partitions(members, self.topology, self.partitions_of)

    def test_no_change(self) -> None:
        """Nothing is computed again."""
        one, two = self.ask(self.one, self.two)
        self.assertEqual((one.active, two.active), ({"t": (0, 1)}, {"t": (2, 3)}))
        self.assertEqual(self.counted, 0)

    def test_other_tasks(self) -> None:
        """Only those of the member that changed are computed again; one that left is forgotten."""
        (one,) = self.ask((self.one[0], position(3)))
        self.assertEqual((one.endpoint, one.active, self.counted), (("one", 80), {"t": (3,)}, 1))

    def test_other_endpoint(self) -> None:
        """A member's new address is told."""
        (one,) = self.ask((StreamsGroupMember("m1", endpoint=("new", 80)), self.one[1]))
        self.assertEqual((one.endpoint, one.active), (("new", 80), {"t": (0, 1)}))

    def test_other_topics(self) -> None:
        """All are computed again."""
        self.topology, self.count = topology(), 3
        one, two = self.ask(self.one, self.two)
        self.assertEqual((one.active, two.active), ({"t": (0, 1)}, {"t": (2,)}))
