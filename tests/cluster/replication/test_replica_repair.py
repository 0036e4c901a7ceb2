"""Repair of damaged logs in a cluster: another replica leads, the damage is replaced, and all are in sync again."""

from __future__ import annotations

from typing import Any

from twisted.logger import capturedLogs

from logbus.cluster.replication.replica import Replica
from logbus.errors import StorageError
from logbus.model import OFFSETS_TOPIC, TopicPartition
from logbus.records.batch import iter_batches
from logbus.storage.repair.log_scrubber import FIRST_ROUND_S
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from logbus.wire.messages.groups import FindCoordinatorRequest
from tests.cluster.memory_cluster import ClusterCase
from tests.handlers.kit import Client
from tests.handlers.transaction_kit import commit_request, fetch_request
from tests.storage.repair.test_log_scrubber import flip

SETTINGS = {
    "log.segment.bytes": "600",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "2000",
    "auto.leader.rebalance.enable": "false",
    "log.scrub.interval.ms": "1000",
}


class LostReports:
    """Reports that do not reach the controller."""

    def incomplete(self, name: TopicPartition, reason: str) -> None:
        """Lost."""

    def complete(self, name: TopicPartition) -> None:
        """Lost, too."""


class RepairCase(ClusterCase):
    """Three brokers with a topic of one partition on all of them."""

    config = SETTINGS

    def setUp(self) -> None:
        super().setUp()
        self.cluster[0].create("t", 1)
        self.cluster.settle(1)
        self.produce(20)

    def client(self, broker_id: int) -> Client:
        return self.cluster[broker_id].connect(host="192.0.2.1")

    def replica(self, broker_id: int, topic: str = "t", partition: int = 0) -> Replica:
        found = self.cluster[broker_id].broker.replication.replicas.find(topic, partition)
        assert found is not None
        return found

    @property
    def leader(self) -> int:
        return self.leaders("t", self.cluster.alive[0])[0]

    @property
    def followers(self) -> list[int]:
        return [one for one in self.cluster.alive if one != self.leader]

    def produce(self, count: int, acks: int = -1) -> None:
        for number in range(count):
            answer = self.cluster.now(self.append(self.leader, number))
            self.assertIsNotNone(answer)
        self.cluster.settle(1)

    def append(self, broker_id: int, number: int) -> Any:
        return self.cluster[broker_id].broker.plugin_services.append(
            "t", [(b"%d" % number, b"value %d" % number * 4)], 0, -1
        )

    def isr(self, topic: str = "t") -> list[int]:
        image = self.cluster.metadata(self.cluster.alive[0]).topic(topic)
        assert image is not None
        return sorted(image.partitions[0].isr)

    def batches(self, broker_id: int, topic: str = "t", partition: int = 0) -> list[bytes]:
        """All batches of a replica, as its files have them."""
        log, found = self.replica(broker_id, topic, partition).log, []
        for segment in log.segments:
            data = segment.log.get().pread(segment.size, 0)
            found += [data[at : at + header.size] for at, header in iter_batches(data)]
        return found

    def damage(self, broker_id: int, segment: int = 1, position: int = 70) -> None:
        """Flip a bit below the recovery point."""
        log = self.replica(broker_id).log
        self.cluster.now(log.flusher.write_back_and_wait())
        flip(self.cluster[broker_id].disks[0], log.segments[segment].log.path, position)

    def wipe(self, broker_id: int) -> None:
        """A broker comes back with an empty disk."""
        self.cluster.kill(broker_id)
        self.cluster.disks[broker_id] = [MemoryDisk()]
        self.cluster.boot(broker_id)

    def settle_until_whole(self, seconds: int = 90) -> None:
        """Let time pass until all are in sync, and nobody knows of damage."""
        for _ in range(seconds):
            self.cluster.settle(1)
            known = sum(self.cluster[one].broker.logs.damage.count for one in self.cluster.alive)
            if self.isr() == [0, 1, 2] and not known:
                break
        self.assertEqual(self.isr(), [0, 1, 2])

    def assert_same(self) -> None:
        first, *others = (self.batches(one) for one in self.cluster.alive)
        for other in others:
            self.assertEqual(other, first)


