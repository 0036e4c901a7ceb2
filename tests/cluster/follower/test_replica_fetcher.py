"""Replica fetchers: fetches, failures, truncations and syncs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from attrs import evolve
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.follower.fetch_settings import ReplicaFetchSettings
from logbus.cluster.follower.replica_fetcher_manager import ReplicaFetcherManager
from logbus.cluster.replication.partition import Partition
from logbus.cluster.replication.replica import Replica
from logbus.config import TopicConfig
from logbus.errors import ApiError, ErrorCode
from logbus.model import LeaderAndIsr, TopicPartition
from logbus.records.batch import iter_batches
from logbus.storage.appends.append_as_follower import append_as_follower
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.istorage import IOPool
from logbus.storage.log_truncator import LogTruncator
from logbus.testing.simulation.environment.memory_disk import MemoryDisk, broken
from logbus.timers import Timers
from logbus.wire.messages.records import FetchRequest, ReplicaState
from tests.cluster.fake_leader import FakeLeader, Led
from tests.storage.builders import a_manager, batch, data_of

LEADER, FOLLOWER = 1, 2
TOPIC = UUID(int=7)
UNFLUSHED = TopicConfig(flush_before_ack=False)


def shares_of(request: FetchRequest) -> list[int]:
    """The most bytes that a fetch asks for of each partition that it names."""
    return [asked.partition_max_bytes for topic in request.topics for asked in topic.partitions]


class FetcherCase(SynchronousTestCase):
    """A leader that is played, and a follower."""

    config = UNFLUSHED
    broker_epoch = 17

    def setUp(self) -> None:
        self.clock = Clock()
        self.disk = MemoryDisk()
        self.manager = a_manager(self.disk, clock=self.clock)
        self.successResultOf(self.manager.open())
        self.leader = FakeLeader(self.clock)
        self.fetcher = ReplicaFetcherManager(
            FOLLOWER,
            lambda: self.broker_epoch,
            self.manager,
            self.leader.channel_for,
            Timers(self.clock),
            lambda: self.settings,
        )
        self.settings = ReplicaFetchSettings()
        self.fetcher.startService()
        self.addCleanup(lambda: self.successResultOf(self.fetcher.stopService()))

    def lead(self, partition: int = 0, epoch: int = 0) -> Led:
        return self.leader.lead(TopicPartition("t", partition), TOPIC, epoch)

    def replica(self, partition: int = 0, **config: Any) -> Replica:
        name = TopicPartition("t", partition)
        log = self.successResultOf(self.manager.create(name, TOPIC, evolve(self.config, **config)))
        return Replica(Partition(name, FOLLOWER, high_watermark=log.high_watermark), TOPIC, log)

    def follow(self, replica: Replica, epoch: int = 0, unclean: int = -1) -> None:
        role = LeaderAndIsr(LEADER, epoch, (LEADER, FOLLOWER), unclean_epoch=unclean)
        self.successResultOf(self.fetcher.unfollow(replica.topic_partition))
        replica.take_role(role, (LEADER, FOLLOWER))
        self.fetcher.follow(replica, LEADER)

    def same(self, replica: Replica, led: Led) -> None:
        """Both logs have the same bytes."""
        end = led.log.log_end_offset
        self.assertEqual(replica.log.log_end_offset, end)
        if end > led.log.log_start_offset:
            start = max(led.log.log_start_offset, replica.log.log_start_offset)
            self.assertEqual(data_of(replica.log.read(start, 1 << 20).data), data_of(led.log.read(start, 1 << 20).data))
        self.assertEqual(list(replica.log.epochs), list(led.log.epochs))

    def position(self, partition: int = 0) -> int:
        return self.leader.positions[TOPIC.bytes, partition]


class FetchTests(FetcherCase):
    """As long as all goes well."""

    def test_fetches_existing_and_new_records(self) -> None:
        """
        The fetcher gets the records that are there, then those that are appended; its next fetch acknowledges them.
        """
        led, replica = self.lead(), self.replica()
        self.leader.append(led, b"a", b"b")
        self.follow(replica)
        self.same(replica, led)
        self.assertEqual(self.position(), 2)
        self.leader.append(led, b"c")
        self.same(replica, led)
        self.assertEqual(self.position(), 3)
        request = self.leader.requests[-1]
        self.assertEqual(request.replica_state, ReplicaState(replica_id=FOLLOWER, replica_epoch=17))
        asked = request.topics[0].partitions[0]
        self.assertEqual((asked.current_leader_epoch, asked.last_fetched_epoch), (0, 0))
        self.assertEqual((self.fetcher.counters.records, self.fetcher.counters.failed_fetches), (3, 0))

    def test_few_busy_partitions_give_more_at_a_time(self) -> None:
        """A partition's share of an answer is larger the fewer are busy, up to four times the setting."""
        self.settings = ReplicaFetchSettings(max_bytes=1000, response_max_bytes=6000)

        led = [self.lead(n) for n in range(8)]
        self.follow(self.replica(0))
        self.assertEqual(shares_of(self.leader.requests[-1]), [4000])
        for n in range(1, 8):
            self.follow(self.replica(n))
        self.clock.pump([0.1] * 10)
        self.assertIn([1000] * 7, [shares_of(request) for request in self.leader.requests])
        for one in led[:2]:
            append_as_leader(one.log, batch(b"a"), one.epoch)
        self.leader.answer()
        self.assertEqual(shares_of(self.leader.requests[-1]), [3000, 3000])

    def test_the_high_watermark(self) -> None:
        """It is the leader's, but never beyond our own end, and never goes back."""
        led, replica = self.lead(), self.replica()
        self.leader.append(led, b"a", b"b")
        self.leader.commit(led)
        led.committed = 5
        self.follow(replica)
        self.assertEqual(replica.high_watermark, 2)
        led.committed = 1
        self.leader.append(led, b"c")
        self.assertEqual(replica.high_watermark, 2)

    def test_lag(self) -> None:
        """How many committed records are missing, before and after they came."""
        led, replica = self.lead(), self.replica()
        self.leader.append(led, b"a" * 100, b"b" * 100, b"c" * 100)
        self.leader.commit(led)
        self.leader.max_bytes = 1
        self.leader.led[TOPIC.bytes, 0].damage = lambda data: data[: next(iter_batches(data))[1].size] if data else b""
        self.follow(replica)
        followed = self.fetcher.find(TopicPartition("t", 0))
        assert followed is not None
        self.assertEqual((followed.lag, self.fetcher.max_lag), (0, 0))
        self.assertEqual(self.fetcher.counters.fetches, 3)

    def test_sessions(self) -> None:
        """The first fetch names all partitions, each later one those that changed, and forgets those given up."""
        for n in range(3):
            led = self.lead(n)
            self.follow(self.replica(n))
        self.clock.advance(1)
        self.leader.requests.clear()
        self.leader.append(led, b"a")
        self.assertEqual([p.partition for t in self.leader.requests[-1].topics for p in t.partitions], [2])
        self.successResultOf(self.fetcher.unfollow(TopicPartition("t", 1)))
        self.clock.advance(1)
        gone = [t.partitions for r in self.leader.requests for t in r.forgotten_topics_data]
        self.assertEqual(gone, [[1]])
        self.assertEqual({r.session_id for r in self.leader.requests}, {1})

    def test_lost_fetch_session(self) -> None:
        """If the leader has dropped the session, a full fetch follows at once."""
        led, replica = self.lead(), self.replica()
        self.follow(replica)
        self.leader.unknown_session = True
        self.clock.advance(0.5)
        self.leader.append(led, b"a")
        self.same(replica, led)
        self.assertEqual(self.leader.requests[-1].session_id, 2)

    def test_new_broker_epoch(self) -> None:
        """After a new registration the next fetch reports the offsets of all partitions, idle ones too."""
        for n in range(3):
            self.lead(n)
            self.follow(self.replica(n))
        self.clock.advance(1)
        self.leader.requests.clear()
        self.broker_epoch = 18
        self.clock.advance(1)
        named = [
            sorted(p.partition for t in request.topics for p in t.partitions)
            for request in self.leader.requests
            if request.replica_state.replica_epoch == 18
        ]
        self.assertEqual(named[0], [0, 1, 2])
        self.assertFalse(any(named[1:]), named)

    def test_the_leaders_start(self) -> None:
        """What the leader gave up at its front is given up here; a log that ends before it begins anew there."""
        led, replica = self.lead(), self.replica()
        self.leader.append(led, *[b"x"] * 5)
        self.follow(replica)
        led.log.advance_start(3)
        self.clock.advance(0.5)
        self.leader.append(led, b"y")
        self.assertEqual(replica.log.log_start_offset, 3)
        other, late = self.lead(1), self.replica(1)
        self.leader.append(other, *[b"x"] * 5)
        other.log.advance_start(4)
        other.committed = 5
        self.follow(late)
        self.clock.advance(1)
        self.assertEqual((late.log.log_start_offset, late.log.log_end_offset, late.high_watermark), (4, 5, 5))

    def test_the_leaders_start_is_within_a_batch(self) -> None:
        """A new follower's log begins with that batch, and its start lies within it, as the leader's does."""
        led, replica = self.lead(), self.replica()
        for values in ((b"a", b"b"), (b"c", b"d", b"e"), (b"f",)):
            append_as_leader(led.log, batch(*values), 0)
        led.log.advance_start(3)
        self.leader.commit(led)
        self.follow(replica)
        self.clock.advance(0.2)
        self.assertEqual((replica.log.log_start_offset, replica.high_watermark), (3, 6))
        self.same(replica, led)
        self.leader.append(led, b"g")
        self.same(replica, led)

    def test_no_partitions_left(self) -> None:
        """The loop ends, and the leader's session with it; a stop ends all."""
        self.lead()
        self.follow(self.replica())
        self.clock.advance(1)
        self.successResultOf(self.fetcher.unfollow(TopicPartition("t", 0)))
        self.assertEqual(self.leader.requests[-1].session_epoch, -1)
        self.follow(self.replica())
        count = len(self.leader.requests)
        self.successResultOf(self.fetcher.stopService())
        self.clock.advance(10)
        self.assertEqual((len(self.fetcher), len(self.leader.requests)), (0, count))


