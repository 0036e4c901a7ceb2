"""Leader election: properties over all situations, and the examples one would tell."""

from __future__ import annotations

from collections.abc import Callable, Collection
from uuid import UUID

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.controller.election import (
    NO_LEADER,
    Situation,
    due_elections,
    first_leader,
    narrowed,
    next_leader,
    preferred_leader,
    unclean_leader,
)
from logbus.cluster.controller.rules import Standing, TopicRules
from logbus.cluster.controller.state import (
    ControllerState,
    PartitionPhase,
    PartitionRecord,
    ReplicaPhase,
    TopicRecord,
)
from logbus.cluster.images import BrokerImage
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.clusterznodes import Life
from logbus.model import LeaderAndIsr, TopicPartition, new_topic_id

UP, LEAVING, GONE = Standing.UP, Standing.LEAVING, Standing.GONE

assignments = st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True).map(tuple)
living = st.frozensets(st.integers(0, 5))


def among(up: Collection[int], leaving: Collection[int] = ()) -> Callable[[int], Standing]:
    """Who lives."""
    return lambda one: LEAVING if one in leaving else UP if one in up else GONE


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """Replicas, a state that some history may have led to, and who lives."""
    replicas = draw(assignments)
    rules = TopicRules(draw(st.booleans()), draw(st.integers(1, 4)))
    isr = tuple(draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True)))
    eligible: tuple[int, ...] = ()
    if len(isr) < rules.enough(len(replicas)):
        eligible = tuple(one for one in replicas if one not in isr and draw(st.booleans()))
    leader = draw(st.sampled_from([NO_LEADER, *isr]))
    current = LeaderAndIsr(
        leader, draw(st.integers(0, 9)), isr, draw(st.integers(0, 9)), draw(st.integers(0, 9)), eligible
    )
    standing = {one: draw(st.sampled_from(Standing)) for one in replicas}
    return Situation(replicas, current, standing.__getitem__, rules, 10)