class LeaderTests(RepairCase):
    """Damage below the recovery point of a leader."""

    def test_a_wiped_follower(self) -> None:
        """A follower that lost its disk cannot copy what is damaged: the leader finds it, and all are whole again."""
        for position in (70, 3, 9, 16, 19):
            leader = self.leader
            damaged = self.cluster[leader].broker.logs.damage
            repaired = damaged.repaired
            self.damage(leader, position=position)
            self.wipe(self.followers[0])
            self.settle_until_whole()
            self.assert_same()
            self.assertNotEqual(self.leader, leader, "another replica leads, as soon as the damage is known")
            self.assertEqual(damaged.repaired, repaired + 1)
            self.produce(3)
            self.assert_same()

    def test_leader_stays(self) -> None:
        """If the controller elects no other leader, this one copies from a follower in sync, and stays leader."""
        leader = self.leader
        self.cluster[leader].broker.replication.repairs.reports = LostReports()
        self.damage(leader)
        self.cluster.settle(2 * FIRST_ROUND_S + 10)
        self.settle_until_whole()
        self.assert_same()
        self.assertEqual((self.leader, self.cluster[leader].broker.logs.damage.repaired), (leader, 1))

    def test_found_by_the_scrubber(self) -> None:
        """Nobody reads it, and it is found and repaired all the same; a line says what, where and from whom."""
        leader = self.leader
        self.damage(leader)
        with capturedLogs() as captured:
            self.cluster.settle(2 * FIRST_ROUND_S + 5)
        self.settle_until_whole()
        self.assert_same()
        self.assertEqual(self.cluster[leader].broker.logs.damage.repaired, 1)
        (line,) = [event for event in captured if "is repaired" in (event.get("log_format") or "")]
        self.assertEqual((str(line["partition"]), line["log_level"].name), ("t-0", "warn"))

    def test_found_by_a_reader(self) -> None:
        """A consumer that meets a header that is none is refused, and later served."""
        leader = self.leader
        self.damage(leader, position=16)
        log = self.replica(leader).log
        offset = log.segments[1].base_offset
        self.assertRaises(StorageError, log.read, offset, 1000)
        self.settle_until_whole()
        self.assert_same()
        self.assertIsNotNone(log.read(offset, 1000).data)

    def test_the_segment_written_to(self) -> None:
        """Damage in the active segment is repaired as well, while records are written."""
        leader = self.leader
        self.damage(leader, segment=-1)
        self.wipe(self.followers[0])
        self.produce(4)
        self.settle_until_whole()
        self.produce(4)
        self.assert_same()

    def test_no_other_replica_in_sync(self) -> None:
        """
        Without another replica in sync the damage stays and is reported, the rest can be read; it is repaired later.
        """
        leader, (one, other) = self.leader, self.followers
        self.cluster.kill(one)
        self.cluster.kill(other)
        self.cluster.settle(5)
        self.damage(leader)
        log = self.replica(leader).log
        with capturedLogs() as captured:
            self.cluster.settle(2 * FIRST_ROUND_S + 70)
        damage = self.cluster[leader].broker.logs.damage
        self.assertEqual((damage.count, damage.repaired), (1, 0))
        levels = [event["log_level"].name for event in captured if "is damaged" in (event.get("log_format") or "")]
        self.assertEqual(sorted(levels), ["critical", "error"], "said once, however often it is tried")
        for segment in (log.segments[0], log.segments[2]):
            self.assertIsNotNone(log.read(segment.base_offset, 100).data)
        self.cluster.boot(one)
        self.cluster.boot(other)
        self.settle_until_whole(20)
        self.assertEqual(damage.count, 0, "soon after another replica is in sync")
        self.assert_same()


