"""Share coordinators on several brokers: the states of share partitions survive fail-overs."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.coordination.share_state.persister import SharePersister
from logbus.coordination.share_state.recorded_state import snapshot
from logbus.coordination.share_state.share_state import (
    ACKNOWLEDGED,
    AVAILABLE,
    SharePartitionKey,
    ShareState,
    StateBatch,
)
from logbus.errors import ApiError, ErrorCode
from logbus.model import SHARE_GROUP_STATE_TOPIC
from logbus.wire.messages.groups import FindCoordinatorRequest
from logbus.wire.messages.topics import DeleteTopicsRequest, DeleteTopicState
from tests.cluster.test_leader import LeaderCase

GROUP = "g"


class ShareCase(LeaderCase):
    """Topic ``t`` with nine partitions, read by a share group, whose states are in three partitions."""

    config = {**LeaderCase.config, "share.coordinator.state.topic.num.partitions": "3"}
    partitions = 9

    def setUp(self) -> None:
        super().setUp()
        self.create(partitions=self.partitions)

    def persister(self, broker_id: int) -> SharePersister:
        return self.cluster[broker_id].broker.coordinators.share_persister

    @property
    def topic_id(self) -> Any:
        image = self.cluster.metadata(self.cluster.alive[0]).topic("t")
        assert image is not None
        return image.topic_id

    @property
    def keys(self) -> list[SharePartitionKey]:
        topic_id = self.topic_id
        return [SharePartitionKey(GROUP, topic_id, number) for number in range(self.partitions)]

    def leader(self, key: SharePartitionKey) -> int:
        """The broker that coordinates a share partition."""
        alive = self.cluster.alive[0]
        number = self.cluster[alive].broker.coordinators.share_states.partition_of(str(key))
        return self.leaders(SHARE_GROUP_STATE_TOPIC, alive)[number]

    def all_of(self, waiting: list[Deferred[Any]], seconds: float = 40.0) -> list[Any]:
        return [self.cluster.result(one, seconds) for one in waiting]

    def initialize(self, start_offset: int = -1) -> None:
        """Create all states, by way of any broker, and read them as the leader in epoch 0, which alone writes then."""
        alive = self.cluster.alive
        brokers = [self.persister(alive[number % len(alive)]) for number in range(len(self.keys))]
        self.all_of([broker.initialize(key, 0, start_offset) for broker, key in zip(brokers, self.keys, strict=True)])
        self.all_of([broker.read(key, 0) for broker, key in zip(brokers, self.keys, strict=True)])

    def write(self, broker_id: int, key: SharePartitionKey, offset: int, *, leader_epoch: int = 0) -> Deferred[None]:
        """One record is acknowledged, and the one behind it is released."""
        done, released = StateBatch(offset, offset, ACKNOWLEDGED, 1), StateBatch(offset + 1, offset + 1, AVAILABLE, 1)
        return self.persister(broker_id).write(key, 0, leader_epoch, -1, 1, [done, released])

    def read(self, broker_id: int, key: SharePartitionKey, leader_epoch: int = 0) -> ShareState:
        state: ShareState = self.cluster.result(self.persister(broker_id).read(key, leader_epoch), 40.0)
        return state

    def code(self, refused: Deferred[Any]) -> ErrorCode:
        """The error of a call."""
        failures: list[Failure] = []
        refused.addErrback(failures.append)
        self.cluster.result(refused, 40.0)
        (failure,) = failures
        assert isinstance(failure.value, ApiError)
        return failure.value.code


class CallTests(ShareCase):
    """Calls from each broker to coordinators on each broker."""

    def test_all_calls(self) -> None:
        """The first creates the topic; each broker finds each state."""
        self.initialize(5)
        self.assertEqual({self.leader(key) for key in self.keys}, {0, 1, 2})
        for number, key in enumerate(self.keys):
            self.cluster.result(self.write(number % 3, key, 7), 5.0)
            other = (number + 1) % 3
            expected = (StateBatch(7, 7, ACKNOWLEDGED, 1), StateBatch(8, 8, AVAILABLE, 1))
            self.assertEqual(self.read(other, key), ShareState(0, 0, 5, expected))
            summary = self.cluster.result(self.persister(other).summary(key), 5.0)
            self.assertEqual(summary, ShareState(0, 0, 5, (), 1))
            self.cluster.result(self.persister(number % 3).delete(key), 5.0)
            self.assertEqual(self.cluster.result(self.persister(other).summary(key), 5.0), ShareState(0, 0))
        self.assertEqual(self.code(self.persister(0).read(self.keys[0], 0)), ErrorCode.INVALID_REQUEST)

    def test_found_as_clients_find_it(self) -> None:
        """FindCoordinator has the broker that answers."""
        self.initialize()
        for key in self.keys:
            request = FindCoordinatorRequest(key_type=2, coordinator_keys=[str(key)])
            (found,) = self.ask(1, request, 6).coordinators
            self.assertEqual((found.error_code, found.node_id), (0, self.leader(key)))

    def test_fencing(self) -> None:
        """Of two leaders of a share partition only the newer one writes; and nobody with an older state."""
        self.initialize()
        key = self.keys[0]
        self.read(1, key, leader_epoch=4)
        self.read(2, key, leader_epoch=5)
        for broker_id in range(3):
            self.assertEqual(self.code(self.write(broker_id, key, 0, leader_epoch=4)), ErrorCode.FENCED_LEADER_EPOCH)
        self.cluster.result(self.write(2, key, 0, leader_epoch=5), 5.0)
        self.cluster.result(self.persister(0).initialize(key, 1, 30), 5.0)
        self.assertEqual(self.code(self.write(2, key, 0, leader_epoch=5)), ErrorCode.FENCED_LEADER_EPOCH, "not read")
        self.assertEqual(self.read(2, key, leader_epoch=5), ShareState(1, 5, 30))
        self.assertEqual(self.code(self.write(2, key, 0, leader_epoch=5)), ErrorCode.FENCED_STATE_EPOCH)

    def test_many_at_once(self) -> None:
        """Calls that come while a request is under way are sent together, and all are answered."""
        self.initialize()
        key = next(key for key in self.keys if self.leader(key) != 0)
        self.all_of([self.write(0, key, 2 * number) for number in range(50)])
        self.assertEqual(len(self.read(1, key).batches), 100)

    def test_unknown_partition(self) -> None:
        """There is no state of it."""
        unknown = SharePartitionKey(GROUP, self.topic_id, self.partitions)
        for broker_id in range(3):
            self.assertEqual(
                self.code(self.persister(broker_id).initialize(unknown, 0, 0)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )


class FailOverTests(ShareCase):
    """Coordinators that die."""

    def test_states_survive(self) -> None:
        """All that was written is there after the coordinators died one after the other; fences, too."""
        self.initialize()
        for key in self.keys:
            self.read(0, key, leader_epoch=3)
            self.cluster.result(self.write(0, key, 7, leader_epoch=3), 5.0)
        before = [self.read(0, key, 3) for key in self.keys]
        self.cluster.kill(2)
        self.assertEqual([self.read(0, key, 3) for key in self.keys], before)
        self.cluster.boot(2)
        self.cluster.settle(5)
        self.cluster.kill(1)
        self.assertEqual([self.read(2, key, 3) for key in self.keys], before)
        for key in self.keys:
            self.assertEqual(self.code(self.write(0, key, 1, leader_epoch=2)), ErrorCode.FENCED_LEADER_EPOCH)

    def test_written_meanwhile(self) -> None:
        """Writes that are under way when a coordinator dies are carried out by the next one, each once or again."""
        self.initialize()
        written = 0
        for round_number in range(6):
            waiting = [self.write(0, key, 10 * round_number) for key in self.keys]
            if round_number == 2:
                self.cluster.kill(1)
            elif round_number == 4:
                self.cluster.boot(1)
                self.cluster.settle(5)
                self.cluster.kill(2)
            self.all_of(waiting)
            written += 1
        for key in self.keys:
            done = [batch.first_offset for batch in self.read(0, key).batches if batch.delivery_state == ACKNOWLEDGED]
            self.assertEqual(done, [10 * number for number in range(written)])

    def test_coordinator_cut_off(self) -> None:
        """A write to a coordinator that others have given up is carried out by its successor."""
        self.initialize()
        key = next(key for key in self.keys if self.leader(key) == 1)
        for other in (0, 2):
            self.cluster.cut(1, other)
        waiting = self.write(0, key, 7)
        store: Any = self.cluster[1].broker.member.store
        store.suspend()
        store.expire()
        self.addCleanup(self.cluster.kill, 1)
        self.cluster.result(waiting, 40.0)
        self.assertNotEqual(self.leader(key), 1)
        self.assertEqual(self.read(2, key).batches[0], StateBatch(7, 7, ACKNOWLEDGED, 1))

    def test_nobody_left(self) -> None:
        """A call fails after a time when no coordinator is found, and when the broker stops."""
        self.initialize()
        key = next(key for key in self.keys if self.leader(key) == 2)
        for broker_id in (0, 1):
            for other in (0, 1, 2):
                if other != broker_id:
                    self.cluster.cut(broker_id, other)
        code = self.code(self.write(0, key, 7))
        self.assertIs(code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        waiting = self.write(0, key, 9)
        self.persister(0).stop()
        self.assertIs(self.code(waiting), ErrorCode.COORDINATOR_NOT_AVAILABLE)


class UpkeepTests(ShareCase):
    """The log of states stays short."""

    config = {
        **ShareCase.config,
        "share.coordinator.snapshot.update.records.per.snapshot": "10",
        "share.coordinator.state.topic.prune.interval.ms": "5000",
        "share.coordinator.cold.partition.snapshot.interval.ms": "5000",
        "share.coordinator.state.topic.num.partitions": "1",
    }
    partitions = 2

    def log(self, broker_id: int) -> Any:
        return self.cluster[broker_id].broker.replication.replicas.get(SHARE_GROUP_STATE_TOPIC, 0).log

    def test_pruned(self) -> None:
        """Records that no state needs are deleted on all replicas, though one state does not change; states stay."""
        self.initialize()
        cold, hot = self.keys
        self.cluster.result(self.write(0, cold, 1000), 5.0)
        count = 1500
        for start in range(0, count, 100):
            self.all_of([self.write(self.leader(hot), hot, 2 * n) for n in range(start, start + 100)])
        states = [self.read(0, key) for key in self.keys]
        self.cluster.settle(20)
        leader = self.leader(hot)
        self.assertGreater(self.log(leader).log_start_offset, count)
        self.assertLess(self.log(leader).log_end_offset - self.log(leader).log_start_offset, 30)
        self.assertEqual({self.log(n).log_start_offset for n in range(3)}, {self.log(leader).log_start_offset})
        self.cluster.kill(leader)
        other = self.cluster.alive[0]
        self.assertEqual([self.read(other, key) for key in self.keys], states)

    def test_few_records(self) -> None:
        """Nothing is written while nothing changes."""
        self.initialize()
        end = self.log(0).log_end_offset
        self.cluster.settle(60)
        self.assertEqual(self.log(0).log_end_offset, end)

    def test_deleted_topic(self) -> None:
        """The states of a deleted topic go, also for the next coordinator."""
        self.initialize()
        keys = self.keys
        leader = self.leader(keys[0])
        self.ask(0, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), 6)
        self.cluster.settle(0.5)
        self.assertEqual(self.cluster[leader].broker.coordinators.share_states.shards[0].entries, {})
        self.cluster.kill(leader)
        self.cluster.settle(10)
        (shard,) = [
            shard
            for broker_id in self.cluster.alive
            for shard in self.cluster[broker_id].broker.coordinators.share_states.shards.values()
        ]
        self.assertEqual((shard.loading, shard.entries), (False, {}))

    def test_topic_deleted_during_a_load(self) -> None:
        """Its states go later."""
        self.initialize()
        (shard,) = self.cluster[self.leader(self.keys[0])].broker.coordinators.share_states.shards.values()
        shard.loading = True
        self.ask(0, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), 6)
        shard.loading = False
        self.assertEqual(len(shard.entries), self.partitions)
        self.cluster.settle(6)
        self.assertEqual(shard.entries, {})

    def test_snapshots_that_may_be_lost(self) -> None:
        """Older records are not deleted while the snapshot that replaces them is on the leader only."""
        self.initialize()
        key = self.keys[0]
        leader = self.leader(key)
        for number in range(9):
            self.cluster.result(self.write(leader, key, 2 * number), 5.0)
        coordinators, before = self.cluster[leader].broker.coordinators, self.log(leader).log_start_offset
        for other in range(3):
            if other != leader:
                self.cluster.cut(leader, other)
        (shard,) = coordinators.share_states.shards.values()
        for one in self.keys:
            recorded = shard.recorded(one)
            assert recorded is not None
            shard.save(one, snapshot(recorded, recorded.state, 0)).addErrback(lambda _: None)
        end = self.log(leader).log_end_offset
        self.assertEqual(shard.needed_from(), end - len(self.keys))
        pruning = Deferred.fromCoroutine(coordinators.share_state_upkeep.prune())
        self.cluster.settle(0.5)
        self.assertEqual(self.log(leader).log_start_offset, before)
        self.cluster.mend()
        self.cluster.result(pruning, 20.0)
