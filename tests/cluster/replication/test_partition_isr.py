"""The leader's state of its followers: in-sync replicas and high watermark."""

from __future__ import annotations

from attrs import define, evolve, field
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.replication.partition import Partition
from logbus.errors import ApiError, ErrorCode
from logbus.model import IsrChange, LeaderAndIsr, TopicPartition

NAME = TopicPartition("orders", 3)
LAG = 30.0


def leader(
    isr: tuple[int, ...] = (1, 2, 3),
    end: int = 0,
    least: int = 1,
    epoch: int = 5,
    replicas: tuple[int, ...] = (1, 2, 3),
) -> Partition:
    """Broker 1 leads; brokers 2 and 3 have replicas."""
    partition = Partition(NAME, 1, min_insync_replicas=least)
    partition.take_role(LeaderAndIsr(1, 5, isr, version=1), end, replicas, 0.0)
    return partition


def fetch(partition: Partition, broker: int, offset: int, now: float = 0.0) -> bool:
    return fetch_as(partition, broker, offset, 0, now)


def fetch_as(partition: Partition, broker: int, offset: int, broker_epoch: int, now: float = 0.0) -> bool:
    follower = partition.follower(broker, partition.leader_epoch, broker_epoch)
    return partition.fetched(follower, offset, 0, now, LAG)


def grant(partition: Partition, change: IsrChange, now: float = 0.0) -> bool:
    state = evolve(partition.leader_and_isr, isr=change.isr, version=change.version + 1)
    return partition.granted(change, state, now)


def wished(partition: Partition, now: float = 0.0) -> tuple[int, ...] | None:
    change = partition.prepare_isr_change(now, LAG)
    return None if change is None else change.isr


