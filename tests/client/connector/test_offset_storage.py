"""Offsets in Kafka and ZooKeeper, and failures to read or store them."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from logbus.client.connector.offset_storage import ZookeeperOffsetStorage
from logbus.client.connector.znodes import GroupPaths
from logbus.errors import ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.wire.messages import groups, offsets
from logbus.wire.messages.partitions import PartitionErrorCode
from tests.client.connector.kit import Group, GroupCase

COMMIT, FETCH, FIND = 8, 9, 10


class Coordinator:
    """
    Keeps offsets of groups.

    :ivar code: its answer, if not 0.
    :ivar silent: it does not answer.
    """

    def __init__(self, group: Group) -> None:
        self.kept: dict[tuple[str, int], int] = {}
        self.code = 0
        self.silent = False
        group.brokers.served.update({COMMIT: (2, 8), FETCH: (1, 7), FIND: (0, 3)})
        group.brokers.answers.update({COMMIT: self.commit, FETCH: self.fetch, FIND: self.find})

    def find(self, node: int, message: Any) -> Any:
        return groups.FindCoordinatorResponse(node_id=1, host="b1", port=9092)

    def commit(self, node: int, message: Any) -> Any:
        if self.silent:
            return Deferred()
        found = []
        for topic in message.topics:
            partitions = []
            for each in topic.partitions:
                if not self.code:
                    self.kept[topic.name, each.partition_index] = each.committed_offset
                partitions.append(PartitionErrorCode(partition_index=each.partition_index, error_code=self.code))
            found.append(offsets.OffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        return offsets.OffsetCommitResponse(topics=found)

    def fetch(self, node: int, message: Any) -> Any:
        if self.silent:
            return Deferred()
        names = sorted({topic for topic, _ in self.kept})
        return offsets.OffsetFetchResponse(
            error_code=self.code,
            topics=[
                offsets.OffsetFetchResponseTopic(
                    name=name,
                    partitions=[
                        offsets.OffsetFetchResponsePartition(partition_index=number, committed_offset=offset)
                        for (topic, number), offset in self.kept.items()
                        if topic == name
                    ],
                )
                for name in names
            ],
        )


class KafkaOffsetStorageTests(GroupCase):
    def setUp(self) -> None:
        super().setUp()
        self.coordinator = Coordinator(self.group)

    def reader(self, name: str, **options: Any) -> Any:
        return self.group.reader(name, offsets_storage="kafka", **options).read({"t": 1})

    def test_offsets_in_kafka(self) -> None:
        """Offsets are committed to the brokers, and the next owner starts there; ZooKeeper has no offsets."""
        a = self.reader("a")
        self.put(b"1", b"2", partition=3)
        self.group.settle(2)
        self.assertEqual(self.coordinator.kept["t", 3], 2)
        b = self.reader("b")
        self.group.settle(1)
        self.put(b"3", partition=3)
        self.group.settle(1)
        self.assertEqual((a.values, b.values), ([b"1", b"2"], [b"3"]))
        self.assertEqual(self.group.names("/consumers/g/offsets"), [])

    def test_refused(self) -> None:
        """A commit that is refused fails with the brokers' word, and is tried again; a release does not wait for it."""
        a = self.reader("a")
        self.put(b"1", partition=3)
        self.group.settle(0.5)
        self.coordinator.code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        self.group.settle(2)
        self.assertEqual(self.coordinator.kept, {})
        with self.assertRaises(LogbusError) as caught:
            self.group.now(a.connector.commit_offsets())
        self.assertIn("4 offsets cannot be committed, among them t-0", str(caught.exception))
        self.coordinator.code = 0
        self.group.settle(2)
        self.assertEqual(self.coordinator.kept["t", 3], 1)

    def test_silent_coordinator(self) -> None:
        """A silent coordinator delays a release for a limited time."""
        a = self.reader("a", offsets_timeout=1.0)
        self.put(b"1", partition=3)
        self.group.settle(0.5)
        self.coordinator.silent = True
        self.group.settle(1)
        b = self.reader("b", offsets_timeout=1.0)
        self.group.settle(2.5)
        self.assertEqual(len(a.connector.owned), 2)
        self.assertEqual(self.group.owners("t"), {0: "g_a", 1: "g_a", 2: "g_b", 3: "g_b"})
        self.assertEqual(b.connector.owned, frozenset())
        self.coordinator.silent = False
        self.group.settle(3)
        self.group.check_balanced("t")
        self.assertEqual(b.values, [b"1"])

    def test_no_commits_while_disconnected_from_zookeeper(self) -> None:
        """While ZooKeeper is away nothing is committed to the brokers either: others may own the partitions by now."""
        a = self.reader("a")
        self.group.settle(2)
        a.store.suspend()
        self.put(b"1")
        self.group.settle(3)
        self.assertEqual((a.values, self.coordinator.kept["t", 0]), ([b"1"], 0))
        a.store.resume()
        self.group.settle(2)
        self.assertEqual(self.coordinator.kept["t", 0], 1)


class ZookeeperOffsetStorageTests(GroupCase):
    def test_two_at_once(self) -> None:
        """Two concurrent first commits both succeed."""
        storage = ZookeeperOffsetStorage(self.group.admin, GroupPaths("g"))
        both = [Deferred.fromCoroutine(storage.commit({TopicPartition("t", 0): offset})) for offset in (1, 2)]
        self.assertEqual([self.group.now(each) for each in both], [{}, {}])
        self.assertEqual(self.group.committed("t", 0), 2)

    def test_missing_parent_nodes(self) -> None:
        """If the nodes of offsets are deleted, they are created again."""
        self.group.reader("a").read({"t": 1})
        self.put(b"1")
        self.group.settle(2)
        for path in [f"/consumers/g/offsets/t/{number}" for number in range(4)] + ["/consumers/g/offsets/t"]:
            self.group.now(self.group.admin.delete(path))
        self.put(b"2")
        self.group.settle(2)
        self.assertEqual(self.group.committed("t", 0), 2)
