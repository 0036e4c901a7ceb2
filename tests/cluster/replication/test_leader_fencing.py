"""A leader that is cut off refuses its clients once others may have elected another one."""

from __future__ import annotations

from typing import Any

from logbus.errors import ErrorCode
from logbus.metastore.operations import SessionState
from logbus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logbus.wire.messages.records import FetchPartition, FetchRequest, FetchTopic
from tests.cluster.test_replication import ReplicationCase
from tests.handlers.kit import a_batch, produce_request

REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER
NOBODY = (ErrorCode.LEADER_NOT_AVAILABLE, -1)


class IsolationTests(ReplicationCase):
    """Broker 0 leads a partition of ``t``; sessions last 4 seconds."""

    config = {"zookeeper.session.timeout.ms": "4000", "replica.lag.time.max.ms": "4000"}

    def setUp(self) -> None:
        super().setUp()
        self.create(partitions=3)
        self.number = list(self.leaders("t")).index(0)
        self.assertEqual(self.wrote(acks=-1), 0)
        self.store = self.cluster[0].broker.member.store
        self.addCleanup(self.connect)

    def connect(self) -> None:
        """Connect every broker to the store."""
        for broker_id in self.cluster.alive:
            store = self.cluster[broker_id].broker.member.store
            if store.state is SessionState.SUSPENDED:
                store.resume()
        self.cluster.mend()
        self.cluster.settle(5)

    def wrote(self, acks: int = 1, broker_id: int = 0) -> int:
        """The error that a broker answers a producer."""
        answer = self.ask(broker_id, produce_request(a_batch(b"v"), "t", self.number, acks), 9)
        return int(answer.responses[0].partition_responses[0].error_code)

    def read(self) -> int:
        """The error that a consumer is answered."""
        wanted = FetchPartition(partition=self.number, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="t", partitions=[wanted])])
        return int(self.ask(0, request, 11).responses[0].partitions[0].error_code)

    def shown(self) -> tuple[int, int]:
        """What the metadata say of the partition: error, leader."""
        answer = self.ask(0, MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
        found: Any = next(one for one in answer.topics[0].partitions if one.partition_index == self.number)
        return found.error_code, found.leader_id

    def not_ready(self, broker_id: int = 0) -> list[str]:
        """Why a broker says that clients should use another one."""
        return self.cluster[broker_id].broker.readiness.not_ready()

    def cut_off(self) -> None:
        self.store.suspend()
        self.cluster.cut(0, 1)
        self.cluster.cut(0, 2)

    def test_cut_off_from_all(self) -> None:
        """Neither written to nor read from, and no leader in the metadata; who waits is told, and hung up on."""
        self.cut_off()
        self.cluster.settle(3)
        self.assertEqual((self.wrote(), self.read(), self.shown()), (0, 0, (0, 0)))
        waiting = self.client(0)
        request = produce_request(a_batch(b"v"), "t", self.number, -1)
        request.timeout_ms = 60_000
        waiting.send(request, 9)
        self.cluster.settle(3)
        self.assertEqual(waiting.answers()[0].responses[0].partition_responses[0].error_code, REFUSED)
        self.assertTrue(waiting.closed)
        self.assertEqual((self.wrote(), self.wrote(acks=-1), self.read(), self.shown()), (REFUSED,) * 3 + (NOBODY,))
        self.assertEqual(self.not_ready(), ["the broker is cut off from the metadata store and all followers"])
        self.assertEqual(self.not_ready(1), [])

    def test_reconnected_in_time(self) -> None:
        """The session survived, and the broker stays leader."""
        self.cut_off()
        self.cluster.settle(6)
        self.assertEqual(self.wrote(), REFUSED)
        self.cluster.mend()
        self.store.resume()
        self.cluster.settle()
        self.assertEqual((self.wrote(), self.read(), self.shown(), self.not_ready()), (0, 0, (0, 0), []))
        self.cluster.settle(10)
        self.assertEqual(self.wrote(acks=-1), 0)

    def test_replaced(self) -> None:
        """Another one leads by now: the broker follows it, and what it took meanwhile is gone."""
        self.cut_off()
        self.store.expire()
        self.cluster.settle(1)
        leader = self.leaders("t", 1)[self.number]
        self.assertNotEqual(leader, 0)
        self.assertEqual(self.wrote(), 0)
        self.cluster.settle(5)
        self.assertEqual(self.shown(), NOBODY)
        self.assertEqual(self.wrote(acks=-1, broker_id=leader), 0)
        self.cluster.mend()
        self.store.resume()
        self.cluster.settle(5)
        self.assertEqual((self.wrote(), self.shown()), (REFUSED, (0, leader)))
        self.assertEqual(sorted(self.isr(self.number)), [0, 1, 2])
        self.all_equal(self.number)

    def test_only_the_store_is_unreachable(self) -> None:
        """While followers fetch, the leader goes on without the metadata store."""
        client = self.client(0)
        for broker_id in range(3):
            self.cluster[broker_id].broker.member.store.suspend()
        self.cluster.settle(30)
        self.assertEqual((self.wrote(acks=-1), self.read(), self.shown()), (0, 0, (0, 0)))
        self.assertFalse(client.closed)
        self.assertEqual([self.not_ready(broker_id) for broker_id in range(3)], [[], [], []])

    def test_fetch_of_one_follower(self) -> None:
        """A fetch of a follower that could become leader shows that it has not."""
        self.cut_off()
        self.cluster.settle(6)
        self.assertEqual(self.wrote(), REFUSED)
        self.cluster.network.cuts -= {(0, 2), (2, 0)}
        self.cluster.settle(10)
        self.assertEqual((self.wrote(), self.shown()), (0, (0, 0)))

    def test_leader_alone_in_the_isr(self) -> None:
        """The only in-sync replica stays leader, wherever the others are."""
        for other in (1, 2):
            self.cluster.kill(other)
        self.cluster.settle(1)
        self.assertEqual(self.isr(self.number), (0,))
        self.store.suspend()
        self.cluster.settle(30)
        self.assertEqual((self.wrote(), self.shown(), self.not_ready()), (0, (0, 0), []))