class HighWatermarkTests(SynchronousTestCase):
    """The high watermark, by the in-sync replicas and ``min.insync.replicas``."""

    def test_follows_the_slowest_in_sync_replica(self) -> None:
        """The high watermark is the lowest end of the in-sync replicas."""
        partition = leader()
        self.assertFalse(partition.log_grew(10))
        self.assertFalse(fetch(partition, 2, 10))
        self.assertTrue(fetch(partition, 3, 4))
        self.assertEqual(partition.high_watermark, 4)
        self.assertTrue(fetch(partition, 3, 10))
        self.assertEqual(partition.high_watermark, 10)

    def test_ignores_replicas_out_of_sync(self) -> None:
        """A replica outside of the ISR does not hold the high watermark back."""
        partition = leader(isr=(1, 2))
        partition.log_grew(10)
        fetch(partition, 3, 2, now=1000.0)
        self.assertTrue(fetch(partition, 2, 10, now=1000.0))
        self.assertEqual(partition.high_watermark, 10)

    def test_fetches_of_a_former_epoch_do_not_count(self) -> None:
        """A leader that is elected anew hears from everybody again before it commits anything."""
        partition = leader(isr=(1, 2), replicas=(1, 2))
        partition.log_grew(10)
        fetch(partition, 2, 10)
        partition.take_role(LeaderAndIsr(1, 6, (1, 2), version=2), 10, (1, 2), 0.0)
        self.assertFalse(partition.log_grew(12))
        self.assertEqual(partition.high_watermark, 10)
        self.assertTrue(fetch(partition, 2, 12))
        self.assertEqual(partition.high_watermark, 12)

    def test_moves_only_past_the_start_of_the_epoch(self) -> None:
        """What former leaders wrote is committed together with the first that this one did, or all of it."""
        partition = leader(isr=(1, 2), end=10)
        self.assertFalse(fetch(partition, 2, 7))
        self.assertEqual(partition.high_watermark, 0)
        self.assertTrue(fetch(partition, 2, 10))
        self.assertEqual(partition.high_watermark, 10)

    def test_stays_below_min_insync_replicas(self) -> None:
        """With fewer in sync than min.insync.replicas nothing is committed."""
        partition = leader(isr=(1,), least=2)
        self.assertFalse(partition.log_grew(10))
        error = self.assertRaises(ApiError, partition.check_enough_replicas)
        self.assertEqual(error.code, ErrorCode.NOT_ENOUGH_REPLICAS)
        fetch(partition, 2, 10)
        self.assertEqual(partition.high_watermark, 0)
        change = partition.prepare_isr_change(0.0, LAG)
        assert change is not None
        self.assertTrue(grant(partition, change))
        self.assertEqual(partition.high_watermark, 10)
        partition.check_enough_replicas()

    def test_stays_while_an_eligible_replica_exists(self) -> None:
        """He may lead without what is written now, whatever minimum the leader has heard of."""
        partition = Partition(NAME, 1, min_insync_replicas=1)
        partition.take_role(LeaderAndIsr(1, 5, (1,), version=1, eligible=(2,)), 0, (1, 2), 0.0)
        self.assertFalse(partition.log_grew(10))
        error = self.assertRaises(ApiError, partition.check_enough_replicas)
        self.assertEqual(error.code, ErrorCode.NOT_ENOUGH_REPLICAS)
        self.assertIn("[2] may still lead", error.message)
        partition.take_role(LeaderAndIsr(1, 5, (1,), version=2), 10, (1, 2), 0.0)
        self.assertEqual(partition.high_watermark, 10)

    def test_known_after_fetches_of_all_in_sync_replicas(self) -> None:
        """
        What a new leader was told as a follower is not what those in sync now have. That it is known ends with the
        epoch.
        """
        partition = Partition(NAME, 1, high_watermark=10)
        partition.take_role(LeaderAndIsr(1, 5, (1, 2, 3), version=1), 10, (1, 2, 3), 0.0)
        self.assertEqual((partition.high_watermark, partition.is_established), (10, False))
        fetch(partition, 2, 10)
        fetch(partition, 3, 9)
        self.assertFalse(partition.is_established)
        fetch(partition, 3, 10)
        self.assertTrue(partition.is_established)
        partition.take_role(LeaderAndIsr(1, 6, (1, 2, 3), version=2), 10, (1, 2, 3), 0.0)
        self.assertFalse(partition.is_established)
        partition.take_role(LeaderAndIsr(1, 6, (1,), version=3), 10, (1, 2, 3), 0.0)
        self.assertTrue(partition.is_established)
        partition.take_role(LeaderAndIsr(2, 7, (1, 2), version=4), 10, (1, 2, 3), 0.0)
        self.assertFalse(partition.is_established)

    def test_leaders_unsynced_records_do_not_count(self) -> None:
        """With flush.before.ack the leader's own log counts as the others' do: as far as it is on stable storage."""
        partition = leader(isr=(1, 2))
        partition.synced_end_offset = 4
        partition.log_grew(10)
        self.assertTrue(fetch(partition, 2, 10))
        self.assertEqual((partition.high_watermark, partition.others_end_offset), (4, 10))
        partition.synced_end_offset = 10
        self.assertTrue(partition.advance())
        self.assertEqual(partition.high_watermark, 10)

    def test_restarted_replica_needs_the_controllers_word(self) -> None:
        """
        The controller takes a broker that lost something out of the ISR. A leader that cannot hear of it must not count
        it for the minimum, or it commits what only it itself has.
        """
        partition = leader(isr=(1, 2), least=2)
        fetch_as(partition, 2, 0, 7)
        partition.log_grew(10)
        self.assertFalse(fetch_as(partition, 2, 10, 9))
        self.assertRaises(ApiError, partition.check_enough_replicas)
        change = partition.prepare_isr_change(0.0, LAG)
        assert change is not None
        self.assertEqual(change.isr, (1, 2))
        self.assertTrue(partition.isr_change.needs_confirmation)
        partition.refused(change)
        self.assertEqual(partition.high_watermark, 0)
        change = partition.prepare_isr_change(0.0, LAG)
        assert change is not None
        self.assertTrue(grant(partition, change))
        self.assertEqual(partition.high_watermark, 10)
        self.assertIsNone(partition.prepare_isr_change(0.0, LAG))

    def test_the_announcement_is_quicker_than_the_answer(self) -> None:
        """As on the controller's own broker: the answer confirms who came back all the same."""
        partition = leader(isr=(1, 2), least=2)
        fetch_as(partition, 2, 0, 7)
        partition.log_grew(10)
        fetch_as(partition, 2, 10, 9)
        change = partition.prepare_isr_change(0.0, LAG)
        assert change is not None
        stored = evolve(partition.leader_and_isr, version=change.version + 1)
        partition.take_role(stored, 10, partition.replicas, 0.0)
        self.assertTrue(partition.isr_change.needs_confirmation)
        self.assertTrue(partition.granted(change, stored, 0.0))
        self.assertEqual(partition.high_watermark, 10)
        self.assertIsNone(partition.prepare_isr_change(0.0, LAG))

    def test_replica_restarted_during_a_request(self) -> None:
        """A grant says nothing of a life that began after it was asked for; nor does what is announced."""
        partition = leader(isr=(1, 2), least=2)
        fetch_as(partition, 2, 0, 7)
        fetch_as(partition, 2, 0, 9)
        change = partition.prepare_isr_change(0.0, LAG)
        assert change is not None
        fetch_as(partition, 2, 0, 11)
        grant(partition, change)
        self.assertTrue(partition.isr_change.needs_confirmation)
        state = partition.leader_and_isr
        partition.take_role(evolve(state, version=state.version + 1), 0, partition.replicas, 0.0)
        self.assertTrue(partition.isr_change.needs_confirmation)

    def test_fewer_replicas_than_demanded(self) -> None:
        """A partition of one replica is not held to two."""
        partition = leader(isr=(1,), least=2, replicas=(1,))
        self.assertTrue(partition.log_grew(10))
        partition.check_enough_replicas()

    def test_lower_minimum_commits(self) -> None:
        """When the topic demands fewer in sync, what waited for them is committed."""
        partition = leader(isr=(1,), least=2)
        partition.log_grew(10)
        self.assertTrue(partition.configure(1))
        self.assertEqual(partition.high_watermark, 10)

    def test_a_replica_about_to_join_is_waited_for(self) -> None:
        """Else a leader under load would run from it for ever; one that stops fetching is not waited for long."""
        partition = leader(isr=(1,))
        partition.log_grew(10)
        fetch(partition, 2, 10, now=5.0)
        self.assertFalse(partition.log_grew(12))
        self.assertFalse(partition.check_lag(30.0, LAG))
        self.assertTrue(partition.check_lag(36.0, LAG))
        self.assertEqual(partition.high_watermark, 12)

    def test_replica_of_a_dead_broker_is_not_added(self) -> None:
        """A replica about to join whose broker ends is forgotten at once."""
        partition = leader(isr=(1,))
        partition.log_grew(10)
        fetch(partition, 2, 10)
        partition.log_grew(12)
        self.assertTrue(partition.brokers_lost([2]))
        self.assertEqual((partition.high_watermark, wished(partition)), (12, None))


