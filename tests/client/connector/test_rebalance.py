"""What a rebalance releases, and its rounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.connector.rebalance import RebalancePhase, RebalanceRounds, to_release
from logbus.client.connector.topic_filter import TopicFilter
from logbus.model import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
CLAIMS = st.dictionaries(st.sampled_from([P0, P1]), st.integers(0, 2))


class RebalanceTests(SynchronousTestCase):
    @given(CLAIMS, CLAIMS)
    def test_plans(self, claimed: dict[TopicPartition, int], wanted: dict[TopicPartition, int]) -> None:
        """
        After letting go and taking one has what one wants; what stays where it is is not let go.
        """
        released = to_release(claimed, wanted)
        after = {k: v for k, v in claimed.items() if k not in released} | wanted
        self.assertEqual(after, wanted)
        for each in released:
            self.assertNotEqual(wanted.get(each), claimed[each])

    def test_the_usual_way(self) -> None:
        """Connected, due, looking, settled; and due again when something changes."""
        rounds = RebalanceRounds(2)
        rounds.changed()
        self.assertIs(rounds.phase, RebalancePhase.AWAY)
        rounds.connected()
        rounds.begin()
        self.assertFalse(rounds.ended(False))
        self.assertIs(rounds.phase, RebalancePhase.SETTLED)
        rounds.changed()
        self.assertIs(rounds.phase, RebalancePhase.DUE)

    def test_changed_while_looking(self) -> None:
        """After a change during a round there is another round, whatever its result."""
        for missing in (False, True):
            rounds = RebalanceRounds(0)
            rounds.connected()
            rounds.begin()
            rounds.changed()
            self.assertFalse(rounds.ended(missing))
            self.assertIs(rounds.phase, RebalancePhase.DUE)

    def test_failures(self) -> None:
        """So many rounds in vain after the first are a failure, and so many more another one; a change begins anew."""
        rounds = RebalanceRounds(2)
        rounds.connected()
        told = []
        for _ in range(6):
            rounds.begin()
            told.append(rounds.ended(True))
            rounds.time_is_up()
        self.assertEqual(told, [False, False, True, False, False, True])
        rounds.begin()
        rounds.ended(True)
        rounds.changed()
        self.assertEqual((rounds.failures, rounds.phase), (0, RebalancePhase.DUE))

    def test_disconnected_during_a_round(self) -> None:
        """The result of a round that ends while ZooKeeper is unreachable is ignored."""
        rounds = RebalanceRounds(0)
        rounds.connected()
        rounds.begin()
        rounds.changed()
        rounds.away()
        self.assertFalse(rounds.ended(True))
        self.assertIs(rounds.phase, RebalancePhase.AWAY)
        rounds.time_is_up()
        rounds.begin()
        self.assertIs(rounds.phase, RebalancePhase.AWAY)


def test_kinds_of_filters() -> None:
    """Each has a name in the registry."""
    assert {each.pattern for each in TopicFilter.__subclasses__()} == {"white_list", "black_list"}