class FailureTests(FetcherCase):
    """As soon as something goes wrong."""

    def test_unreachable_leader(self) -> None:
        """An unreachable leader is tried at most as often as configured, and found when it is back."""
        led, replica = self.lead(), self.replica()
        self.leader.down = True
        self.follow(replica)
        for _ in range(100):
            self.clock.advance(0.1)
        self.assertLess(self.fetcher.counters.failed_fetches, 20)
        self.assertEqual(self.fetcher.failing(), {LEADER: "nobody there"})
        self.leader.down = False
        self.leader.append(led, b"a")
        self.clock.advance(1)
        self.same(replica, led)
        self.assertEqual(self.fetcher.failing(), {})

    def test_a_connection_breaks(self) -> None:
        """The next fetch begins a new session."""
        led, replica = self.lead(), self.replica()
        self.follow(replica)
        self.leader.hang_up()
        self.leader.append(led, b"a")
        self.clock.advance(0.1)
        self.same(replica, led)

    def test_failing_partition(self) -> None:
        """A failing partition is left out for a while; the others go on."""
        bad, good = self.lead(0), self.lead(1)
        first, second = self.replica(0), self.replica(1)
        bad.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self.leader.append(bad, b"a")
        self.follow(first)
        self.follow(second)
        self.clock.advance(0.5)
        self.leader.append(good, b"b")
        self.same(second, good)
        bad.error = None
        self.clock.advance(1)
        self.clock.advance(1)
        self.same(first, bad)
        self.assertGreater(self.fetcher.counters.failed_partitions, 0)

    def test_leader_without_its_role(self) -> None:
        """
        Brokers get updates at different times: a leader that does not know its role yet is logged once, if that
        lasts.
        """
        led = self.lead()
        self.leader.append(led, b"a")
        led.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        replica = self.replica()
        with capturedLogs() as events:
            self.follow(replica)
            self.clock.advance(0.05)
            self.assertEqual([event for event in events if event["log_level"] is LogLevel.warn], [])
            for _ in range(100):
                self.clock.advance(0.1)
        said = [event["problem"] for event in events if event["log_level"] is LogLevel.warn]
        self.assertEqual(said, ["it answers UNKNOWN_TOPIC_OR_PARTITION"])
        led.error = None
        for _ in range(30):
            self.clock.advance(0.1)
        self.same(replica, led)

    def test_different_epochs(self) -> None:
        """A fetcher waits for a leader that does not know its new epoch yet, and goes on when it does."""
        led, replica = self.lead(epoch=3), self.replica()
        self.leader.append(led, b"a")
        self.follow(replica, epoch=4)
        self.clock.advance(0.2)
        self.assertEqual(replica.log.log_end_offset, 0)
        led.epoch = 4
        led.log.become_leader(4)
        self.clock.advance(1)
        self.same(replica, led)

    def test_corrupt_batches(self) -> None:
        """A flipped bit anywhere in a batch is never appended; it is counted, and asked for again."""
        led, replica = self.lead(), self.replica()
        self.follow(replica)
        size = len(batch(b"damaged"))

        def flip(bit: int, data: bytes) -> bytes:
            found = bytearray(data)
            found[bit // 8] ^= 1 << bit % 8
            return bytes(found)

        before = 0
        for bit in range(8 * size):
            led.damage = lambda data, bit=bit: flip(bit, data) if data else data  # type: ignore[misc]
            self.leader.append(led, b"damaged")
            self.assertEqual(replica.log.log_end_offset, before, f"bit {bit}")
            self.assertGreater(self.fetcher.counters.corrupt_batches, 0)
            led.damage = lambda data: data
            self.clock.advance(1)
            self.clock.advance(1)
            self.same(replica, led)
            before = replica.log.log_end_offset

    def test_the_disk_fails(self) -> None:
        """The partitions of that directory are not fetched any more; the loop lives."""
        led, replica = self.lead(), self.replica()
        self.follow(replica)
        self.disk.faults = lambda op, path: broken() if op == "write" else None
        self.leader.append(led, b"a")
        self.clock.advance(5)
        self.assertEqual(self.manager.offline_directories, ["/memory"])
        self.assertEqual(self.fetcher.counters.records, 0)


class TruncationTests(FetcherCase):
    """Logs that part from the leader's."""

    def diverged(self, committed: int = 2) -> tuple[Led, Replica]:
        """Two records of epoch 0 in common, then two of epoch 1 that only the follower has, one of 2 that it lacks."""
        led, replica = self.lead(epoch=0), self.replica()
        self.leader.append(led, b"a", b"b")
        self.follow(replica)
        append_as_leader(replica.log, batch(b"lost"), 1)
        append_as_leader(replica.log, batch(b"lost, too"), 1)
        replica.partition.high_watermark = committed
        led.epoch = 2
        led.log.become_leader(2)
        self.leader.append(led, b"c")
        return led, replica

    def test_divergent_records_are_truncated(self) -> None:
        """The follower's log is truncated where it differs from the leader's, and continues from there."""
        led, replica = self.diverged()
        self.follow(replica, epoch=2)
        self.clock.advance(1)
        self.same(replica, led)
        self.assertEqual((self.fetcher.counters.truncations, self.fetcher.counters.committed_cut), (1, 0))

    def test_committed_records_are_not_cut(self) -> None:
        """The log stays as it is, that is logged and counted, and other partitions go on."""
        _, replica = self.diverged(committed=3)
        self.follow(replica, epoch=2)
        other, second = self.lead(1), self.replica(1)
        self.follow(second)
        self.clock.advance(1)
        self.leader.append(other, b"x")
        self.same(second, other)
        self.assertEqual((replica.log.log_end_offset, self.fetcher.counters.truncations), (4, 0))
        self.assertGreater(self.fetcher.counters.refused_truncations, 0)

    def test_responses_for_a_changed_log_are_ignored(self) -> None:
        """
        What a leader says of a log that was written or cut since does not count, be it records or where the two part;
        the partition is asked for again as it is now.
        """
        led, replica = self.lead(), self.replica()
        self.follow(replica)
        self.clock.advance(0.1)
        append_as_leader(replica.log, batch(b"mine"), 0)
        self.leader.append(led, b"a")
        self.assertEqual(data_of(replica.log.read(0, 1 << 20).data), batch(b"mine", leader_epoch=0))
        self.clock.advance(0.1)
        self.assertEqual(self.position(), 1)
        self.assertEqual((self.fetcher.counters.truncations, self.fetcher.counters.failed_partitions), (0, 0))

    def test_after_an_unclean_election(self) -> None:
        """What the partition gave up goes here, too, and is counted."""
        led, replica = self.diverged(committed=3)
        self.follow(replica, epoch=2, unclean=2)
        self.clock.advance(1)
        self.same(replica, led)
        self.assertEqual((self.fetcher.counters.truncations, self.fetcher.counters.committed_cut), (1, 1))
        self.assertEqual(replica.high_watermark, 2)

    def test_a_leader_with_an_empty_log(self) -> None:
        """A follower whose records nobody else has, none of them committed, begins anew."""
        led, replica = self.lead(epoch=5), self.replica()
        append_as_leader(replica.log, batch(b"lost"), 4)
        self.follow(replica, epoch=5)
        self.clock.advance(1)
        self.leader.append(led, b"a")
        self.same(replica, led)

    def test_cuts_that_fail(self) -> None:
        """Where a log cannot be cut, its repair ends there; of one that is to begin anew there is nothing to repair."""

        def fails(*_: object) -> Deferred[None]:
            return fail(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "it cannot be read"))

        for method in ("truncate", "restart"):
            self.patch(LogTruncator, method, fails)
        _, replica = self.diverged()
        self.follow(replica, epoch=2)
        self.assertEqual(replica.diverges, (2, 2))
        led, anew = self.lead(1, epoch=5), self.replica(1)
        append_as_leader(anew.log, batch(b"lost"), 4)
        self.follow(anew, epoch=5)
        self.assertEqual((anew.log.log_end_offset, led.log.log_end_offset), (1, 0))
        self.assertIsNone(anew.diverges)

    def test_a_new_role_waits_for_the_truncation(self) -> None:
        """The log is cut before anybody else may write to it; meanwhile other partitions go on."""
        _, replica = self.diverged()
        self.disk.held.add(IOPool.SYNC)
        self.follow(replica, epoch=2)
        other, second = self.lead(1), self.replica(1)
        self.follow(second)
        self.leader.append(other, b"x")
        self.clock.advance(0.1)
        self.assertEqual(second.log.log_end_offset, 1)
        ended = self.fetcher.unfollow(replica.topic_partition)
        self.assertNoResult(ended)
        self.disk.release(IOPool.SYNC)
        self.successResultOf(ended)
        self.assertEqual(replica.log.log_end_offset, 2)
        self.disk.held.clear()