class ExpansionTests(SynchronousTestCase):
    """Replicas that join the ISR."""

    def test_caught_up_replica_is_added(self) -> None:
        """A replica is added when it has reached the high watermark; the leader's log may be longer."""
        partition = leader(isr=(1, 2), end=0)
        partition.log_grew(10)
        fetch(partition, 2, 6)
        fetch(partition, 3, 5)
        self.assertIsNone(wished(partition))
        fetch(partition, 3, 6)
        self.assertEqual(wished(partition), (1, 2, 3))

    def test_caught_up_to_the_start_of_the_epoch(self) -> None:
        """The high watermark of a new leader may be old: who only has that may lack what is committed."""
        partition = leader(isr=(1, 2), end=10)
        fetch(partition, 3, 9)
        self.assertIsNone(wished(partition))
        fetch(partition, 3, 10)
        self.assertEqual(wished(partition), (1, 2, 3))

    def test_requested_replica_counts_before_the_response(self) -> None:
        """The controller may have granted it already."""
        partition = leader(isr=(1, 2))
        partition.log_grew(10)
        fetch(partition, 3, 0)
        change = partition.prepare_isr_change(1000.0, 1.0)
        assert change is not None
        self.assertEqual(partition.maximal_isr, {1, 2, 3})
        self.assertFalse(fetch(partition, 2, 10, now=1000.0))
        self.assertEqual(partition.high_watermark, 0)

    def test_offsets_of_a_former_incarnation_do_not_count(self) -> None:
        """
        A follower that comes back may have less: it joins by what it fetches now, in a life that the controller is
        told. Until it has fetched nothing is committed without it, if it is in sync.
        """
        partition = leader(isr=(1, 2))
        partition.log_grew(10)
        fetch(partition, 2, 8)
        fetch(partition, 3, 8)
        again = partition.follower(3, 5, 7)
        self.assertEqual((again.log_end_offset, again.is_ready), (-1, False))
        self.assertIsNone(wished(partition))
        self.assertEqual(self.assertRaises(ApiError, partition.follower, 3, 5, 6).code, ErrorCode.STALE_BROKER_EPOCH)
        partition.fetched(again, 8, 0, 0.0, LAG)
        change = partition.prepare_isr_change(0.0, LAG)
        assert change is not None
        self.assertEqual((change.isr, change.epochs), ((1, 2, 3), (-1, 0, 7)))
        self.assertEqual([change.epoch_of(n) for n in (1, 2, 3, 4)], [-1, 0, 7, -1])
        partition.follower(2, 5, 9)
        self.assertFalse(fetch_as(partition, 3, 10, 7))
        self.assertEqual(partition.high_watermark, 8)
        self.assertTrue(fetch_as(partition, 2, 10, 9))
        self.assertEqual(partition.high_watermark, 10)

    def test_refused_replica_does_not_count(self) -> None:
        """A replica whose addition was refused is not waited for any more, once it lags."""
        partition = leader(isr=(1,), end=0)
        fetch(partition, 2, 0)
        change = partition.prepare_isr_change(0.0, LAG)
        assert change is not None
        partition.log_grew(10)
        partition.check_lag(100.0, LAG)
        self.assertEqual(partition.high_watermark, 0)
        self.assertTrue(partition.refused(change))
        self.assertEqual(partition.high_watermark, 10)

    def test_no_answer_does_not(self) -> None:
        """It stays counted until the store is known to say otherwise; what is asked next makes the first wish void."""
        partition = leader(isr=(1,), end=0)
        fetch(partition, 2, 0)
        change = partition.prepare_isr_change(0.0, LAG)
        assert change is not None
        partition.unanswered(change)
        partition.log_grew(10)
        partition.brokers_lost([2])
        self.assertEqual((partition.high_watermark, partition.maximal_isr), (0, {1, 2}))
        again = partition.prepare_isr_change(1.0, LAG)
        assert again is not None
        self.assertEqual((again.isr, again.version), ((1,), change.version))
        self.assertTrue(grant(partition, again))
        self.assertEqual((partition.high_watermark, partition.maximal_isr), (10, {1}))

    def test_an_announcement_answers_too(self) -> None:
        """A state of a later version shows that the wish was granted, or never will be."""
        for isr in ((1, 2), (1, 3)):
            partition = leader(isr=(1,), end=0)
            fetch(partition, 2, 0)
            change = partition.prepare_isr_change(0.0, LAG)
            assert change is not None
            partition.unanswered(change)
            partition.take_role(LeaderAndIsr(1, 5, isr, version=2), 0, (1, 2, 3), 0.0)
            self.assertEqual(partition.maximal_isr, set(isr))
            self.assertFalse(partition.refused(change))

    def test_stale_partition_epoch(self) -> None:
        """An update that a response has overtaken does not undo it."""
        partition = leader(isr=(1, 2))
        partition.take_role(LeaderAndIsr(1, 5, (1, 2, 3), version=3), 0, (1, 2, 3), 0.0)
        self.assertFalse(partition.take_role(LeaderAndIsr(1, 5, (1,), version=2), 0, (1, 2, 3), 0.0))
        self.assertEqual(partition.leader_and_isr.isr, (1, 2, 3))

    def test_one_request_at_a_time(self) -> None:
        """The next request builds on the response."""
        partition = leader(isr=(1,))
        fetch(partition, 2, 0)
        self.assertEqual(wished(partition), (1, 2))
        fetch(partition, 3, 0)
        self.assertIsNone(wished(partition))


