"""
Model-based tests: readers of committed records see exactly the committed records, in order.

A schedule says what producers do, what becomes of their requests, and when brokers die. The model is the ledger of what
producers were told: :mod:`logbus.testing.simulation.checks.transaction_history`.
"""

from __future__ import annotations

from hypothesis import given, note, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from tests.transactions.schedule import IDS, Play, Step, steps

_WAYS = st.tuples(*[st.booleans() for _ in IDS])
_PATIENCE = st.sampled_from((0.2, 4.0))


class ModelTests(SynchronousTestCase):
    """Schedules."""

    def play(self, brokers: int, by_v2: tuple[bool, ...], patience: float, schedule: list[tuple[Step, int]]) -> None:
        play = Play(brokers, by_v2, patience)
        try:
            found = play.play(schedule)
        finally:
            play.bank.close()
            self.flushLoggedErrors()
        for transaction in play.bank.ledger.transactions:
            note(f"{transaction}: {transaction.outcome} {transaction.values} offsets={transaction.offsets}")
        self.assertEqual([str(each) for each in found], [])

    @settings(max_examples=settings.default.max_examples // 2)
    @given(_WAYS, _PATIENCE, st.lists(steps(1), min_size=8, max_size=50))
    def test_one_broker(self, by_v2: tuple[bool, ...], patience: float, schedule: list[tuple[Step, int]]) -> None:
        """Which comes back with what its disk has."""
        self.play(1, by_v2, patience, schedule)

    @settings(max_examples=settings.default.max_examples // 6)
    @given(_WAYS, _PATIENCE, st.lists(steps(3), min_size=8, max_size=50))
    def test_three_brokers(self, by_v2: tuple[bool, ...], patience: float, schedule: list[tuple[Step, int]]) -> None:
        """Leaders and coordinators move."""
        self.play(3, by_v2, patience, schedule)
