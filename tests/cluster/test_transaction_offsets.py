"""Offsets in transactions on several brokers: the group's coordinator dies, at any step, and another one goes on."""

from __future__ import annotations

from typing import Any

from logbus.errors import ErrorCode
from logbus.model import OFFSETS_TOPIC
from logbus.wire.messages.groups import FindCoordinatorRequest
from logbus.wire.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchResponse,
)
from logbus.wire.messages.transactions import TxnOffsetCommitRequest
from tests.cluster.memory_cluster import ClusterCase
from tests.handlers.kit import Client
from tests.handlers.transaction_kit import OffsetProducer, commit_request, fetch_request

T0, T1 = ("t", 0), ("t", 1)
GROUP, TRANSACTION = 0, 1
TRY_AGAIN = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}


class NoResponse(Exception):
    """The broker is down, or takes too long."""


class ClusterProducer(OffsetProducer):
    """A producer that asks whoever coordinates now, again and again."""

    case: Any

    def ask(self, message: Any, version: int) -> Any:
        kind = GROUP if isinstance(message, TxnOffsetCommitRequest) else TRANSACTION
        return self.case.ask(kind, message, version)

    def wait(self) -> None:
        self.case.cluster.settle(0.1)


class GroupFailoverTests(ClusterCase):
    """Three brokers; group ``g``, and a producer ``x``."""

    config = {
        "default.replication.factor": "3",
        "offsets.topic.replication.factor": "3",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.min.isr": "2",
        "replica.lag.time.max.ms": "2000",
        "auto.leader.rebalance.enable": "false",
    }

    def setUp(self) -> None:
        super().setUp()
        self.cluster[0].create("t", 2)
        self.cluster.settle(0.5)

    # Asking.

    def coordinator(self, kind: int) -> int:
        """The broker that a client would ask."""
        asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=["g" if kind == GROUP else "x"])
        for _ in range(100):
            (found,) = self.once(self.cluster.alive[0], asked, 4).coordinators
            if found.error_code == 0 and found.node_id in self.cluster.alive:
                return int(found.node_id)
            self.cluster.settle(0.1)
        raise AssertionError("nobody coordinates")

    def once(self, broker_id: int, message: Any, version: int) -> Any:
        client = self.cluster[broker_id].connect(host="192.0.2.1")
        client.send(message, version)
        return self.answer(client)

    def answer(self, client: Client) -> Any:
        for _ in range(100):
            answers = client.answers()
            if answers:
                return answers[0]
            self.cluster.settle(0.05)
        raise NoResponse

    def ask(self, kind: int, message: Any, version: int) -> Any:
        """Ask until there is something else to hear than that it must be asked again."""
        for _ in range(100):
            response = self.once(self.coordinator(kind), message, version)
            if code_of(response) not in TRY_AGAIN:
                return response
            self.cluster.settle(0.1)
        raise AssertionError(f"still {response}")

    def producer(self, by_v2: bool) -> ClusterProducer:
        client: Any = None
        made = ClusterProducer(client, "x", by_v2)
        made.case = self
        return made.init()

    def committed(self) -> dict[tuple[str, int], int]:
        """What is stable, as soon as all of it is."""
        for _ in range(100):
            response = self.ask(GROUP, fetch_request(T0, T1), 9)
            found = {
                (topic.name, one.partition_index): one
                for topic in response.groups[0].topics
                for one in topic.partitions
            }
            if all(one.error_code != ErrorCode.UNSTABLE_OFFSET_COMMIT for one in found.values()):
                return {place: one.committed_offset for place, one in found.items()}
            self.cluster.settle(0.1)
        raise AssertionError("it never becomes stable")

    def is_unstable(self) -> bool:
        response = self.ask(GROUP, fetch_request(T0), 9)
        return bool(response.groups[0].topics[0].partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT)

    def commit(self, offset: int) -> None:
        response = self.ask(GROUP, commit_request({T0: offset, T1: offset}), 9)
        self.assertEqual(code_of(response), 0)

    def begin(self, producer: OffsetProducer, offset: int) -> None:
        """A transaction that has committed an offset."""
        if not producer.by_v2:
            self.assertEqual(producer.add_group(), 0)
        self.assertEqual(producer.commit({T0: offset, T1: offset}), {T0: 0, T1: 0})

    # What holds.

    def test_open_while_the_coordinator_dies(self) -> None:
        """The next one knows what is pending, and lets it hold, or go."""
        for by_v2 in (True, False):
            self.commit(1)
            producer = self.producer(by_v2)
            for committed in (True, False):
                with self.subTest(by_v2=by_v2, committed=committed):
                    before = self.committed()
                    self.begin(producer, 10 + by_v2)
                    dead = self.coordinator(GROUP)
                    self.cluster.kill(dead)
                    self.assertTrue(self.is_unstable())
                    self.assertEqual(producer.end(committed), 0)
                    after = dict.fromkeys((T0, T1), 10 + by_v2) if committed else before
                    self.assertEqual(self.committed(), after)
                    self.cluster.boot(dead)
                    self.cluster.settle(3)
                    self.assertEqual(self.committed(), after)

    def test_the_coordinator_dies_at_any_step_of_the_end(self) -> None:
        """Whichever turn is its last, all of the transaction's offsets hold in the end, or none if it was aborted."""
        for by_v2 in (True, False):
            producer = self.producer(by_v2)
            for turns in range(0, 36, 3):
                with self.subTest(by_v2=by_v2, turns=turns):
                    committed = turns % 2 == 0
                    self.commit(turns)
                    self.begin(producer, 1000 + turns)
                    client = self.cluster[self.coordinator(TRANSACTION)].connect(host="192.0.2.1")
                    client.send(producer.end_request(committed), producer.end_version)
                    dead = self.coordinator_of_group()
                    for _ in range(turns):
                        self.cluster.clock.advance(0)
                    self.cluster.kill(dead)
                    self.assertEqual(producer.end(committed), 0)
                    expected = 1000 + turns if committed else turns
                    self.assertEqual(self.committed(), {T0: expected, T1: expected})
                    self.cluster.boot(dead)
                    self.cluster.settle(3)

    def test_not_replicated_yet(self) -> None:
        """A commit that only the coordinator has is not shown: the next one would show the offset before it."""
        self.commit(1)
        coordinator = self.coordinator(GROUP)
        for other in self.cluster.alive:
            if other != coordinator:
                self.cluster.cut(coordinator, other)
        client = self.cluster[coordinator].connect(host="192.0.2.1")
        client.send(commit_request({T0: 2}), 9)
        deletion = OffsetDeleteRequestPartition(partition_index=1)
        client.send(
            OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=[deletion])]), 0
        )
        self.cluster.settle(0.1)
        self.assertEqual(client.answers(), [])
        self.assertEqual(self.shown(coordinator), [1, 1])
        self.cluster.mend()
        self.assertEqual(self.answer(client).topics[0].partitions[0].error_code, 0)
        self.assertEqual(self.shown(coordinator), [2, -1])

    def test_loaded_and_not_replicated_yet(self) -> None:
        """A new coordinator shows no commit that a replica in sync may lack, which could be the next coordinator."""
        self.commit(1)
        former = self.coordinator(GROUP)
        following, silent = self.followers(former)
        session = self.cluster[silent].broker.member.store
        self.cluster.kill(silent, expire=False)
        self.cluster[former].connect(host="192.0.2.1").send(commit_request({T0: 2}), 9)
        self.cluster.settle(0.1)
        self.cluster.kill(former)
        self.assertEqual(self.code_when_loaded(following), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        # Views show what there is: without any offset the group would seem to have no lag.
        shown = self.cluster[following].broker.coordinators.groups.committed("g")
        self.assertEqual({partition: each.offset for partition, each in shown.items()}, {T0: 2, T1: 1})
        # It leaves the ISR.
        session.expire()
        self.assertEqual(self.committed(), {T0: 2, T1: 1})

    def followers(self, coordinator: int) -> list[int]:
        """The other replicas of the group's partition; the first becomes the next coordinator."""
        image = self.cluster.metadata(coordinator).topic(OFFSETS_TOPIC)
        assert image is not None
        return [broker for broker in image.partitions[0].replicas if broker != coordinator]

    def code_when_loaded(self, broker_id: int) -> int:
        """The error of a new coordinator, which has just loaded the group, when it is asked for committed offsets."""
        groups = self.cluster[broker_id].broker.coordinators.groups
        for _ in range(100):
            if any(True for _ in groups.active_shards()):
                return code_of(self.once(broker_id, fetch_request(T0, T1), 9))
            self.cluster.settle(0.1)
        raise AssertionError("it loads nothing")

    def shown(self, broker_id: int) -> list[int]:
        """The committed offsets by a broker."""
        (found,) = self.once(broker_id, fetch_request(T0, T1), 9).groups
        return [one.committed_offset for topic in found.topics for one in topic.partitions]

    def coordinator_of_group(self) -> int:
        image = self.cluster.metadata(self.cluster.alive[0]).topic(OFFSETS_TOPIC)
        assert image is not None
        return image.partitions[0].leader


def code_of(response: Any) -> int:
    """What went wrong with all of it."""
    if isinstance(response, OffsetFetchResponse):
        return int(response.groups[0].error_code)
    if hasattr(response, "topics"):
        return max(int(one.error_code) for topic in response.topics for one in topic.partitions)
    return int(response.error_code)
