"""Tests of the share coordinator on one broker that is restarted, also after a power cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.share_state.persister import SharePersister
from logbus.coordination.share_state.recorded_state import Snapshot
from logbus.coordination.share_state.share_state import ACKNOWLEDGED, SharePartitionKey, ShareState, StateBatch
from logbus.model import SHARE_GROUP_STATE_TOPIC
from logbus.testing.simulation.environment.inodes import PowerCutOutcome
from tests.handlers.kit import MemoryBroker

CONFIG = {
    "log.flush.before.ack": "false",
    "log.retention.check.interval.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.segment.bytes": "2000",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "share.coordinator.state.topic.prune.interval.ms": "5000",
    "log.stray.retention.ms": "60000",
}


class RestartTests(SynchronousTestCase):
    """One broker, and one share partition."""

    def setUp(self) -> None:
        self.server = MemoryBroker(CONFIG).start()
        self.addCleanup(self._close)
        self.server.create("t", 1)
        topic = self.server.broker.member.metadata.topic("t")
        assert topic is not None
        self.key = SharePartitionKey("g", topic.topic_id, 0)
        self.server.now(self.persister.initialize(self.key, 0, 0))
        self.server.now(self.persister.read(self.key, 0))

    def _close(self) -> None:
        self.server.close()

    @property
    def persister(self) -> SharePersister:
        return self.server.broker.coordinators.share_persister

    @property
    def log(self) -> Any:
        return self.server.broker.replication.replicas.get(SHARE_GROUP_STATE_TOPIC, 0).log

    def write(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            batch = StateBatch(offset, offset, ACKNOWLEDGED, 1)
            self.server.now(self.persister.write(self.key, 0, 0, -1, -1, [batch]))

    def done(self) -> int:
        """The number of records that are acknowledged, all from the first one on."""
        state: ShareState = self.server.now(self.persister.read(self.key, 0))
        (batch,) = state.batches
        self.assertEqual((batch.first_offset, batch.delivery_state), (0, ACKNOWLEDGED))
        return batch.last_offset + 1

    def start_again(self, disks: Sequence[Any]) -> None:
        self.server = MemoryBroker(CONFIG, disks=disks, ensemble=self.server.ensemble).start()

    def test_restart(self) -> None:
        """The state is there again, though most of its records were deleted."""
        self.write(range(100))
        for _ in range(8):
            self.server.reactor.advance(1)
        self.assertGreater(self.log.log_start_offset, 90)
        self.assertGreater(self.log.segments[0].base_offset, 50)
        self.server.stop()
        self.start_again(self.server.disks)
        self.assertEqual(self.done(), 100)
        self.write([100])
        self.assertEqual(self.done(), 101)

    @property
    def keys(self) -> set[SharePartitionKey]:
        (shard,) = self.server.broker.coordinators.share_states.active_shards()
        return set(shard.entries)

    def test_a_topic_that_was_deleted_before(self) -> None:
        """Its states go when it has been unknown for so long that its logs would; the others stay."""
        (shard,) = self.server.broker.coordinators.share_states.active_shards()
        other = SharePartitionKey("g", UUID(int=9), 0)
        self.server.now(shard.save(other, Snapshot(0, ShareState(0, 0, 5), 0, 0)))
        self.server.stop()
        self.start_again(self.server.disks)
        for _ in range(12):
            self.server.reactor.advance(5)
        self.assertEqual(self.keys, {self.key, other})
        for _ in range(3):
            self.server.reactor.advance(5)
        self.assertEqual(self.keys, {self.key})
        self.server.stop()
        self.start_again(self.server.disks)
        self.assertEqual(self.keys, {self.key})

    def test_power_cut(self) -> None:
        """A snapshot is on stable storage before the records that it replaces are deleted."""
        self.write(range(23))
        for _ in range(8):
            self.server.reactor.advance(1)
        self.assertGreater(self.log.log_start_offset, 15)
        ensemble = self.server.ensemble
        for session in list(ensemble.clients):
            ensemble.clients.remove(session)
            ensemble.end(session.session_id)
        self.start_again([disk.after_power_cut(PowerCutOutcome("lose")) for disk in self.server.disks])
        self.assertEqual(self.done(), 23)


class ManyGroupsTests(SynchronousTestCase):
    """States of 1,000 groups."""

    def test_their_topic_is_deleted(self) -> None:
        """The states go, but not in one turn."""
        server = MemoryBroker({"share.coordinator.state.topic.num.partitions": "1"}).start()
        self.addCleanup(server.close)
        server.create("t", 1)
        metadata, coordinators = server.broker.member.metadata, server.broker.coordinators
        topic = metadata.topic("t")
        assert topic is not None
        keys = [SharePartitionKey(f"group {number}", topic.topic_id, 0) for number in range(1000)]
        server.now(coordinators.share_persister.initialize(keys[0], 0, 0))
        (shard,) = coordinators.share_states.active_shards()
        for done in shard.save_snapshots([(key, Snapshot(0, ShareState(0, 0, 5), 0, 0)) for key in keys]):
            server.now(done)
        with metadata.changing():
            metadata.remove_topic("t")
        self.assertGreater(len(shard.entries), 500)
        server.reactor.advance(0)
        self.assertEqual(shard.entries, {})
