"""Leader election: properties over all situations, and the examples one would tell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.controller.election import NO_LEADER, due_elections, first_leader, next_leader, preferred_leader
from logbus.cluster.controller.state import (
    ControllerState,
    PartitionPhase,
    PartitionRecord,
    ReplicaPhase,
    TopicRecord,
)
from logbus.cluster.metadata import BrokerImage
from logbus.errors import ApiError, ErrorCode
from logbus.model import LeaderAndIsr, TopicPartition, new_topic_id

assignments = st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True).map(tuple)
living = st.frozensets(st.integers(0, 5))


@st.composite
def situations(draw: st.DrawFn) -> tuple[tuple[int, ...], LeaderAndIsr, frozenset[int]]:
    """Replicas, a state that some history may have led to, and who lives."""
    replicas = draw(assignments)
    isr = tuple(draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True)))
    leader = draw(st.sampled_from([NO_LEADER, *isr]))
    state = LeaderAndIsr(leader, draw(st.integers(0, 9)), isr, draw(st.integers(0, 9)), draw(st.integers(0, 9)))
    return replicas, state, draw(living)


class ElectionTests(SynchronousTestCase):
    """Properties."""

    @given(assignments, living)
    def test_new_partitions(self, replicas: tuple[int, ...], alive: frozenset[int]) -> None:
        """The first living replica leads in epoch 0, and all living ones are in sync."""
        outcome = first_leader(replicas, alive.__contains__, 3).result
        expected = [one for one in replicas if one in alive]
        self.assertEqual(outcome.leader, expected[0] if expected else NO_LEADER)
        self.assertEqual(outcome.isr, tuple(expected) or replicas)
        self.assertEqual((outcome.leader_epoch, outcome.controller_epoch, outcome.version), (0, 3, 0))

    @given(situations(), st.booleans(), st.booleans())
    def test_every_election(
        self,
        situation: tuple[tuple[int, ...], LeaderAndIsr, frozenset[int]],
        renew: bool,
        unclean_allowed: bool,
    ) -> None:
        """
        Only living replicas lead; a clean leader was in sync; the ISR never grows but by an unclean election, which
        there is only where it is allowed and nobody else can lead; the epoch grows by one, and so does the version.
        """
        replicas, current, alive = situation
        outcome = next_leader(replicas, current, alive.__contains__, 10, renew=renew, unclean_allowed=unclean_allowed)
        could = [one for one in current.isr if one in alive]
        if outcome is None:
            leads = current.leader in could and not renew
            hopeless = current.leader == NO_LEADER and not could and not (unclean_allowed and alive & set(replicas))
            self.assertTrue(leads or hopeless)
            return
        result = outcome.result
        self.assertEqual(result.leader_epoch, current.leader_epoch + 1)
        self.assertEqual(result.version, current.version + 1)
        self.assertEqual(result.controller_epoch, 10)
        self.assertTrue(result.isr)
        if result.leader == NO_LEADER:
            self.assertEqual(result.isr, current.isr)
            self.assertEqual(could, [])
            return
        self.assertIn(result.leader, alive)
        self.assertIn(result.leader, result.isr)
        self.assertEqual(outcome.unclean, result.leader not in current.isr)
        if outcome.unclean:
            self.assertTrue(unclean_allowed)
            self.assertEqual(could, [])
            self.assertEqual(result.isr, (result.leader,))
        else:
            self.assertLessEqual(set(result.isr), set(current.isr) & alive)

    @given(situations())
    def test_elections_settle(self, situation: tuple[tuple[int, ...], LeaderAndIsr, frozenset[int]]) -> None:
        """After an election nothing is due until something happens."""
        replicas, current, alive = situation
        outcome = next_leader(replicas, current, alive.__contains__, 10)
        if outcome is not None:
            self.assertIsNone(next_leader(replicas, outcome.result, alive.__contains__, 10))

    def test_a_restarted_leader_stays(self) -> None:
        """It is elected anew, though another is first in the assignment."""
        outcome = next_leader((1, 2), LeaderAndIsr(2, 4, (1, 2)), {1, 2}.__contains__, 1, renew=True)
        assert outcome is not None
        self.assertEqual((outcome.result.leader, outcome.result.leader_epoch, outcome.result.isr), (2, 5, (1, 2)))

    def test_preferred(self) -> None:
        """The first replica takes over if it lives and is in sync; the ISR stays."""
        state = LeaderAndIsr(2, 4, (2, 1), 1, 7)
        result = preferred_leader((1, 2), state, {1, 2}.__contains__, 3).result
        self.assertEqual(result, LeaderAndIsr(1, 5, (2, 1), 3, 8))
        for replicas, alive, code in (
            ((2, 1), {1, 2}, ErrorCode.ELECTION_NOT_NEEDED),
            ((1, 2), {2}, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
            ((3, 2), {2, 3}, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        ):
            error = self.assertRaises(ApiError, preferred_leader, replicas, state, alive.__contains__, 3)
            self.assertEqual(error.code, code)


class StateTests(SynchronousTestCase):
    """Phases, and what is due."""

    def setUp(self) -> None:
        brokers = {number: BrokerImage(number, {}, None, 10) for number in (1, 2)}
        records = [
            PartitionRecord((1, 3)),
            PartitionRecord((1, 3), LeaderAndIsr(1, 0, (1, 3)), 11),
            PartitionRecord((3, 1), LeaderAndIsr(3, 0, (3, 1)), 5),
            PartitionRecord((2,), LeaderAndIsr(2, 0, (2,)), 5),
            PartitionRecord((3,), LeaderAndIsr(-1, 1, (3,)), 5),
        ]
        gone = TopicRecord("gone", new_topic_id(bytes(16)), [PartitionRecord((1,))], deleting=True)
        self.state = ControllerState(brokers, {"t": TopicRecord("t", new_topic_id(bytes(16)), records), "gone": gone})

    def test_phases(self) -> None:
        """They follow from the records."""
        names = [TopicPartition("t", number) for number in range(5)]
        new, on, off = PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE
        self.assertEqual([self.state.partition_phase(name) for name in names], [new, on, off, on, off])
        self.assertIs(self.state.partition_phase(TopicPartition("gone", 0)), PartitionPhase.DELETED)
        self.assertIs(self.state.replica_phase(1, names[1]), ReplicaPhase.ONLINE)
        self.assertIs(self.state.replica_phase(3, names[1]), ReplicaPhase.OFFLINE)
        self.state.failed[1] = {names[1]}
        self.assertIs(self.state.replica_phase(1, names[1]), ReplicaPhase.OFFLINE)
        self.assertIs(self.state.partition_phase(names[1]), off)
        self.assertIs(self.state.replica_phase(1, TopicPartition("gone", 0)), ReplicaPhase.DELETED)

    def test_due(self) -> None:
        """New ones, those whose leader died or restarted, and no others; topics under deletion are left alone."""
        outcomes = due_elections(self.state, self.state.partitions(), 7, lambda overrides: False)
        leaders = {name.partition: (one.result.leader, one.result.leader_epoch) for name, one in outcomes.items()}
        self.assertEqual(leaders, {0: (1, 0), 2: (1, 1), 3: (2, 1)})

    def test_unclean_by_topic(self) -> None:
        """The topic's overrides decide."""
        self.state.topics["t"].overrides = {"unclean": "yes"}
        self.state.topics["t"].partitions[4].replicas = (3, 1)
        outcomes = due_elections(self.state, self.state.partitions(), 7, lambda overrides: "unclean" in overrides)
        outcome = outcomes[TopicPartition("t", 4)]
        self.assertTrue(outcome.unclean)
        self.assertEqual((outcome.result.leader, outcome.result.isr), (1, (1,)))