class ElectionTests(SynchronousTestCase):
    """Properties."""

    @given(assignments, living)
    def test_new_partitions(self, replicas: tuple[int, ...], alive: frozenset[int]) -> None:
        """The first living replica leads in epoch 0, and all living ones are in sync."""
        outcome = first_leader(replicas, among(alive), 3).result
        expected = [one for one in replicas if one in alive]
        self.assertEqual(outcome.leader, expected[0] if expected else NO_LEADER)
        self.assertEqual(outcome.isr, tuple(expected) or replicas)
        self.assertEqual((outcome.leader_epoch, outcome.controller_epoch, outcome.version), (0, 3, 0))

    @given(situations(), st.booleans(), living, living)
    def test_every_decision(self, now: Situation, renew: bool, lost: frozenset[int], shaky: frozenset[int]) -> None:
        """
        Only living replicas lead. A clean leader has every committed record: it was in sync or eligible. Nobody comes
        to be in sync but by leading, or from the eligible ones where no other is left. The epoch grows by one if, and
        only if, somebody is elected; the version by one always. There is an unclean election only where it is allowed
        and nobody else can lead, or where nobody has it all.
        """
        doubted = shaky - lost
        outcome = next_leader(now, renew=renew, lost=lost, doubted=doubted)
        current = now.current
        holders = {*current.isr, *current.eligible}
        if outcome is None:
            if current.leader == NO_LEADER:
                self.assertEqual(now.up(holders - lost) if holders - lost else now.up(holders), [])
            else:
                self.assertIsNot(now.standing(current.leader), GONE)
            return
        result = outcome.result
        self.assertEqual((result.version, result.controller_epoch), (current.version + 1, 10))
        self.assertTrue(result.isr)
        self.assertFalse(set(result.isr) & set(result.eligible))
        self.assertLessEqual({*result.isr, *result.eligible}, set(now.replicas))
        self.assertIn(result.leader_epoch - current.leader_epoch, (0, 1))
        if result.leader_epoch == current.leader_epoch:
            self.assertEqual(result.leader, current.leader)
        if result.leader == NO_LEADER:
            self.assertLessEqual({*result.isr, *result.eligible}, holders)
            return
        self.assertIsNot(now.standing(result.leader), GONE)
        if now.standing(result.leader) is LEAVING:
            self.assertEqual(result.leader, current.leader)
        self.assertIn(result.leader, result.isr)
        is_new = result.leader_epoch > current.leader_epoch
        marked = is_new and (outcome.unclean or result.leader in doubted)
        self.assertEqual(result.unclean_epoch, result.leader_epoch if marked else current.unclean_epoch)
        if outcome.unclean:
            self.assertTrue(now.rules.unclean_allowed or holders <= lost | doubted)
            self.assertEqual((result.isr, result.eligible), ((result.leader,), ()))
        else:
            self.assertIn(result.leader, holders)
            sure = set(now.up(current.isr)) - lost - doubted
            if sure:
                self.assertIn(result.leader, sure)
                self.assertFalse({*result.isr, *result.eligible} & doubted)
            self.assertLessEqual({*result.isr, *result.eligible}, holders)
            if holders - lost:
                self.assertNotIn(result.leader, lost)
        if len(result.isr) >= now.rules.enough(len(now.replicas)):
            self.assertEqual(result.eligible, ())

    @given(situations(), st.lists(st.tuples(living, living), max_size=12))
    def test_nobody_who_has_the_data_is_forgotten(
        self, now: Situation, history: list[tuple[frozenset[int], frozenset[int]]]
    ) -> None:
        """
        Where unclean elections are not allowed: whoever comes and goes, somebody with every committed record can lead
        again. A record is committed while enough are in sync, by them all; those have it for good.
        """
        now = evolve(now, rules=evolve(now.rules, unclean_allowed=False))
        having = {*now.current.isr, *now.current.eligible}
        for up, leaving in history:
            now = evolve(now, standing=among(up, leaving))
            outcome = next_leader(now)
            if outcome is None:
                continue
            result = outcome.result
            self.assertLessEqual({*result.isr, *result.eligible}, having)
            if result.leader != NO_LEADER and len(result.isr) >= now.rules.enough(len(now.replicas)):
                having = set(result.isr)
            now = evolve(now, current=result)
        self.assertTrue({*now.current.isr, *now.current.eligible} & having)

    @given(situations(), living)
    def test_elections_settle(self, now: Situation, lost: frozenset[int]) -> None:
        """After an election nothing is due until something happens."""
        outcome = next_leader(now, lost=lost)
        if outcome is not None:
            self.assertIsNone(next_leader(evolve(now, current=outcome.result)))

    def test_examples(self) -> None:
        """The table that one would draw."""
        for what, replicas, current, up, leaving, rules, expected in (
            # leader, epoch, isr, controller epoch, version, eligible
            ("a follower dies", (1, 2, 3), (1, 4, (1, 2, 3)), {1, 3}, (), TopicRules(), (1, 4, (1, 3), 0, 1)),
            ("the leader dies", (1, 2, 3), (1, 4, (1, 2, 3)), {2, 3}, (), TopicRules(), (2, 5, (2, 3), 0, 1)),
            ("all but one die", (1, 2), (1, 4, (1, 2)), {2}, (), TopicRules(min_insync=2), (2, 5, (2,), 0, 1, (1,))),
            ("all die", (1, 2), (2, 4, (2,), 0, 0, (1,)), (), (), TopicRules(), (-1, 5, (2,), 0, 1, (1,))),
            (
                "an eligible one is back",
                (1, 2),
                (-1, 4, (2,), 0, 0, (1,)),
                {1},
                (),
                TopicRules(min_insync=2),
                (1, 5, (1,), 0, 1, (2,)),
            ),
            (
                "the minimum was lowered",
                (1, 2),
                (1, 4, (1,), 0, 0, (2,)),
                {1, 2},
                (),
                TopicRules(min_insync=1),
                (1, 4, (1,), 0, 1),
            ),
            ("the leader leaves", (1, 2, 3), (1, 4, (1, 2, 3)), {2, 3}, {1}, TopicRules(), (2, 5, (2, 3), 0, 1)),
            ("a follower leaves", (1, 2), (1, 4, (1, 2)), {1}, {2}, TopicRules(), (1, 4, (1,), 0, 1)),
            ("the last one leaves", (1, 2), (1, 4, (1,)), {2}, {1}, TopicRules(), None),
            ("nobody in sync", (1, 2), (1, 4, (1,)), {2}, (), TopicRules(True), (2, 5, (2,), 0, 1, (), 5)),
        ):
            outcome = next_leader(Situation(replicas, LeaderAndIsr(*current), among(up, leaving), rules))
            found = None if outcome is None else outcome.result
            self.assertEqual(found, None if expected is None else LeaderAndIsr(*expected), what)

    def test_a_restarted_leader_stays(self) -> None:
        """It is elected anew, though another is first in the assignment."""
        outcome = next_leader(Situation((1, 2), LeaderAndIsr(2, 4, (1, 2)), among({1, 2})), renew=True)
        assert outcome is not None
        self.assertEqual((outcome.result.leader, outcome.result.leader_epoch, outcome.result.isr), (2, 5, (1, 2)))

    def test_back_with_less(self) -> None:
        """
        Who lost its last records leads no more where another may have them, alive or not; where nobody could, who led
        last leads again.
        """
        two = Situation((1, 2), LeaderAndIsr(1, 4, (1, 2)), among({1, 2}))
        outcome = next_leader(two, renew=True, lost={1})
        assert outcome is not None
        self.assertEqual(outcome.result, LeaderAndIsr(2, 5, (2,), 0, 1))
        away = next_leader(evolve(two, standing=among({1})), renew=True, lost={1})
        assert away is not None
        self.assertEqual(away.result, LeaderAndIsr(NO_LEADER, 5, (2,), 0, 1))
        both = next_leader(two, renew=True, lost={1, 2})
        assert both is not None
        self.assertEqual((both.result, both.unclean), (LeaderAndIsr(1, 5, (1,), 0, 1, (), 5), True))
        alone = next_leader(evolve(two, current=LeaderAndIsr(1, 4, (1,))), renew=True, lost={1})
        assert alone is not None
        self.assertEqual((alone.result, alone.unclean), (LeaderAndIsr(1, 5, (1,), 0, 1, (), 5), True))

    def test_back_without_what_was_not_acknowledged(self) -> None:
        """
        Who is back with less, but with all that was acknowledged, leaves the lead to those who have it all, and of
        several like it to one that did not lead. If it leads, others may cut what they have beyond it.
        """
        two = Situation((1, 2), LeaderAndIsr(1, 4, (1, 2)), among({1, 2}))
        for what, now, renew, doubted, expected in (
            ("another has it all", two, True, {1}, LeaderAndIsr(2, 5, (2,), 0, 1)),
            ("a follower is", two, False, {2}, LeaderAndIsr(1, 4, (1,), 0, 1)),
            ("both are", two, True, {1, 2}, LeaderAndIsr(2, 5, (1, 2), 0, 1, (), 5)),
            ("the other is away", evolve(two, standing=among({1})), True, {1}, LeaderAndIsr(1, 5, (1,), 0, 1, (), 5)),
            (
                "an eligible one is",
                evolve(two, current=LeaderAndIsr(-1, 4, (2,), 0, 0, (1,), 3), standing=among({1})),
                False,
                {1},
                LeaderAndIsr(1, 5, (1,), 0, 1, (), 5),
            ),
        ):
            outcome = next_leader(now, renew=renew, doubted=doubted)
            assert outcome is not None, what
            self.assertEqual((outcome.result, outcome.unclean), (expected, False), what)

    def test_preferred(self) -> None:
        """The first replica takes over if it lives and is in sync; the ISR stays."""
        current = LeaderAndIsr(2, 4, (2, 1), 1, 7)
        result = preferred_leader(Situation((1, 2), current, among({1, 2}), controller_epoch=3)).result
        self.assertEqual(result, LeaderAndIsr(1, 5, (2, 1), 3, 8))
        for replicas, standing, code in (
            ((2, 1), among({1, 2}), ErrorCode.ELECTION_NOT_NEEDED),
            ((1, 2), among({2}), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
            ((1, 2), among({2}, {1}), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
            ((3, 2), among({2, 3}), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        ):
            error = self.assertRaises(ApiError, preferred_leader, Situation(replicas, current, standing))
            self.assertEqual(error.code, code)

    def test_unclean(self) -> None:
        """An operator's word is enough, unless somebody leads or nobody lives; who has the data comes first."""
        offline = Situation((1, 2), LeaderAndIsr(NO_LEADER, 4, (1,)), among({2}))
        outcome = unclean_leader(offline)
        self.assertTrue(outcome.unclean)
        self.assertEqual(outcome.result, LeaderAndIsr(2, 5, (2,), 0, 1, (), 5))
        clean = unclean_leader(evolve(offline, standing=among({1, 2})))
        self.assertEqual((clean.unclean, clean.result.leader), (False, 1))
        for now, code in (
            (evolve(offline, standing=among(())), ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
            (evolve(offline, current=LeaderAndIsr(1, 4, (1,))), ErrorCode.ELECTION_NOT_NEEDED),
        ):
            self.assertEqual(self.assertRaises(ApiError, unclean_leader, now).code, code)

    def test_narrowed(self) -> None:
        """Replicas that go away are in sync no more; a leader among them hands over; the last in sync cannot go."""
        now = Situation((3, 1, 2), LeaderAndIsr(1, 4, (1, 2, 3)), among({1, 2, 3}))
        for replicas, expected in (
            ((3, 1), LeaderAndIsr(1, 4, (1, 3), 0, 1)),
            ((3, 2), LeaderAndIsr(3, 5, (2, 3), 0, 1)),
            ((2, 1, 3), None),
        ):
            outcome = narrowed(now, replicas)
            self.assertEqual(None if outcome is None else outcome.result, expected)
        error = self.assertRaises(ApiError, narrowed, now, (4, 5))
        self.assertEqual(error.code, ErrorCode.INVALID_REPLICA_ASSIGNMENT)


class StateTests(SynchronousTestCase):
    """Phases, and what is due."""

    def setUp(self) -> None:
        brokers = {number: BrokerImage(number, {}, None, 10) for number in (1, 2)}
        records = [
            PartitionRecord((1, 3)),
            PartitionRecord((1, 3), LeaderAndIsr(1, 0, (1,))),
            PartitionRecord((3, 1), LeaderAndIsr(3, 0, (3, 1))),
            PartitionRecord((2,), LeaderAndIsr(2, 0, (2,))),
            PartitionRecord((3,), LeaderAndIsr(-1, 1, (3,))),
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
        come = {2: self.state.brokers[2]}
        outcomes = due_elections(self.state, self.state.partitions(), 7, lambda overrides: TopicRules(), come)
        leaders = {name.partition: (one.result.leader, one.result.leader_epoch) for name, one in outcomes.items()}
        self.assertEqual(leaders, {0: (1, 0), 2: (1, 1), 3: (2, 1)})

    def test_rules_by_topic(self) -> None:
        """The topic's overrides decide."""
        self.state.topics["t"].overrides = {"unclean": "yes"}
        self.state.topics["t"].partitions[4].replicas = (3, 1)
        outcomes = due_elections(
            self.state, self.state.partitions(), 7, lambda overrides: TopicRules("unclean" in overrides)
        )
        outcome = outcomes[TopicPartition("t", 4)]
        self.assertTrue(outcome.unclean)
        self.assertEqual((outcome.result.leader, outcome.result.isr), (1, (1,)))

    def test_losses_by_topic(self) -> None:
        """
        Who lost what was not synced is trusted with topics that are synced before they are acknowledged, if nobody
        else is there; who lost a directory is not.
        """
        self.state.topics["t"].partitions = [PartitionRecord((1, 3), LeaderAndIsr(1, 0, (1, 3)))]
        for image, flushes, leader in (
            (BrokerImage(1, {}, None, 11, unsynced_lost=True), True, 1),
            (BrokerImage(1, {}, None, 11, unsynced_lost=True), False, NO_LEADER),
            (BrokerImage(1, {}, None, 11, logs_lost=True), True, NO_LEADER),
        ):
            self.state.brokers[1] = image

            def rules_for(overrides: object, flushes: bool = flushes) -> TopicRules:
                return TopicRules(flushes=flushes)

            outcomes = due_elections(self.state, self.state.partitions(), 7, rules_for, {1: image}, {1})
            result = outcomes[TopicPartition("t", 0)].result
            self.assertEqual((result.leader, result.unclean_epoch), (leader, 1 if leader == 1 else -1))

    def test_lives(self) -> None:
        """Who came is told by the registration's epoch; a loss is one of the process, and is heard of once."""
        one, two = UUID(int=1), UUID(int=2)
        self.state.brokers = {
            1: BrokerImage(1, {}, None, 10, one, unsynced_lost=True),
            2: BrokerImage(2, {}, None, 10, two, unsynced_lost=True),
            3: BrokerImage(3, {}, None, 10, two),
            4: BrokerImage(4, {}, None, 10, two, logs_lost=True),
        }
        self.state.lives = {1: Life(10, one), 2: Life(9, two), 4: Life(9, one)}
        come = self.state.come()
        self.assertEqual(sorted(come), [2, 3, 4])
        self.assertEqual(self.state.lost(come), {4})