class FollowerTests(RepairCase):
    """Damage in a follower's log."""

    def test_found_by_the_scrubber(self) -> None:
        """It is repaired while the follower goes on following, in sync; nobody else notices."""
        leader, follower = self.leader, self.followers[0]
        self.damage(follower)
        self.damage(follower, segment=2)
        for _ in range(2 * int(FIRST_ROUND_S) + 5):
            self.cluster.settle(1)
            self.assertEqual(self.isr(), [0, 1, 2])
        self.produce(3)
        self.assert_same()
        self.assertEqual((self.leader, self.cluster[follower].broker.logs.damage.repaired), (leader, 2))

    def test_damaged_before_a_divergence(self) -> None:
        """
        A log that has to be cut, but cannot be read up to there, is repaired up to there, and then cut: no more of it
        is as others have it.
        """
        old, others = self.leader, self.followers
        log = self.replica(old).log
        while len({segment.base_offset for segment in log.segments}) == 1 or log.segments[-1].size < 200:
            self.produce(1)
        agreed = log.log_end_offset
        for other in others:
            self.cluster.cut(other, old)
        append = self.cluster[old].broker.plugin_services.append
        self.cluster.now(append("t", [(b"lost", b"this")], 0, 1))
        self.assertEqual((log.log_end_offset, self.replica(others[0]).log.log_end_offset), (agreed + 1, agreed))
        self.assertLess(log.segments[-1].base_offset, agreed)
        store = self.cluster[old].broker.member.store
        store.suspend()
        store.expire()
        self.cluster.settle(5)
        self.assertIn(self.leaders("t", others[0])[0], others)
        self.cluster.now(log.flusher.write_back_and_wait())
        flip(self.cluster[old].disks[0], log.segments[-1].log.path, 9)  # of the first batch's length
        with capturedLogs() as captured:
            self.cluster.mend()
            store.resume()
            self.settle_until_whole()
        self.assertTrue([event for event in captured if "does not get on behind" in (event.get("log_format") or "")])
        self.assert_same()
        self.assertEqual(self.cluster[old].broker.logs.damage.repaired, 1)
        self.assertIsNone(self.replica(old).diverges)
        self.produce(3)
        self.assert_same()

    def test_damaged_on_all(self) -> None:
        """What is damaged on every replica cannot be repaired; all stay in sync, and writes go on."""
        for broker_id in self.cluster.alive:
            self.damage(broker_id)
        self.cluster.settle(2 * FIRST_ROUND_S + 70)
        self.assertEqual(self.isr(), [0, 1, 2])
        self.assertEqual([self.cluster[one].broker.logs.damage.count for one in self.cluster.alive], [1, 1, 1])
        self.produce(3)

    def test_damaged_at_different_places(self) -> None:
        """Each repairs itself from the others."""
        for number, broker_id in enumerate(self.cluster.alive):
            self.damage(broker_id, segment=number)
        self.cluster.settle(2 * FIRST_ROUND_S + 10)
        self.settle_until_whole()
        self.produce(3)
        self.assert_same()


class CleanerTests(RepairCase):
    """A compacted log that the cleaner cannot read."""

    config = {
        **SETTINGS,
        "log.scrub.interval.ms": "-1",
        "log.cleanup.policy": "compact",
        "log.cleaner.backoff.ms": "1000",
        "log.cleaner.min.cleanable.ratio": "0.01",
    }

    def test_cleaned_after_the_repair(self) -> None:
        """The cleaner gives the log up, which has it checked; once it is repaired it is cleaned again."""
        follower = self.followers[0]
        broker = self.cluster[follower].broker
        self.produce(20)
        self.cluster.settle(20)
        log = self.replica(follower).log
        self.assertGreater(log.cleaned_end_offset, 0)
        number = next(i for i, s in enumerate(log.segments[:-1]) if s.size)
        self.damage(follower, segment=number, position=19)
        self.produce(20)
        for _ in range(60):
            self.cluster.settle(1)
            if broker.logs.damage.repaired and not broker.logs.cleaner.uncleanable:
                break
        self.assertEqual((broker.logs.damage.found, broker.logs.damage.repaired), (1, 1))
        self.assertEqual(broker.logs.cleaner.uncleanable, {})
        end = log.log_end_offset
        self.produce(20)
        self.cluster.settle(20)
        self.assertGreaterEqual(log.cleaned_end_offset, end)


