"""A leader that is cut off, or stood still, refuses its clients once others may have elected another one."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from logbus.errors import ErrorCode
from logbus.metastore.operations import ConnectionLost, SessionState
from logbus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logbus.wire.messages.records import FetchPartition, FetchRequest, FetchTopic
from tests.cluster.memory_cluster import ClusterCase
from tests.cluster.test_replication import ReplicationCase
from tests.handlers.kit import a_batch, produce_request

REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER
NOBODY = (ErrorCode.LEADER_NOT_AVAILABLE, -1)


class FencingCase(ReplicationCase):
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


class IsolationTests(FencingCase):
    """It is cut off."""

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


class StandstillTests(FencingCase):
    """It stood still, and goes on."""

    def setUp(self) -> None:
        super().setUp()
        self.asked: list[Deferred[None]] = []

    def ask_in_vain(self) -> None:
        """The store answers when the test wants it to."""

        def sync() -> Deferred[None]:
            self.asked.append(Deferred())
            return self.asked[-1]

        self.patch(self.store, "sync", sync)

    def go_on(self, after: float, broker_id: int = 0) -> None:
        """Its process was stopped for so many seconds."""
        standstills = self.cluster[broker_id].broker.ticks.standstills
        standstills._looked -= after
        standstills.look()

    def test_session_ended(self) -> None:
        """Nothing is served from the first moment on: not to a client whose request came meanwhile, either."""
        self.ask_in_vain()
        waiting = self.client(0)
        self.cluster.settle(0.1)
        for other in (1, 2):
            self.cluster.cut(0, other)
        self.store.suspend()
        self.store.expire()
        self.cluster.settle(1)
        leader = self.leaders("t", 1)[self.number]
        self.assertNotEqual(leader, 0)
        self.go_on(5)
        waiting.send(produce_request(a_batch(b"v"), "t", self.number, 1), 9)
        self.cluster.settle(0.1)
        self.assertEqual(waiting.answers()[0].responses[0].partition_responses[0].error_code, REFUSED)
        self.assertEqual((self.read(), self.shown()), (REFUSED, NOBODY))
        self.cluster.mend()
        self.store.resume()
        self.cluster.settle(5)
        self.assertEqual((self.wrote(), self.shown()), (REFUSED, (0, leader)))
        self.assertEqual(self.wrote(acks=-1, broker_id=leader), 0)
        self.all_equal(self.number)

    def test_session_lives(self) -> None:
        """Once the store has answered, everything is served as before, and nobody was hung up on."""
        self.ask_in_vain()
        client = self.client(0)
        self.go_on(5)
        self.assertEqual(self.wrote(), REFUSED)
        self.asked.pop().callback(None)
        self.assertEqual((self.wrote(acks=-1), self.read(), self.shown(), self.not_ready()), (0, 0, (0, 0), []))
        self.cluster.settle(10)
        self.assertEqual((self.wrote(), self.asked, client.closed), (0, [], False))

    def test_answer_of_an_earlier_session(self) -> None:
        """It tells nothing of the present one."""
        self.ask_in_vain()
        self.go_on(5)
        self.patch(self.store, "generation", self.store.generation + 1)
        self.asked.pop().callback(None)
        self.assertEqual(self.wrote(), REFUSED)

    def test_asked_again(self) -> None:
        """A request that fails, while the session does not end, is made again."""
        self.ask_in_vain()
        self.go_on(5)
        self.asked.pop().errback(ConnectionLost("the metadata store is out of reach"))
        self.cluster.settle(1.5)
        self.asked.pop().callback(None)
        self.assertEqual((self.wrote(), self.shown()), (0, (0, 0)))

    def test_short_standstill(self) -> None:
        """A session surely outlasts it: nothing changes, and the store is not asked."""
        self.ask_in_vain()
        self.go_on(2.5)
        self.assertEqual((self.asked, self.wrote(), self.shown()), ([], 0, (0, 0)))

    def test_fetches_sent_before(self) -> None:
        """They tell nothing, as others may have been elected since; with the store away, later ones do."""
        self.ask_in_vain()
        self.go_on(5)
        self.cluster.settle(0.5)
        self.assertEqual(self.wrote(), REFUSED)
        self.store.suspend()
        self.cluster.settle(4)
        self.assertEqual((self.wrote(acks=-1), self.shown()), (0, (0, 0)))

    def test_update_sent_before(self) -> None:
        """A role that it was given meanwhile may be another's by now."""
        self.ask_in_vain()
        self.go_on(5)
        self.create("later", partitions=3)
        replicas = self.cluster[0].broker.replication.replicas
        led = [replica.partition for replica in replicas if replica.partition.is_leader]
        self.assertEqual([each.in_doubt for each in led], [True, True])
        self.asked.pop().callback(None)
        self.assertEqual([each.in_doubt for each in led], [False, False])

    def test_store_closed(self) -> None:
        """A broker that stops, and stood still meanwhile, asks no store."""
        self.ask_in_vain()
        self.patch(self.store, "state", SessionState.CLOSED)
        self.go_on(5)
        self.assertEqual(self.asked, [])


class AloneTests(ClusterCase):
    """There is one broker."""

    brokers = 1

    def test_standstill(self) -> None:
        """It goes on to lead: nobody else could."""
        broker = self.cluster[0].broker
        self.cluster[0].create("t", 1)
        self.patch(broker.member.store, "sync", Deferred)
        broker.ticks.standstills._looked -= 60
        broker.ticks.standstills.look()
        self.assertEqual([replica.partition.in_doubt for replica in broker.replication.replicas], [False])
        self.assertEqual(broker.readiness.not_ready(), [])
