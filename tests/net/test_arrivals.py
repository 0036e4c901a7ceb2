"""Tests of :mod:`logbus.net.arrivals`."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.arrivals import NAMES, SHOWN_LENGTH, SPAN_SECONDS, Arrivals
from logbus.net.request_context import ANONYMOUS, RequestContext

CLIENT = RequestContext(1, "kafka", "10.0.0.1", 50_000)
STEPS = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 200)), max_size=200)


@given(STEPS)
def test_lately(steps: list[tuple[str, int]]) -> None:
    """What came within ten minutes counts, to the minute; who is named brought at least half of it."""
    clock = Clock()
    arrivals = Arrivals(clock.seconds)
    came: list[tuple[int, str]] = []
    for name, seconds in steps:
        clock.advance(seconds)
        arrivals.add(evolve(CLIENT, client_id=name))
        came.append((int(clock.seconds() // 60), name))
        lately = [by for minute, by in came if minute > (clock.seconds() - SPAN_SECONDS) // 60]
        assert arrivals.lately == len(lately)
        named = arrivals.most_by().get("client id")
        if named is None:
            assert all(2 * lately.count(by) < len(lately) for by in lately)
        else:
            assert 2 * lately.count(named) >= len(lately)
    assert arrivals.since_start == len(steps)


class ArrivalsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.arrivals = Arrivals(self.clock.seconds)

    def test_who(self) -> None:
        """Principal, address and client id are named if most comes from there."""
        for number in range(100):
            self.arrivals.add(evolve(CLIENT, principal="User:app", client_id=f"app-{number}"))
        self.arrivals.add(evolve(CLIENT, principal="User:other", host="10.0.0.2"))
        self.assertEqual(
            self.arrivals.describe("new groups"),
            "101 new groups in 10 minutes, most of them by principal 'User:app', address '10.0.0.1'",
        )

    def test_nobody(self) -> None:
        """A principal that stands for all says nothing, nor does a UNIX socket; some come from no client at all."""
        self.arrivals.add(evolve(CLIENT, host="", principal=ANONYMOUS))
        self.arrivals.add(None)
        self.assertEqual(self.arrivals.describe("new groups"), "2 new groups in 10 minutes")

    def test_new_names_all_the_time(self) -> None:
        """Whoever takes a new name each time fills no memory, and does not hide who brings most."""
        for number in range(10_000):
            self.arrivals.add(evolve(CLIENT, client_id=f"made-up-{number}" if number % 3 == 0 else "busy"))
        self.assertEqual(self.arrivals.most_by(), {"address": "10.0.0.1", "client id": "busy"})
        [slot] = self.arrivals._slots
        self.assertLessEqual(max(map(len, slot.names.values())), NAMES)

    def test_hostile_names(self) -> None:
        """Names that clients choose are quoted, and cut."""
        self.arrivals.add(evolve(CLIENT, client_id="x\n\x1b[31m" + 1000 * "y"))
        told = self.arrivals.describe("new groups")
        self.assertTrue(told.isprintable())
        self.assertLess(len(told), 2 * SHOWN_LENGTH + 80)
