"""Memory for requests."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.request_budget import RequestBudget
from tests.net.memory_holders import Connection


class ShareTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.budget = RequestBudget(1000)

    def connection(self, host: str = "10.0.0.1", **more: bool) -> Connection:
        return Connection(self.budget, host, **more)

    def test_free_memory_is_granted_at_once(self) -> None:
        """
        Reservations add up.
        """
        one, two = self.connection(), self.connection()
        self.assertTrue(one.holds(300))
        self.assertTrue(two.holds(200))
        self.assertEqual((self.budget.used, self.budget.metrics.request_memory), (500, 500))

    def test_the_share_of_a_connection_shrinks(self) -> None:
        """
        Each may hold what is free after it: greedy ones leave room for the next, and small ones never wait.
        """
        sizes = []
        for number in range(8):
            greedy = self.connection(f"10.0.1.{number}")
            size = 1
            while self.budget.try_reserve(greedy, 1):
                size += 1
            sizes.append(size)
        self.assertEqual(sizes[:3], [501, 251, 126])
        self.assertTrue(self.connection("10.0.0.9").holds(2))

    def test_small_frames_overtake_large_ones(self) -> None:
        """
        Any number of connections that wait with large frames do not hold up a small one.
        """
        waiting = [self.connection(f"10.0.1.{number}") for number in range(20)]
        for each in waiting:
            self.budget.try_reserve(each, 40)
        for each in waiting:
            each.holds(900)
        self.assertTrue(self.budget.short)
        self.assertEqual(sum(each.granted == [900] for each in waiting), 1)
        for _ in range(3):
            self.assertTrue(self.connection("10.0.0.9").holds(20))

    def test_share_of_an_address(self) -> None:
        """
        All connections of one address together hold three quarters at most; another's still fit.
        """
        crowd = [self.connection() for _ in range(100)]
        for _ in range(10):
            for each in crowd:
                self.budget.try_reserve(each, 1)
        self.assertLessEqual(self.budget.used, 750)
        self.assertTrue(self.connection("10.0.0.2").holds(100))

    def test_share_of_a_connection(self) -> None:
        """
        Large frames of one address do not take all of its share: other connections of the address are served.
        """
        for _ in range(8):
            greedy = self.connection()
            while self.budget.try_reserve(greedy, 1):
                pass
        self.assertTrue(self.connection().holds(2))

    def test_sockets_without_an_address_have_no_share_in_common(self) -> None:
        """
        UNIX sockets count one by one.
        """
        crowd = [self.connection("") for _ in range(300)]
        for _ in range(3):
            for each in crowd:
                self.budget.try_reserve(each, 1)
        self.assertGreater(self.budget.used, 850)

    def test_smallest_need_is_served_first(self) -> None:
        """
        A frame that lacks less does not wait for one that lacks more, even if it came later.
        """
        privileged, one, two, large, small = (self.connection(f"10.0.0.{number}") for number in range(5))
        self.assertTrue(privileged.holds(2000))
        self.assertTrue(one.holds(400))
        self.assertTrue(two.holds(200))
        self.assertFalse(large.holds(350))
        self.assertFalse(small.holds(250))
        self.budget.release(two)
        self.assertEqual((small.granted, large.granted), ([250], []))
        self.budget.release(one)
        self.assertEqual(large.granted, [350])

    def test_frame_larger_than_the_budget(self) -> None:
        """
        A frame larger than the whole budget gets through, and one after the other do.
        """
        one, two = self.connection("10.0.0.1"), self.connection("10.0.0.2")
        for _ in range(6):
            self.assertTrue(one.holds(400))
        self.assertFalse(two.holds(800))
        self.budget.release(one)
        self.assertEqual(two.granted, [800])
        for _ in range(6):
            self.assertTrue(two.holds(400))

    def test_small_needs_during_a_large_frame(self) -> None:
        """
        While a large frame has memory from beyond the total, and as long as it likes, small ones are completed.
        """
        large = self.connection("10.0.1.1")
        self.assertTrue(large.holds(450))
        self.assertTrue(large.holds(100, missing=5000))
        crowd = [self.connection(f"10.0.0.{number}") for number in range(20)]
        for each in crowd:
            self.budget.charge(each, 50)
        self.assertEqual([each.holds(30) for each in crowd], [True, True] + [False] * 18)
        self.budget.release(crowd[0])
        self.assertEqual(crowd[2].granted, [30])

    def test_the_privilege_ends_with_the_frame(self) -> None:
        """
        One that has its frame and keeps its memory, for the next, lets another go beyond its share.
        """
        one, two = self.connection("10.0.0.1"), self.connection("10.0.0.2")
        self.assertTrue(one.holds(600))
        self.assertFalse(two.holds(600))
        self.budget.release(one, 0)
        self.assertEqual((two.granted, self.budget.used), ([600], 1200))

    def test_incomplete_frames_do_not_deadlock(self) -> None:
        """
        When all memory belongs to frames that need more of it, they are completed one after the other.
        """
        crowd = [self.connection(f"10.0.0.{number}") for number in range(50)]
        for each in crowd:
            self.budget.reserve(each, 15, 515)
        for each in crowd:
            self.budget.reserve(each, 500, 500)
        for _ in range(50):
            for each in crowd:
                if len(each.granted) == 2:
                    self.budget.release(each)
        self.assertEqual([len(each.granted) for each in crowd], [2] * 50)
        self.assertEqual((self.budget.used, self.budget.short), (0, False))

    def test_idle_memory_is_reclaimed(self) -> None:
        """
        A connection that keeps memory for its next frame gives it back when another needs it now.
        """
        crowd = [self.connection(f"10.0.1.{number}", spare=True) for number in range(10)]
        for each in crowd:
            self.budget.try_reserve(each, 90)
        other = self.connection()
        self.assertTrue(other.holds(300))
        self.assertEqual((self.budget.used, self.budget.short), (300, False))

    def test_received_bytes_are_counted(self) -> None:
        """
        Bytes that came without asking count, even beyond the total; their holder waits until it is within its share.
        """
        one, two = self.connection("10.0.0.1"), self.connection("10.0.0.2")
        self.budget.charge(one, 700)
        self.assertTrue(one.holds(0, missing=900))
        self.budget.charge(two, 400)
        self.assertEqual(self.budget.used, 1100)
        self.assertFalse(two.holds(0, missing=500))
        self.budget.release(one)
        self.assertEqual(two.granted, [0])

    def test_lost_connection_frees_its_memory(self) -> None:
        """
        Forgetting frees what was held and lets those behind come forward.
        """
        one, two, three = (self.connection(f"10.0.0.{number}") for number in range(3))
        one.holds(500)
        one.holds(400)
        two.holds(300)
        three.holds(400)
        self.budget.forget(two)
        self.assertEqual((two.granted, three.granted), ([], []))
        self.budget.forget(one)
        self.assertEqual((two.granted, three.granted, self.budget.used), ([], [400], 400))

    @settings(max_examples=200)
    @given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 150), st.sampled_from("rfkc")), max_size=60))
    def test_everyone_is_served_in_the_end(self, steps: list[tuple[int, int, str]]) -> None:
        """
        Whatever happens, the sums are right, and when all that hold something release it, everyone who waited has got
        it.
        """
        budget = RequestBudget(100)
        connections = [Connection(budget, f"10.0.0.{number % 3}") for number in range(5)]
        asked = [0] * 5
        for index, size, what in steps:
            connection = connections[index]
            is_waiting = len(connection.granted) < asked[index]
            if what == "r" and not is_waiting:
                asked[index] += 1
                budget.reserve(connection, size, size)
            elif what == "f":
                budget.forget(connection)
                connection.granted.clear()
                asked[index] = 0
            elif what == "c":
                budget.charge(connection, size)
            elif not is_waiting:
                budget.release(connection)
            self.assertEqual(budget.used, sum(budget._held.values()))
            self.assertEqual(budget.used, sum(budget._by_host.values()) + budget._overdraft.used)
        for _ in range(10):
            for index, connection in enumerate(connections):
                if len(connection.granted) == asked[index]:
                    budget.release(connection)
        self.assertEqual([len(connection.granted) for connection in connections], asked)
        self.assertEqual((budget.used, budget.short), (0, False))