class CoordinatorTests(ClusterCase):
    """A coordinator that finds damage when it reads its groups back."""

    config = {
        **SETTINGS,
        "offsets.topic.replication.factor": "3",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.segment.bytes": "600",
        "log.scrub.interval.ms": "-1",
    }

    def ask(self, message: Any, version: int) -> Any:
        """Ask the group's coordinator, until it serves."""
        for _ in range(60):
            self.cluster.settle(0.5)
            alive = self.cluster.alive
            image = self.cluster.metadata(alive[0]).topic(OFFSETS_TOPIC)
            leader = -1 if image is None else image.partitions[0].leader
            client = self.cluster[leader if leader in alive else alive[0]].connect(host="192.0.2.1")
            if image is None:
                client.send(FindCoordinatorRequest(key="g", key_type=0), 3)
                continue
            client.send(message, version)
            self.cluster.settle(0.5)
            answers = client.answers()
            if answers and not self.refusals(answers[0]):
                return answers[0]
        raise AssertionError("the coordinator does not serve")

    def refusals(self, answer: Any) -> list[int]:
        """The error codes in an answer."""
        groups = getattr(answer, "groups", [answer])
        inner = [one.error_code for group in groups for topic in group.topics for one in topic.partitions]
        return [code for code in [*(getattr(group, "error_code", 0) for group in groups), *inner] if code]

    def test_offsets_stay(self) -> None:
        """Offsets in a damaged batch are not passed over while another replica has them."""
        self.cluster[0].create("t", 30)
        self.cluster.settle(1)
        for number in range(30):
            self.ask(commit_request({("t", number): 100 + number}), 8)
        image = self.cluster.metadata(0).topic(OFFSETS_TOPIC)
        assert image is not None
        leader = image.partitions[0].leader
        heir = next(one for one in image.partitions[0].replicas if one != leader)
        replica = self.cluster[heir].broker.replication.replicas.find(OFFSETS_TOPIC, 0)
        assert replica is not None
        self.cluster.now(replica.log.flusher.write_back_and_wait())
        for segment in (replica.log.segments[1], replica.log.segments[-1]):
            flip(self.cluster[heir].disks[0], segment.log.path, 75)
        self.cluster.kill(leader)
        self.cluster.settle(1)
        answer = self.ask(fetch_request(*(("t", number) for number in range(30))), 9)
        (topic,) = answer.groups[0].topics
        self.assertEqual(
            {one.partition_index: one.committed_offset for one in topic.partitions},
            {number: 100 + number for number in range(30)},
        )
        self.assertEqual(self.cluster[heir].broker.coordinators.groups.metrics.damaged, 0)
        self.assertGreater(self.cluster[heir].broker.logs.damage.found, 0)


class TwoReplicasTests(RepairCase):
    """No more replicas than the minimum in sync."""

    brokers = 2
    config = {**SETTINGS, "default.replication.factor": "2"}

    def test_damage_above_the_high_watermark(self) -> None:
        """
        Damage in the active segment, whose end is not committed yet when another replica leads: the old leader is
        needed in sync before it can be repaired.
        """
        if self.leader != self.cluster.controller:
            # The controller is to hear of the damage through no cut.
            self.cluster.kill(self.leader)
            self.cluster.boot(1)
            self.cluster.settle(5)
        leader, (follower,) = self.leader, self.followers
        self.assertEqual((leader, self.isr()), (self.cluster.controller, [0, 1]))
        log = self.replica(leader).log
        # The record reaches the follower, whose next fetch, which would say so, is lost.
        self.cluster.cut(follower, leader, both=False)
        waiting = self.append(leader, 0)
        self.cluster.settle(0.2)
        self.assertFalse(waiting.called)
        self.assertEqual(self.replica(follower).log.log_end_offset, log.log_end_offset)
        self.assertGreater(log.log_end_offset, self.replica(leader).high_watermark)
        self.cluster.now(log.flusher.write_back_and_wait())
        flip(self.cluster[leader].disks[0], log.segments[-1].log.path, 70)
        self.cluster[leader].broker.logs.scrubber.suspect(log, log.segments[-1])
        self.cluster.settle(0.1)
        self.assertEqual(self.cluster[leader].broker.replication.repairs.handed_over, 1)
        self.cluster.mend()
        for end in list(self.cluster.network.ends):
            end.lost()
        for _ in range(30):
            self.cluster.settle(1)
        self.assertEqual(self.isr(), [0, 1])
        self.assertEqual(self.cluster[leader].broker.logs.damage.repaired, 1)
        self.produce(3)
        self.assert_same()
        waiting.addErrback(lambda _: None)