class ShrinkingTests(SynchronousTestCase):
    """Replicas that leave the ISR."""

    def test_replica_without_fetches_is_removed(self) -> None:
        """It is removed after replica.lag.time.max.ms; the records that the others have are committed."""
        partition = leader()
        partition.log_grew(10)
        fetch(partition, 2, 10, now=29.0)
        self.assertIsNone(wished(partition, now=30.0))
        change = partition.prepare_isr_change(30.1, LAG)
        assert change is not None
        self.assertEqual(change.isr, (1, 2))
        self.assertEqual(partition.high_watermark, 0)
        self.assertTrue(grant(partition, change, now=30.1))
        self.assertEqual(partition.high_watermark, 10)
        self.assertIsNone(wished(partition, now=31.0))

    def test_slow_replica_is_removed(self) -> None:
        """A replica that fetches is removed, too, if it does not reach the former end of the log."""
        partition = leader(isr=(1, 2))
        for second in range(40):
            partition.log_grew(10 * second + 10)
            fetch(partition, 2, second, now=float(second))
        self.assertEqual(wished(partition, now=40.0), (1,))

    def test_steady_replica_stays(self) -> None:
        """A replica that reaches the former end of a growing log stays."""
        partition = leader(isr=(1, 2))
        for second in range(100):
            fetch(partition, 2, max(0, 10 * second - 10), now=float(second))
            partition.log_grew(10 * second + 10)
        self.assertIsNone(wished(partition, now=100.0))

    def test_idle_replica_stays(self) -> None:
        """A caught-up replica need not fetch; after the next record it has the full time to do so."""
        partition = leader(isr=(1, 2))
        partition.log_grew(10)
        fetch(partition, 2, 10)
        for second in range(15, 3000, 15):
            partition.check_lag(float(second), LAG)
        self.assertIsNone(wished(partition, now=3000.0))
        partition.log_grew(11)
        self.assertIsNone(wished(partition, now=3001.0))
        self.assertEqual(wished(partition, now=3030.0), (1,))


