"""Memory for requests."""

from __future__ import annotations

from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.budget import RequestBudget


@define(eq=False)
class Connection:
    """A holder that notes what it was granted, and may have something to spare."""

    budget: RequestBudget
    spare: bool = False
    granted: list[int] = field(factory=list)

    def memory_granted(self, size: int) -> None:
        self.granted.append(size)

    def give_back_memory(self) -> None:
        if self.spare:
            self.budget.release(self)


class BudgetTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.budget = RequestBudget(100)
        self.one, self.two, self.three = (Connection(self.budget) for _ in range(3))

    def test_what_is_free_is_granted_at_once(self) -> None:
        """
        Reservations add up until the total is reached.
        """
        self.budget.reserve(self.one, 60)
        self.budget.reserve(self.two, 40)
        self.assertEqual((self.one.granted, self.two.granted, self.budget.used), ([60], [40], 100))
        self.assertEqual(self.budget.metrics.request_memory, 100)

    def test_first_come_first_served(self) -> None:
        """
        Who waits is served in order; a small one does not overtake a large one.
        """
        self.budget.reserve(self.one, 90)
        self.budget.reserve(self.two, 80)
        self.budget.reserve(self.three, 5)
        self.assertEqual((self.two.granted, self.three.granted), ([], []))
        self.assertTrue(self.budget.short)
        self.assertFalse(self.budget.try_reserve(self.one, 1))
        self.budget.release(self.one)
        self.assertEqual((self.two.granted, self.three.granted, self.budget.used), ([80], [5], 85))
        self.assertFalse(self.budget.short)

    def test_one_is_always_admitted(self) -> None:
        """
        A frame larger than the whole budget gets through when nothing else is under way.
        """
        self.budget.reserve(self.one, 500)
        self.assertEqual(self.one.granted, [500])
        self.budget.reserve(self.two, 1)
        self.assertEqual(self.two.granted, [])
        self.budget.release(self.one)
        self.assertEqual(self.two.granted, [1])

    def test_what_is_kept_without_need_is_called_in(self) -> None:
        """
        A connection that keeps memory for its next frame gives it back when another needs it now.
        """
        self.one.spare = True
        self.budget.reserve(self.one, 90)
        self.budget.reserve(self.two, 80)
        self.assertEqual((self.two.granted, self.budget.used), ([80], 80))

    def test_waiting_for_more_is_no_deadlock(self) -> None:
        """
        When all memory belongs to connections that wait for more of it, the first of them gets it.
        """
        self.budget.reserve(self.one, 50)
        self.budget.reserve(self.two, 50)
        self.budget.reserve(self.one, 20)
        self.assertEqual(self.one.granted, [50])
        self.budget.reserve(self.two, 20)
        self.assertEqual((self.one.granted, self.two.granted), ([50, 20], [50]))
        self.budget.release(self.one)
        self.assertEqual(self.two.granted, [50, 20])

    def test_a_connection_that_is_gone_wants_nothing(self) -> None:
        """
        Forgetting frees what was held and lets those behind come forward.
        """
        self.budget.reserve(self.one, 90)
        self.budget.reserve(self.two, 80)
        self.budget.reserve(self.three, 10)
        self.budget.forget(self.two)
        self.assertEqual(self.three.granted, [10])
        self.budget.forget(self.one)
        self.assertEqual((self.two.granted, self.budget.used), ([], 10))

    @settings(max_examples=200)
    @given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 150), st.sampled_from("rfk")), max_size=60))
    def test_everyone_is_served_in_the_end(self, steps: list[tuple[int, int, str]]) -> None:
        """
        Whatever happens, the sum is right, the total is exceeded by one frame at most, and when all that hold
        something release it, everyone who waited has got it.
        """
        budget = RequestBudget(100)
        connections = [Connection(budget) for _ in range(5)]
        asked = [0] * 5
        for index, size, what in steps:
            connection = connections[index]
            if what == "r" and len(connection.granted) == asked[index]:
                asked[index] += 1
                budget.reserve(connection, size)
            elif what == "f":
                budget.forget(connection)
                connection.granted.clear()
                asked[index] = 0
            elif len(connection.granted) == asked[index]:
                budget.release(connection)
            self.assertEqual(budget.used, sum(budget._held.values()))
            self.assertLess(budget.used, 100 + 5 * 150)
        for _ in range(10):
            for index, connection in enumerate(connections):
                if len(connection.granted) == asked[index]:
                    budget.release(connection)
        self.assertEqual([len(connection.granted) for connection in connections], asked)
        self.assertEqual(budget.used, 0)
