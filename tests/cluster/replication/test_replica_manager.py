"""The replicas of a broker: roles taken, removed, and lost with their disks."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from attrs import evolve
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from logbus.cluster.icluster import ILeadershipListener
from logbus.cluster.metadata_update import PartitionState
from logbus.cluster.replication.record_deletion import deletion_offset
from logbus.cluster.replication.replica import Replica
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.config import TopicConfig
from logbus.errors import ApiError, ErrorCode, StorageError
from logbus.model import LeaderAndIsr, TopicPartition
from logbus.net.time_slices import SliceScheduler
from logbus.storage.checkpoints import decode_partition_metadata
from logbus.storage.istorage import IOPool
from logbus.storage.log import Log
from logbus.storage.log_manager import LogManager
from logbus.testing.simulation.environment.memory_disk import MemoryDisk, broken, no_space
from tests.handlers.kit import a_batch
from tests.storage.builders import NOW_MS, NOW_S

ALONE = LeaderAndIsr(leader=0, leader_epoch=0, isr=(0,))


class ReplicasTests(SynchronousTestCase):
    """The registry over logs on two memory disks."""

    def setUp(self) -> None:
        self.disks = [MemoryDisk("/a"), MemoryDisk("/b")]
        self.clock = Clock()
        self.manager = LogManager(
            self.disks,
            self.clock,
            lambda: NOW_S,
        )
        self.replicas = ReplicaManager(0, self.manager, lambda given: TopicConfig(retention_ms=int(given.get("ms", 1))))
        self.manager.user = self.replicas
        self.successResultOf(self.manager.open())

    def state(
        self, partition: int = 0, role: LeaderAndIsr = ALONE, topic_id: int = 1, **overrides: str
    ) -> PartitionState:
        return PartitionState(TopicPartition("t", partition), UUID(int=topic_id), (0,), role, overrides=overrides)

    def become(self, *states: PartitionState) -> dict[TopicPartition, ApiError]:
        return dict(self.successResultOf(self.replicas.become(states)))

    def test_new_role(self) -> None:
        """A role opens the log with the topic's configuration; then the replica leads and accepts records."""
        self.assertEqual(self.become(self.state(ms="77")), {})
        replica = self.replicas.leader("t", 0)
        self.assertEqual(replica.log.config.retention_ms, 77)
        appended = replica.append(a_batch(b"v"), NOW_MS)
        self.assertEqual((appended.base_offset, replica.high_watermark, replica.last_stable_offset), (0, 1, 1))
        self.assertEqual([each.topic_partition for each in self.replicas], [("t", 0)])

    def test_unknown_partitions(self) -> None:
        """Unknown partitions, of known and of unknown topics."""
        self.become(self.state())
        for topic, partition in (("t", 1), ("t", -1), ("u", 0), ("", 0)):
            error = self.assertRaises(ApiError, self.replicas.leader, topic, partition)
            self.assertEqual(error.code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self.assertIsNone(self.replicas.find(topic, partition))

    def test_followers_do_not_serve(self) -> None:
        """A replica that follows takes no records from clients, and says who leads."""
        self.become(self.state(role=LeaderAndIsr(leader=2, leader_epoch=4, isr=(2, 0))))
        error = self.assertRaises(ApiError, self.replicas.leader, "t", 0)
        self.assertEqual(error.code, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.assertIn("broker 2", error.message)
        error = self.assertRaises(ApiError, self.replicas.get("t", 0).append, a_batch(b"v"), NOW_MS)
        self.assertEqual(error.code, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.assertEqual(self.replicas.get("t", 0).log.log_end_offset, 0)

    def test_log_without_topic_id(self) -> None:
        """A log whose partition.metadata was lost is taken for the partition's, with all its records."""
        self.become(self.state())
        self.replicas.leader("t", 0).append(a_batch(b"v"), NOW_MS)
        log = self.manager.get(TopicPartition("t", 0))
        assert log is not None
        log.topic_id = None
        log.disk.unlink("t-0/partition.metadata")
        again = ReplicaManager(0, self.manager, lambda given: TopicConfig())
        self.assertEqual(dict(self.successResultOf(again.become([self.state()]))), {})
        self.assertEqual(again.leader("t", 0).log.log_end_offset, 1)
        self.assertEqual(log.topic_id, UUID(int=1))
        self.assertEqual(decode_partition_metadata(log.disk.read("t-0/partition.metadata")), UUID(int=1))

    def test_old_news(self) -> None:
        """A role of an epoch gone by changes nothing."""
        self.become(self.state(role=LeaderAndIsr(leader=0, leader_epoch=5, isr=(0,))))
        self.become(self.state(role=LeaderAndIsr(leader=1, leader_epoch=4, isr=(1,))))
        self.assertEqual(self.replicas.leader("t", 0).partition.leader_epoch, 5)

    def test_metadata_set_back(self) -> None:
        """A store with older epochs than the logs is told of once, by one of the logs, and no record is dropped."""
        for number in (0, 1):
            self.become(self.state(number, role=LeaderAndIsr(leader=0, leader_epoch=5, isr=(0,))))
            self.replicas.leader("t", number).append(a_batch(b"v"), NOW_MS)
        again = ReplicaManager(0, self.manager, lambda given: TopicConfig())
        logged: list[str] = []
        log = SimpleNamespace(error=lambda line, **fields: logged.append(line.format(**fields)))
        self.patch(ReplicaManager, "_log", log)
        states = [self.state(number, role=LeaderAndIsr(0, 5 - number, (0,))) for number in (0, 1)]
        for _ in range(2):
            self.assertEqual(dict(self.successResultOf(again.become(states))), {})
        [line] = logged
        self.assertIn("1 log with newer leader epochs than the metadata store", line)
        self.assertIn("such as t-1 (epoch 5, not 4): it was set back", line)
        self.assertEqual(again.leader("t", 1).log.log_end_offset, 1)

    def test_high_watermark_waits_for_the_isr(self) -> None:
        """With another replica in sync, this one's records are not committed by it alone."""
        self.become(self.state(role=LeaderAndIsr(leader=0, leader_epoch=0, isr=(0, 1))))
        replica = self.replicas.leader("t", 0)
        replica.append(a_batch(b"v"), NOW_MS)
        self.assertEqual((replica.log.log_end_offset, replica.high_watermark), (1, 0))
        self.assertIsNone(replica.read(0, 1 << 20, committed=False, min_one=True).data)

    def test_another_topic_of_the_name(self) -> None:
        """A new topic id gets a new, empty log; the old one's records are gone for good."""
        self.become(self.state())
        self.replicas.leader("t", 0).append(a_batch(b"old"), NOW_MS)
        old = self.replicas.get("t", 0)
        self.become(self.state(topic_id=2))
        new = self.replicas.leader("t", 0)
        self.assertIsNot(new, old)
        self.assertEqual((new.log.log_end_offset, new.topic_id), (0, UUID(int=2)))
        self.assertFalse(old.partition.is_leader)

    def test_records_are_deleted_up_to_the_high_watermark(self) -> None:
        """DeleteRecords moves the log's start, to -1 = everything, but not further than what is committed."""
        self.become(self.state())
        replica = self.replicas.leader("t", 0)
        for _ in range(3):
            replica.append(a_batch(b"v"), NOW_MS)
        for wrong in (4, -2, 2**63 - 1):
            error = self.assertRaises(ApiError, deletion_offset, replica.partition, wrong, replica.log.config)
            self.assertEqual(error.code, ErrorCode.OFFSET_OUT_OF_RANGE)
        for policy in ({"delete"}, {"compact", "delete"}):
            config = evolve(replica.log.config, cleanup_policy=frozenset(policy))
            self.assertEqual([deletion_offset(replica.partition, n, config) for n in (0, 2, 3, -1)], [0, 2, 3, 3])

    def test_compacted_topics_keep_their_records(self) -> None:
        """DeleteRecords is refused where only compaction may remove records."""
        self.become(self.state())
        replica = self.replicas.leader("t", 0)
        replica.append(a_batch(b"v"), NOW_MS)
        replica.log.configure(evolve(replica.log.config, cleanup_policy=frozenset({"compact"})))
        deleting = Deferred.fromCoroutine(self.replicas.delete_records("t", 0, 1))
        self.assertEqual(self.failureResultOf(deleting, ApiError).value.code, ErrorCode.POLICY_VIOLATION)
        self.assertEqual(replica.log.log_start_offset, 0)

    def test_a_fetch_while_the_log_is_replaced(self) -> None:
        """
        A follower's fetch while the log is closed, as it moves to another log directory, is answered; what it
        acknowledges is committed when the log takes appends again.
        """
        self.become(self.state(role=LeaderAndIsr(leader=0, leader_epoch=0, isr=(0, 1))))
        replica = self.replicas.leader("t", 0)
        follower = replica.partition.follower(1, 0, 0)
        replica.append(a_batch(b"v"), NOW_MS)
        self.successResultOf(replica.log.close())
        replica.fetched(follower, 1, 0)
        self.assertEqual(replica.high_watermark, 0)
        replica.log.reopen()
        replica.replace_log(replica.log)
        self.assertEqual(replica.high_watermark, 1)

    def test_defaults_change_while_roles_are_given(self) -> None:
        """New defaults reach replicas whose topics are not in the metadata yet, and those whose logs are being made."""
        defaults = {"ms": 1}
        replicas = ReplicaManager(
            0, self.manager, lambda given: TopicConfig(retention_ms=int(given.get("ms", defaults["ms"])))
        )
        self.manager.user = replicas
        own = PartitionState(TopicPartition("u", 0), UUID(int=2), (0,), ALONE, overrides={"ms": "5"})
        self.assertEqual(dict(self.successResultOf(replicas.become([self.state(), own]))), {})
        for disk in self.disks:
            disk.held.add(IOPool.BACKGROUND)
        becoming = replicas.become([self.state(1), self.state(2)])
        self.assertNoResult(becoming)
        defaults["ms"] = 99
        replicas.defaults_changed()
        for disk in self.disks:
            disk.held.clear()
        for disk in 10 * self.disks:
            disk.release(IOPool.BACKGROUND)
        self.assertEqual(dict(self.successResultOf(becoming)), {})
        found = {each.topic_partition: each.log.config.retention_ms for each in replicas}
        self.assertEqual(found, {("t", 0): 99, ("u", 0): 5, ("t", 1): 99, ("t", 2): 99})

    def test_settings_change_while_the_log_is_replaced(self) -> None:
        """A log that takes the place of another has the settings that came meanwhile."""
        self.become(self.state(ms="1"))
        name = TopicPartition("t", 0)
        before = self.replicas.get(*name).log
        made: Deferred[Log] = Deferred()
        swapped = self.replicas.swap_log(name, lambda: made)
        before.disk.make_directory("copy")
        copy = Log(name, before.disk, "copy", config=before.config, wall_clock=lambda: NOW_S, jitter=before.jitter)
        copy.create()
        self.replicas.configure("t", {"ms": "99"})
        made.callback(copy)
        self.successResultOf(swapped)
        self.assertIs(self.replicas.get(*name).log, copy)
        self.assertEqual(copy.config.retention_ms, 99)

    def test_listeners_hear_of_leadership(self) -> None:
        """Of each epoch this broker leads in, and of each end: another leader, deletion, a failed directory."""
        heard: list[tuple[str, int, int | None]] = []

        @implementer(ILeadershipListener)
        class Listener:
            def leads(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
                heard.append((*topic_partition, leader_epoch))

            def leads_no_more(self, topic_partition: TopicPartition) -> None:
                heard.append((*topic_partition, None))

        def news() -> list[tuple[str, int, int | None]]:
            told = heard[:]
            heard.clear()
            return told

        def led(leader: int, epoch: int) -> PartitionState:
            return self.state(role=LeaderAndIsr(leader=leader, leader_epoch=epoch, isr=(0, 1)))

        verifyObject(ILeadershipListener, Listener())
        self.replicas.listeners.append(Listener())
        self.become(led(0, 0))
        self.assertEqual(news(), [("t", 0, 0)])
        self.become(led(0, 0))
        self.assertEqual(news(), [])
        self.become(led(0, 1))
        self.assertEqual(news(), [("t", 0, None), ("t", 0, 1)])
        self.become(led(1, 2))
        self.assertEqual(news(), [("t", 0, None)])
        self.become(led(1, 3))
        self.assertEqual(news(), [])
        self.become(led(0, 4))
        self.assertEqual(news(), [("t", 0, 4)])
        self.successResultOf(self.replicas.remove([TopicPartition("t", 0)]))
        self.assertEqual(news(), [("t", 0, None)])
        self.become(led(0, 0))
        self.assertEqual(news(), [("t", 0, 0)])
        self.replicas.directory_failed([TopicPartition("t", 0)], "the disk is gone")
        self.assertEqual(news(), [("t", 0, None)])

    def test_a_full_disk_when_coming_up(self) -> None:
        """A partition that cannot be created is an error of its own, and is tried again when told again."""
        for disk in self.disks:
            disk.faults = lambda op, path: no_space() if op in ("create", "make", "replace") and "t-1" in path else None
        errors = self.become(self.state(0), self.state(1))
        self.assertEqual([name.partition for name in errors], [1])
        self.assertEqual(errors[TopicPartition("t", 1)].code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertEqual(self.replicas.leader("t", 0).append(a_batch(b"v"), NOW_MS).base_offset, 0)
        error = self.assertRaises(ApiError, self.replicas.get, "t", 1)
        self.assertEqual(error.code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertTrue(self.replicas.lacked_space)
        for disk in self.disks:
            disk.faults = lambda op, path: None
        self.assertEqual(self.become(self.state(1)), {})
        self.assertEqual(self.replicas.leader("t", 1).append(a_batch(b"v"), NOW_MS).base_offset, 0)

    def test_a_directory_fails(self) -> None:
        """The partitions of a failed directory answer KAFKA_STORAGE_ERROR; those of the other go on."""
        self.become(*(self.state(n) for n in range(4)))
        homes = {n: self.replicas.get("t", n).log.disk for n in range(4)}
        self.assertEqual(len(set(map(id, homes.values()))), 2, "all logs are on one disk")
        self.disks[0].faults = lambda op, path: broken() if op == "write" else None
        for n, disk in homes.items():
            replica = self.replicas.find("t", n)
            if disk is self.disks[0]:
                if replica is not None:
                    self.assertRaises(StorageError, replica.append, a_batch(b"v"), NOW_MS)
                error = self.assertRaises(ApiError, self.replicas.leader, "t", n)
                self.assertEqual(error.code, ErrorCode.KAFKA_STORAGE_ERROR)
            else:
                self.assertEqual(self.replicas.leader("t", n).append(a_batch(b"v"), NOW_MS).base_offset, 0)
        self.assertEqual(self.manager.offline_directories, ["/a"])

    def test_a_directory_fails_while_a_role_is_given(self) -> None:
        """The replica is not shown as one that works, nor told to lead."""
        waiting: list[Deferred[None]] = []

        class SlowFetchers:
            def follow(self, replica: Replica, leader: int) -> None:
                pass

            def unfollow(self, name: TopicPartition) -> Deferred[None]:
                waiting.append(Deferred())
                return waiting[-1]

        follower = LeaderAndIsr(leader=2, leader_epoch=4, isr=(2, 0))
        self.become(self.state(role=follower))
        self.replicas.fetcher = SlowFetchers()
        becoming = self.replicas.become([self.state(role=evolve(follower, leader=0, leader_epoch=5))])
        [log] = self.manager
        log.disk.fail(StorageError("the disk is gone"))
        for each in waiting:
            each.callback(None)
        self.assertIn(TopicPartition("t", 0), self.successResultOf(becoming))
        self.assertEqual(list(self.replicas), [])
        error = self.assertRaises(ApiError, self.replicas.leader, "t", 0)
        self.assertEqual(error.code, ErrorCode.KAFKA_STORAGE_ERROR)

    def test_removed(self) -> None:
        """A partition that is removed takes its log with it; removing it twice is nothing."""
        self.become(self.state(0), self.state(1))
        name = TopicPartition("t", 0)
        for _ in range(2):
            self.assertEqual(self.successResultOf(self.replicas.remove([name])), {})
        self.assertIsNone(self.manager.get(name))
        self.assertEqual(len(self.replicas), 1)

    def test_strays(self) -> None:
        """Logs of what this broker does not hold any more go; those of topics that nobody can read stay."""
        self.become(self.state(0), self.state(1))
        for topic in ("gone", "unreadable"):
            self.successResultOf(self.manager.create(TopicPartition(topic, 0), UUID(int=5)))
        self.assertEqual(self.successResultOf(self.replicas.retain({TopicPartition("t", 0)}, {"unreadable"})), {})
        self.assertEqual(sorted(log.partition for log in self.manager), [("t", 0), ("unreadable", 0)])
        self.assertEqual([each.topic_partition for each in self.replicas], [("t", 0)])

    def test_metadata_of_an_older_backup(self) -> None:
        """A partition that they lack, or have with another topic id, has its records when the right ones are back."""
        self.become(self.state(0), self.state(1))
        for n in range(2):
            self.replicas.leader("t", n).append(a_batch(b"v%d" % n), NOW_MS)
        with capturedLogs() as told:
            self.assertEqual(self.successResultOf(self.replicas.retain({TopicPartition("t", 1)}, ())), {})
        self.assertIn("1 log", [event.get("logs") for event in told])
        self.become(evolve(self.state(1), topic_id=UUID(int=99)))
        self.assertEqual([replica.log.log_end_offset for replica in self.replicas], [0])
        self.become(self.state(0), self.state(1))
        for n in range(2):
            self.assertEqual(self.replicas.get("t", n).log.log_end_offset, 1)
            self.assertEqual(self.replicas.get("t", n).topic_id, self.state(n).topic_id)

    def test_followers_are_followed(self) -> None:
        """From the role on that says so, in its epoch, until the next one; whatever else becomes of them."""
        told: list[tuple[object, ...]] = []

        class Fetcher:
            def follow(self, replica: Replica, leader: int) -> None:
                told.append(("follow", replica.topic_partition.partition, leader, replica.partition.leader_epoch))

            def unfollow(self, name: TopicPartition) -> Deferred[None]:
                told.append(("unfollow", name.partition))
                return succeed(None)

        def news(*states: PartitionState) -> list[tuple[object, ...]]:
            told.clear()
            self.become(*states)
            return told[:]

        self.replicas.fetcher = Fetcher()
        self.assertEqual(news(self.state(role=LeaderAndIsr(2, 4, (2, 0)))), [("unfollow", 0), ("follow", 0, 2, 4)])
        self.assertEqual(news(self.state(role=LeaderAndIsr(2, 4, (2,), version=1))), [])
        self.assertEqual(news(self.state(role=LeaderAndIsr(-1, 5, (2,)))), [("unfollow", 0)])
        self.assertEqual(news(self.state(role=LeaderAndIsr(1, 6, (1,)))), [("unfollow", 0), ("follow", 0, 1, 6)])
        self.assertEqual(news(self.state(role=LeaderAndIsr(2, 5, (2,)))), [])
        self.assertEqual(news(self.state(role=LeaderAndIsr(0, 7, (0,)))), [("unfollow", 0)])
        told.clear()
        self.replicas.directory_failed([TopicPartition("t", 0)], "the disk is gone")
        self.assertEqual(told, [("unfollow", 0)])

    def test_high_watermark_after_a_restart(self) -> None:
        """A replica starts with its checkpointed high watermark, as far as the log reaches."""
        self.become(self.state())
        self.replicas.leader("t", 0).append(a_batch(b"a"), NOW_MS)
        log = self.replicas.get("t", 0).log
        for mark, found in ((0, 0), (1, 1), (9, 1)):
            log.high_watermark = mark
            again = ReplicaManager(0, self.manager, lambda given: TopicConfig())
            self.successResultOf(again.become([self.state(role=LeaderAndIsr(2, 4, (2, 0)))]))
            self.assertEqual(again.get("t", 0).high_watermark, found)

    def test_changes_that_never_have_their_turn(self) -> None:
        """Where a broker dies while its disk works, what waits behind that leaves nothing begun."""
        name = TopicPartition("t", 0)

        async def swap() -> Log:
            return await Deferred()

        waiting = [self.replicas.swap_log(name, each) for each in (swap, swap)]
        waiting += [self.replicas.become([self.state()]), self.replicas.remove([name])]
        for each in waiting:
            self.assertNoResult(each)
        del waiting, each
        self.replicas = self.manager.user = None
        gc.collect()
        self.assertEqual(self.flushWarnings(), [])

    def test_settings_change(self) -> None:
        """New overrides reach every partition of the topic."""
        self.become(self.state(0), self.state(1))
        self.replicas.configure("t", {"ms": "99"})
        self.assertEqual([each.log.config.retention_ms for each in self.replicas], [99, 99])

    def test_settings_change_where_some_partitions_are(self) -> None:
        """They reach each partition that is here, whichever others are on other brokers, or gone."""
        self.become(*(self.state(number) for number in (1, 2, 4, 7)))
        self.successResultOf(self.replicas.remove([TopicPartition("t", 2)]))
        self.replicas.configure("t", {"ms": "99"})
        self.replicas.configure("u", {"ms": "5"})
        self.assertEqual(
            [(each.topic_partition.partition, each.log.config.retention_ms) for each in self.replicas],
            [(1, 99), (4, 99), (7, 99)],
        )

    def test_settings_of_many_partitions(self) -> None:
        """
        They change a part at a time. What changes meanwhile counts for all of them, and what is gone by then is left
        out.
        """
        clock, defaults = Clock(), {"ms": 1}
        scheduler = SliceScheduler(clock, units=40)
        replicas = ReplicaManager(
            0,
            self.manager,
            lambda given: TopicConfig(retention_ms=int(given.get("ms", defaults["ms"]))),
            slices=scheduler,
        )
        self.manager.user = replicas
        self.finished(clock, replicas.become([self.state(number) for number in range(200)]))

        def settings() -> set[int]:
            return {replica.log.config.retention_ms for replica in replicas}

        changing = replicas.configure("t", {"ms": "99"})
        self.assertNoResult(changing)
        self.assertEqual(settings(), {1, 99})
        self.finished(clock, replicas.remove([TopicPartition("t", 150)]), changing)
        changing = replicas.configure("t", {"ms": "98"})
        self.assertNoResult(changing)
        later = replicas.configure("t", {})
        defaults["ms"] = 7
        replicas.defaults_changed()
        before = scheduler.slices
        while not (changing.called and later.called and settings() == {7}):
            self.assertTrue(clock.getDelayedCalls(), settings())
            clock.advance(0)
        self.assertGreater(scheduler.slices, before + 5)
        while clock.getDelayedCalls():
            clock.advance(0)
        self.assertEqual((settings(), len(replicas)), ({7}, 199))

    def finished(self, clock: Clock, *all_of: Deferred[Any]) -> None:
        """Have turns of the reactor until all are done."""
        done: list[object] = []
        for each in all_of:
            each.addCallback(done.append)
        for _ in range(1000):
            if len(done) == len(all_of):
                return
            clock.advance(0)
        raise AssertionError("it never ended")

    def test_settings_of_a_topic_that_goes(self) -> None:
        """A topic that is deleted while its settings change needs none any more."""
        clock = Clock()
        replicas = ReplicaManager(0, self.manager, lambda given: TopicConfig(), slices=SliceScheduler(clock))
        self.manager.user = replicas
        names = [TopicPartition("t", number) for number in range(150)]
        self.finished(clock, replicas.become([self.state(name.partition) for name in names]))
        changing = replicas.configure("t", {"ms": "99"})
        self.assertNoResult(changing)
        self.finished(clock, replicas.remove(names), changing)
        self.assertEqual(len(replicas), 0)