@define
class _World:
    """
    A leader, its followers, and a metadata store behind an unreliable controller, which takes requests at any time.

    What it knows by itself is held against the partition after each step.
    """

    partition: Partition
    stored: LeaderAndIsr
    least: int
    end: int = 0
    now: float = 0.0
    positions: dict[int, int] = field(factory=dict)
    under_way: list[IsrChange] = field(factory=list)

    def step(self, op: str, broker: int, amount: int) -> None:
        partition, pending = self.partition, self.partition.isr_change.pending
        if op == "append":
            self.end += amount
            partition.log_grew(self.end)
        elif op == "fetch" and broker != 1:
            self.positions[broker] = min(self.end, self.positions.get(broker, 0) + amount)
            follower = partition.follower(broker, partition.leader_epoch, 0)
            partition.fetched(follower, self.positions[broker], 0, self.now, LAG)
        elif op == "wait":
            self.now += amount
            partition.check_lag(self.now, LAG)
        elif op == "gone" and broker != 1:
            partition.brokers_lost([broker])
        elif op == "wish":
            self.prepare_isr_change()
        elif op == "store" and self.under_way:
            self.store(self.under_way.pop(amount % len(self.under_way)))
        elif op == "lose" and pending is not None:
            partition.unanswered(pending)
        elif op == "refuse" and pending in self.under_way and pending is not None:
            self.under_way.remove(pending)
            partition.refused(pending)
        elif op == "answer" and pending is not None and pending not in self.under_way:
            partition.granted(pending, self.stored, self.now)
        elif op == "announce":
            partition.take_role(self.stored, self.end, (1, 2, 3), self.now)
        elif op == "elect":
            epoch = self.stored.leader_epoch + 1
            self.stored = evolve(self.stored, leader_epoch=epoch, version=self.stored.version + 1)
            partition.take_role(self.stored, self.end, (1, 2, 3), self.now)
            self.positions.clear()

    def prepare_isr_change(self) -> None:
        change = self.partition.prepare_isr_change(self.now, LAG)
        if change is not None:
            held = self.partition.leader_and_isr.isr
            joined = [n for n in change.isr if n not in held]
            needed = max(self.partition.high_watermark, self.partition.epoch_start_offset)
            assert 1 in change.isr, "the leader left the in-sync replicas"
            assert all(self.positions.get(n, -1) >= needed for n in joined), "it joins without having what it must"
            self.under_way.append(change)

    def store(self, change: IsrChange) -> None:
        stored = self.stored
        if (change.leader_epoch, change.version) == (stored.leader_epoch, stored.version):
            self.stored = evolve(stored, isr=change.isr, version=stored.version + 1)


STEPS = ("append", "fetch", "fetch", "fetch", "wait", "gone", "wish", "store", "lose", "refuse", "answer", "announce")


class InvariantTests(SynchronousTestCase):
    """Whatever happens, in whatever order."""

    @given(
        st.sampled_from([1, 2, 3]),
        st.lists(st.tuples(st.sampled_from((*STEPS, "elect")), st.integers(1, 3), st.integers(0, 40)), max_size=60),
    )
    def test_high_watermark_invariants(self, least: int, steps: list[tuple[str, int, int]]) -> None:
        """The high watermark never falls, and never passes the end of a replica that the ISR in the store may name."""
        stored = LeaderAndIsr(1, 5, (1, 2, 3), version=1)
        partition = Partition(NAME, 1, min_insync_replicas=least)
        partition.take_role(stored, 0, (1, 2, 3), 0.0)
        world = _World(partition, stored, least)
        for step in steps:
            before = partition.high_watermark
            world.step(*step)
            after = partition.high_watermark
            self.assertGreaterEqual(after, before)
            self.assertLessEqual(after, world.end)
            self.assertLessEqual(set(world.stored.isr), set(partition.maximal_isr) | _unheard(world))
            if partition.is_established:
                for number in partition.maximal_isr - {1}:
                    self.assertGreaterEqual(world.positions.get(number, -1), after)
            if after != before:
                self.assertTrue(partition.is_established)
                self.assertGreaterEqual(len(partition.leader_and_isr.isr), least)
                self.assertGreaterEqual(after, partition.epoch_start_offset)
                for number in partition.maximal_isr - {1}:
                    self.assertGreaterEqual(world.positions.get(number, -1), after)


def _unheard(world: _World) -> frozenset[int]:
    """In sync by a state of a later epoch, of which the leader has not heard: that will hear of it when it writes."""
    return frozenset(world.stored.isr) if world.stored.leader_epoch > world.partition.leader_epoch else frozenset()
