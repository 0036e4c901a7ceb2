"""Leader election: properties over all situations, and examples."""

from __future__ import annotations

from collections.abc import Callable, Collection
from uuid import UUID

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.controller.broker_incarnations import BrokerIncarnations
from logbus.cluster.controller.controller_context import (
    ControllerContext,
    PartitionRecord,
    TopicRecord,
)
from logbus.cluster.controller.leader_election import (
    NO_LEADER,
    Situation,
    due_elections,
    first_leader,
    next_leader,
    preferred_leader,
    restricted_to,
    unclean_leader,
)
from logbus.cluster.controller.topic_rules import ReplicaAvailability, TopicRules
from logbus.cluster.images import BrokerImage
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.cluster_znodes import BrokerIncarnation
from logbus.model import LeaderAndIsr, LogEnd, TopicPartition, new_topic_id

UP, LEAVING, GONE = ReplicaAvailability.UP, ReplicaAvailability.LEAVING, ReplicaAvailability.GONE

assignments = st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True).map(tuple)
living = st.frozensets(st.integers(0, 5))


def among(up: Collection[int], leaving: Collection[int] = ()) -> Callable[[int], ReplicaAvailability]:
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
    among_whom = replicas if leader == NO_LEADER else [one for one in replicas if one not in (*isr, *eligible)]
    unproven = tuple(one for one in among_whom if draw(st.booleans()))
    current = LeaderAndIsr(
        leader, draw(st.integers(0, 9)), isr, draw(st.integers(0, 9)), draw(st.integers(0, 9)), eligible,
        unproven=unproven,
    )  # fmt: skip
    standing = {one: draw(st.sampled_from(ReplicaAvailability)) for one in replicas}
    ends = {one: LogEnd(draw(st.integers(-1, 2)), draw(st.integers(0, 2))) for one in replicas if draw(st.booleans())}
    powerless = draw(st.frozensets(st.sampled_from(replicas)))
    return Situation(replicas, current, standing.__getitem__, rules, 10, ends, powerless)


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
    def test_every_decision(self, now: Situation, renew: bool, lost: frozenset[int], others: frozenset[int]) -> None:
        """
        Only living replicas lead. A clean leader has every committed record: it was in sync or eligible, and has not
        come back after an unclean stop; or all have that could lead, and it has the longest log of them. Nobody comes
        to be in sync but by leading, or from the eligible ones where no other is left. The epoch grows by one if, and
        only if, somebody is elected; the version by one always. There is an unclean election only where it is allowed
        and nobody else can lead, or where nobody has it all.
        """
        unclean = lost | others
        outcome = next_leader(now, renew=renew, lost=lost, unclean=unclean)
        current = now.current
        holders = {*current.isr, *current.eligible}
        sure = holders - unclean - set(current.unproven)
        left = (holders | set(current.unproven)) - lost or holders
        if outcome is None:
            if current.leader == NO_LEADER:
                self.assertEqual(now.up(sure), [])
                # One that lost its directory counts until others are proven: their log ends are waited for.
                asked = holders | set(current.unproven)
                self.assertTrue(
                    any(now.availability(one) is GONE for one in left)
                    or len(left) > 1
                    or now.up(left) == []
                    or (len(asked) > 1 and not asked <= now.log_ends.keys())
                )
            else:
                self.assertIsNot(now.availability(current.leader), GONE)
            return
        result = outcome.result
        self.assertEqual((result.version, result.controller_epoch), (current.version + 1, 10))
        self.assertTrue(result.isr)
        self.assertFalse(set(result.isr) & set(result.eligible))
        self.assertLessEqual({*result.isr, *result.eligible}, set(now.replicas))
        self.assertLessEqual(set(result.unproven), {*current.unproven, *(holders & unclean)})
        self.assertIn(result.leader_epoch - current.leader_epoch, (0, 1))
        if result.leader_epoch == current.leader_epoch:
            self.assertEqual(result.leader, current.leader)
        if result.leader == NO_LEADER:
            self.assertLessEqual({*result.isr, *result.eligible}, holders)
            self.assertLessEqual(left & unclean, set(result.unproven) | lost)
            return
        self.assertFalse(set(result.unproven) & {*result.isr, *result.eligible})
        self.assertIsNot(now.availability(result.leader), GONE)
        if now.availability(result.leader) is LEAVING:
            self.assertEqual(result.leader, current.leader)
        self.assertIn(result.leader, result.isr)
        if result.leader_epoch == current.leader_epoch:
            self.assertEqual(result.unclean_epoch, current.unclean_epoch)
        elif outcome.unclean:
            self.assertEqual(result.unclean_epoch, result.leader_epoch)
        if outcome.unclean:
            nobody = holders <= lost or (not sure and not now.rules.flushes)
            self.assertEqual(result.unproven, ())
            self.assertTrue(now.rules.unclean_allowed or nobody)
            self.assertEqual((result.isr, result.eligible), ((result.leader,), ()))
        else:
            self.assertIn(result.leader, holders | set(current.unproven))
            self.assertLessEqual({*result.isr, *result.eligible}, holders | set(current.unproven))
            if now.up(sure & set(current.isr)):
                self.assertIn(result.leader, sure)
                self.assertIs(now.availability(result.leader), UP)
                self.assertFalse({*result.isr, *result.eligible} & unclean)
            elif result.leader not in sure:
                self.assertEqual(now.up(sure), [])
                there = [one for one in left if now.availability(one) is not GONE]
                if len(there) < len(left):
                    self.assertEqual((result.leader,), tuple(one for one in current.isr if one not in lost))
                    last = current.leader_epoch - (current.leader == NO_LEADER)
                    self.assertGreaterEqual(now.log_ends[result.leader].epoch, last)
                elif len(left) > 1:
                    self.assertEqual(now.log_ends[result.leader], max(now.log_ends[one] for one in left))
                    for one in (*result.isr, *result.eligible):
                        self.assertTrue(one in sure or now.log_ends[one] == now.log_ends[result.leader])
            if left - lost:
                self.assertNotIn(result.leader, lost)
        if len(result.isr) >= now.rules.enough(len(now.replicas)):
            self.assertEqual(result.eligible, ())

    @given(situations(), st.lists(st.tuples(living, living), max_size=12))
    def test_a_replica_with_all_committed_records_remains(
        self, now: Situation, history: list[tuple[frozenset[int], frozenset[int]]]
    ) -> None:
        """
        Where unclean elections are not allowed: whoever comes and goes, somebody with every committed record can lead
        again. A record is committed while enough are in sync, by them all; those have it for good.
        """
        now = evolve(now, rules=evolve(now.rules, unclean_allowed=False), current=evolve(now.current, unproven=()))
        having = {*now.current.isr, *now.current.eligible}
        for up, leaving in history:
            now = evolve(now, availability=among(up, leaving))
            outcome = next_leader(now)
            if outcome is None:
                continue
            result = outcome.result
            self.assertLessEqual({*result.isr, *result.eligible}, having)
            if result.leader != NO_LEADER and len(result.isr) >= now.rules.enough(len(now.replicas)):
                having = set(result.isr)
            now = evolve(now, current=result)
        self.assertTrue({*now.current.isr, *now.current.eligible} & having)

    @given(situations(), living, living)
    def test_elections_settle(self, now: Situation, lost: frozenset[int], others: frozenset[int]) -> None:
        """After an election nothing is due until something happens."""
        outcome = next_leader(now, lost=lost, unclean=lost | others)
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

    def test_return_without_logs(self) -> None:
        """
        Who lost a log directory leads no more where another may have what it held, alive or not; where nobody could,
        who led last leads again.
        """
        two = Situation((1, 2), LeaderAndIsr(1, 4, (1, 2)), among({1, 2}))
        outcome = next_leader(two, renew=True, lost={1}, unclean={1})
        assert outcome is not None
        self.assertEqual(outcome.result, LeaderAndIsr(2, 5, (2,), 0, 1))
        away = next_leader(evolve(two, availability=among({1})), renew=True, lost={1}, unclean={1})
        assert away is not None
        self.assertEqual(away.result, LeaderAndIsr(NO_LEADER, 5, (2,), 0, 1))
        both = next_leader(two, renew=True, lost={1, 2}, unclean={1, 2})
        assert both is not None
        self.assertEqual((both.result, both.unclean), (LeaderAndIsr(1, 5, (1,), 0, 1, (), 5), True))
        alone = next_leader(evolve(two, current=LeaderAndIsr(1, 4, (1,))), renew=True, lost={1}, unclean={1})
        assert alone is not None
        self.assertEqual((alone.result, alone.unclean), (LeaderAndIsr(1, 5, (1,), 0, 1, (), 5), True))

    def test_back_after_an_unclean_stop(self) -> None:
        """
        Who did not stop cleanly leaves the in-sync replicas while another is there; with nobody else it waits until
        all are back who could have more, and the one with the longest log leads. A last member leads at once.
        """
        now = Situation((1, 2, 3), LeaderAndIsr(1, 4, (1, 2, 3)), among({1, 2, 3}), TopicRules(min_insync=2))
        alone = evolve(now, current=LeaderAndIsr(1, 4, (1,)), availability=among({1}))
        waits = LeaderAndIsr(NO_LEADER, 5, (1, 2, 3), 0, 1, unproven=(1,))
        short, long = LogEnd(4, 20), LogEnd(4, 30)
        later = LogEnd(5, 10)
        all_back = evolve(now, current=LeaderAndIsr(NO_LEADER, 5, (1, 2), 0, 1, (3,), unproven=(1, 2)))
        instead = evolve(now, current=LeaderAndIsr(NO_LEADER, 5, (2,), 0, 1, unproven=(1,)), rules=TopicRules())
        for what, situation, renew, unclean, expected in (
            ("the others are there", now, True, {1}, LeaderAndIsr(2, 5, (2, 3), 0, 1, unproven=(1,))),
            ("a follower", now, False, {2}, LeaderAndIsr(1, 4, (1, 3), 0, 1, unproven=(2,))),
            ("all but one", now, True, {1, 2}, LeaderAndIsr(3, 5, (3,), 0, 1, unproven=(1, 2))),
            ("the last member", alone, True, {1}, LeaderAndIsr(1, 5, (1,), 0, 1)),
            ("the others are away", evolve(now, availability=among({1})), True, {1}, waits),
            ("all are back, and have not told", all_back, False, {3}, evolve(all_back.current, version=2,
                                                                          unproven=(1, 2, 3))),
            ("one has more", evolve(all_back, log_ends={1: short, 2: long, 3: short}), False, {3},
             LeaderAndIsr(2, 6, (2,), 0, 2)),
            ("a later epoch has more", evolve(all_back, log_ends={1: short, 2: long, 3: later}), False, {3},
             LeaderAndIsr(3, 6, (3,), 0, 2)),
            ("two have as much", evolve(all_back, log_ends={1: long, 2: short, 3: long}), False, {3},
             LeaderAndIsr(1, 6, (1,), 0, 2, (3,))),
            ("one is back cleanly", evolve(all_back, log_ends={1: long, 2: long, 3: short}), False, (),
             LeaderAndIsr(3, 6, (3,), 0, 2, unproven=(1, 2))),
            ("who led instead was dead, too", evolve(instead, log_ends={1: long, 2: short}), False, {2},
             LeaderAndIsr(1, 6, (1,), 0, 2)),
            ("the other is away", evolve(instead, log_ends={2: LogEnd(3, 9)}, availability=among({2})), False, {2},
             evolve(instead.current, version=2, unproven=(1, 2))),
            ("the other is away, and was when it led",
             evolve(instead, log_ends={2: later}, availability=among({2})), False, {2},
             LeaderAndIsr(2, 6, (2,), 0, 2)),
        ):  # fmt: skip
            outcome = next_leader(situation, renew=renew, unclean=unclean)
            assert outcome is not None, what
            self.assertEqual((outcome.result, outcome.unclean), (expected, False), what)

    def test_back_without_power(self) -> None:
        """
        Who lost power has all that was acknowledged, if that was synced: others may cut what they have beyond it. If
        it was not, records may be lost by its election.
        """
        ends = {1: LogEnd(4, 9), 2: LogEnd(4, 7)}
        two = Situation((1, 2), LeaderAndIsr(2, 4, (1, 2)), among({1, 2}), log_ends=ends, unsynced_lost={1, 2})
        for rules, is_unclean in ((TopicRules(), False), (TopicRules(flushes=False), True)):
            outcome = next_leader(evolve(two, rules=rules), renew=True, unclean={1, 2})
            assert outcome is not None
            self.assertEqual((outcome.result, outcome.unclean), (LeaderAndIsr(1, 5, (1,), 0, 1, (), 5), is_unclean))

    def test_incomplete(self) -> None:
        """A replica reported as incomplete leads only while nobody else can, and is in sync no more after that."""
        now = Situation((1, 2), LeaderAndIsr(1, 4, (1, 2)), {1: ReplicaAvailability.INCOMPLETE, 2: UP}.__getitem__)
        minimum = evolve(now, current=LeaderAndIsr(1, 4, (1,), 0, 0, (2,)), rules=TopicRules(min_insync=2))
        alone = evolve(now, current=LeaderAndIsr(1, 4, (1,)))
        follower = evolve(now, current=LeaderAndIsr(2, 4, (1, 2)))
        back = evolve(now, current=LeaderAndIsr(NO_LEADER, 4, (1,)))
        for what, situation, expected in (
            ("another is in sync", now, LeaderAndIsr(2, 5, (2,), 0, 1)),
            ("another is eligible", minimum, LeaderAndIsr(2, 5, (2,), 0, 1)),
            ("nobody else", alone, None),
            ("a follower", follower, LeaderAndIsr(2, 4, (2,), 0, 1)),
            ("it is the last", back, LeaderAndIsr(1, 5, (1,), 0, 1)),
        ):
            outcome = next_leader(situation)
            self.assertEqual(None if outcome is None else outcome.result, expected, what)

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
        clean = unclean_leader(evolve(offline, availability=among({1, 2})))
        self.assertEqual((clean.unclean, clean.result.leader), (False, 1))
        for now, code in (
            (evolve(offline, availability=among(())), ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
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
            outcome = restricted_to(now, replicas)
            self.assertEqual(None if outcome is None else outcome.result, expected)
        error = self.assertRaises(ApiError, restricted_to, now, (4, 5))
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
        self.state = ControllerContext(brokers, {"t": TopicRecord("t", new_topic_id(bytes(16)), records), "gone": gone})

    def test_availability(self) -> None:
        """It follows from the live brokers and their reports."""
        name = TopicPartition("t", 1)
        self.assertIs(self.state.availability(1, name), ReplicaAvailability.UP)
        self.assertIs(self.state.availability(3, name), ReplicaAvailability.GONE)
        self.state.reports.incomplete[1] = {name}
        self.assertIs(self.state.availability(1, name), ReplicaAvailability.INCOMPLETE)
        self.state.reports.shutting_down.add(1)
        self.assertIs(self.state.availability(1, name), ReplicaAvailability.LEAVING)
        self.state.reports.failed[1] = {name}
        self.assertIs(self.state.availability(1, name), ReplicaAvailability.GONE)

    def test_due(self) -> None:
        """New ones, those whose leader died or restarted, and no others; topics under deletion are left alone."""
        registered = {2: self.state.brokers[2]}
        outcomes = due_elections(self.state, self.state.partitions(), 7, lambda overrides: TopicRules(), registered)
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

    def test_losses(self) -> None:
        """Who comes back after an unclean stop is unproven while others are away; who lost a directory has nothing."""
        self.state.topics["t"].partitions = [PartitionRecord((1, 3), LeaderAndIsr(1, 0, (1, 3)))]
        for image, isr, unproven in (
            (BrokerImage(1, {}, None, 11, unsynced_lost=True), (1, 3), (1,)),
            (BrokerImage(1, {}, None, 11, unclean_shutdown=True), (1, 3), (1,)),
            (BrokerImage(1, {}, None, 11, logs_lost=True), (3,), ()),
        ):
            self.state.brokers[1] = image
            outcomes = due_elections(
                self.state, self.state.partitions(), 7, lambda overrides: TopicRules(), {1: image}, {1}
            )
            result = outcomes[TopicPartition("t", 0)].result
            self.assertEqual((result.leader, result.isr, result.unproven), (NO_LEADER, isr, unproven))

    def test_log_ends(self) -> None:
        """What a broker told of its logs counts until it is gone."""
        name = TopicPartition("t", 0)
        current = LeaderAndIsr(NO_LEADER, 0, (1, 2), unproven=(1, 2))
        self.state.topics["t"].partitions = [PartitionRecord((1, 2), current)]
        self.state.reports.log_ends = {name: {1: LogEnd(0, 1), 2: LogEnd(0, 2)}}

        def due() -> int:
            found = due_elections(self.state, [name], 7, lambda overrides: TopicRules())
            return found[name].result.leader if found else NO_LEADER

        self.assertEqual(due(), 2)
        self.state.reports.forget(1)
        self.assertEqual(due(), NO_LEADER)

    def test_broker_incarnations(self) -> None:
        """New incarnations are recognized by the broker epoch, and a loss is reported once per incarnation."""
        one, two = UUID(int=1), UUID(int=2)
        brokers = {
            1: BrokerImage(1, {}, None, 10, one, unsynced_lost=True),
            2: BrokerImage(2, {}, None, 10, two, unclean_shutdown=True),
            3: BrokerImage(3, {}, None, 10, two),
            4: BrokerImage(4, {}, None, 10, two, logs_lost=True),
            5: BrokerImage(5, {}, None, 10, two, unclean_shutdown=True),
        }
        incarnations = BrokerIncarnations(
            {
                1: BrokerIncarnation(10, one),
                2: BrokerIncarnation(9, two),
                4: BrokerIncarnation(9, one),
                5: BrokerIncarnation(9, one),
            }
        )
        unnoted = incarnations.unnoted(brokers)
        self.assertEqual(sorted(unnoted), [2, 3, 4, 5])
        self.assertEqual(incarnations.unclean(unnoted), {4, 5})
