"""Tests of :mod:`logbus.net.busy_poll`."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.net import busy_poll
from logbus.net.busy_poll import AFTER_PREEMPTION, AFTER_VAIN, EXPECTED, LOOKED_AT, SHORT_S, BusyPoll, preemptions
from tests.net.fakes import metadata
from tests.net.test_transport import RealCase

STEP = 1e-6
LIMIT = 60e-6


class Waits:
    """A descriptor that is ready at some time, and a clock on which each poll takes a microsecond."""

    def __init__(self) -> None:
        self.now = 100.0
        self.ready_at = 0.0
        self.preempted = 7
        self.timeouts: list[float] = []
        self.busy = BusyPoll(lambda: self.now, lambda: self.preempted)
        self.busy.seconds = LIMIT

    def poll(self, timeout: float, count: int) -> list[Any]:
        self.timeouts.append(timeout)
        self.now += STEP
        return [(4, 1)] * count if self.now >= self.ready_at else []

    def busy_wait(self, ready_in: float, timeout: float | None = None, count: int = 1) -> list[Any]:
        """Wait as the reactor does, for something that is ready after some seconds."""
        began = self.now
        self.ready_at = began + ready_in
        ready: list[Any] = self.busy.poll(self.poll, timeout, count, began)
        if ready:
            self.busy.waited(self.now - began, len(ready))
        return ready


class BusyPollTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.waits = Waits()
        self.busy = self.waits.busy

    def test_expected(self) -> None:
        """After short waits for one connection each another one is expected; not after a long one, or for several."""
        for seconds, ready, expected in (
            (SHORT_S / 2, 1, 1),
            (SHORT_S / 2, 1, EXPECTED),
            (SHORT_S / 2, 1, EXPECTED),
            (SHORT_S * 2, 1, 0),
            (SHORT_S / 2, 1, 1),
            (SHORT_S / 2, 2, 0),
            (SHORT_S / 2, 1, 1),
            (SHORT_S / 2, 0, 0),  # a timer
        ):
            self.busy.waited(seconds, ready)
            self.assertEqual(self.busy.expected, expected)

    def test_found(self) -> None:
        """What is ready in time is found without sleep, and the next is expected, too."""
        self.busy.expected = EXPECTED
        self.assertEqual(len(self.waits.busy_wait(30e-6)), 1)
        self.assertEqual({*self.waits.timeouts}, {0})
        self.assertEqual(self.busy.expected, EXPECTED)
        self.assertEqual(len(self.waits.busy_wait(0, count=2)), 2)
        self.assertEqual(self.busy.expected, 0)

    def test_vain(self) -> None:
        """Polling ends after the limit, and is not tried again before many more waits were short."""
        self.busy.expected = EXPECTED
        began = self.waits.now
        self.assertEqual(self.waits.busy_wait(1), [])
        self.assertLess(abs(self.waits.now - began - LIMIT), 3 * STEP)
        for _ in range(-AFTER_VAIN + EXPECTED - 1):
            self.busy.waited(SHORT_S / 2, 1)
            self.assertLess(self.busy.expected, EXPECTED)
        self.busy.waited(SHORT_S / 2, 1)
        self.assertEqual(self.busy.expected, EXPECTED)

    def test_timers(self) -> None:
        """It does not go on after a timer is due."""
        began = self.waits.now
        self.assertEqual(self.waits.busy_wait(1, timeout=20e-6), [])
        self.assertLess(abs(self.waits.now - began - 20e-6), 3 * STEP)

    def test_preempted(self) -> None:
        """Where others want the processor, it sleeps for long; a few switches tell nothing."""
        for switches, expected in ((0, EXPECTED), (2, EXPECTED), (3, AFTER_PREEMPTION + 1)):
            self.busy.expected = EXPECTED
            self.waits.preempted += 1000  # before
            self.waits.busy_wait(0)
            self.waits.preempted += switches
            for _ in range(LOOKED_AT - 2):
                self.waits.busy_wait(0)
            self.assertEqual(self.busy.expected, EXPECTED)
            self.waits.busy_wait(0)
            self.assertEqual(self.busy.expected, expected)

    @given(st.lists(st.tuples(st.floats(0, 0.01), st.integers(0, 3)), max_size=60))
    def test_bounds(self, waits: list[tuple[float, int]]) -> None:
        """Never more is expected than what makes it poll."""
        for seconds, ready in waits:
            self.busy.waited(seconds, ready)
            self.assertLessEqual(self.busy.expected, EXPECTED)

    def test_processors(self) -> None:
        """With one processor it never polls: it would take it from whom it waits for."""
        for number, seconds in ((1, 0.0), (2, LIMIT)):
            self.patch(busy_poll, "processors", lambda number=number: number)
            self.busy.allow(LIMIT)
            self.assertEqual(self.busy.seconds, seconds)

    def test_of(self) -> None:
        """Another reactor has none, and can be told all the same."""
        BusyPoll.of(object()).allow(LIMIT)

    def test_preemptions(self) -> None:
        self.assertGreaterEqual(preemptions(), 0)
        self.patch(busy_poll, "_THREAD", None)
        self.assertEqual(preemptions(), 0)


class ReactorTests(RealCase):
    def test_requests_in_turn(self) -> None:
        """The requests of a client, one at a time, are answered while the reactor polls, and timers are called."""
        busy = self.loop.reactor.busy
        busy.seconds = 0.001
        polled: list[int] = []
        poll = busy.poll

        def counted(*args: Any) -> Any:
            ready = poll(*args)
            polled.append(len(ready))
            return ready

        self.patch(BusyPoll, "poll", lambda _, *args: counted(*args))
        peer = self.connect()
        called: list[bool] = []
        self.loop.reactor.callLater(0.01, called.append, True)
        while not (called and polled):
            busy.expected = EXPECTED
            peer.sock.send(self.client.ask(metadata()))
            self.answers(peer, 1)
        self.assertEqual(self.factory.metrics.connections_open, 1)