class FlushTests(FetcherCase):
    """Topics that are flushed before they are acknowledged."""

    config = TopicConfig(flush_before_ack=True)

    def test_only_synced_records_are_acknowledged(self) -> None:
        """The next fetch of a partition waits for its sync."""
        led, replica = self.lead(), self.replica()
        self.follow(replica)
        self.disk.held.add(IOPool.SYNC)
        self.leader.append(led, b"a")
        self.assertEqual((replica.log.log_end_offset, self.position()), (1, 0))
        self.clock.advance(1)
        self.assertEqual(self.position(), 0)
        self.disk.release(IOPool.SYNC)
        self.clock.advance(0)
        self.assertEqual(self.position(), 1)
        self.disk.held.clear()

    def test_unsynced_records_of_the_past(self) -> None:
        """Records from before the role was taken are synced before the first fetch, which would acknowledge them."""
        led, replica = self.lead(), self.replica()
        self.leader.append(led, b"a")
        append_as_follower(replica.log, data_of(led.log.read(0, 100).data))
        self.disk.held.add(IOPool.SYNC)
        self.follow(replica)
        self.clock.advance(1)
        self.assertEqual(self.leader.requests, [])
        self.disk.release(IOPool.SYNC)
        self.assertEqual(self.position(), 1)
        self.disk.held.clear()

    def test_fetches_after_syncs_are_combined(self) -> None:
        """Partitions synced at about the same time are acknowledged by one fetch; a slow one does not delay others."""
        leds = [self.lead(n) for n in range(3)]
        for n in range(3):
            self.follow(self.replica(n))
        self.clock.advance(1)
        self.leader.requests.clear()
        self.disk.held.add(IOPool.SYNC)
        for led in leds:
            append_as_leader(led.log, batch(b"a"), 0)
        self.leader.answer()
        self.assertEqual(self.leader.requests, [])
        self.disk.release(IOPool.SYNC, 2)
        self.assertEqual(self.leader.requests, [])
        self.clock.advance(0.02)
        self.assertEqual([self.position(n) for n in range(3)], [1, 1, 0])
        self.assertEqual(len(self.leader.requests), 1)
        self.assertLessEqual(self.leader.requests[0].max_wait_ms, 20)
        self.disk.release(IOPool.SYNC)
        self.clock.advance(0.02)
        self.assertEqual(self.position(2), 1)
        self.disk.held.clear()
