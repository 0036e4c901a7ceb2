"""Deadlines of connections."""

from __future__ import annotations

import math

from twisted.trial.unittest import SynchronousTestCase

from logbus.net.connection_deadlines import ConnectionDeadlines, ConnectionProgress
from logbus.net.connection_limits import ConnectionLimits
from tests.net.fakes import (
    LOST,
    Client,
    Handler,
    Server,
    fetch,
    produce,
)


class UnfinishedFrameTests(SynchronousTestCase):
    """A frame that was begun has so much time; the sweep looks every five seconds."""

    def setUp(self) -> None:
        self.server = Server(Handler(records=bytes(60_000)), ConnectionLimits(max_unsent=50_000))
        self.protocol, self.transport = self.server.connect()
        self.client = Client()
        self.now = 0.0

    def sweep(self, times: int) -> None:
        for _ in range(times):
            self.now += 5.0
            self.protocol.check(self.now)

    def expired(self) -> int:
        return self.server.factory.metrics.connections_expired

    def test_trickle_does_not_extend_the_timeout(self) -> None:
        """
        A byte now and then is not silence, and not enough.
        """
        frame = self.client.ask(produce(1, bytes(2000)))
        for at in range(9):
            self.assertEqual(self.expired(), int(at > 7), at)
            self.protocol.dataReceived(frame[at : at + 1])
            self.sweep(1)

    def test_waiting_for_memory_does_not_renew_the_timeout(self) -> None:
        """
        Time in which we did not read does not count, but what went before does.
        """
        self.server.factory.shared.budget.total = 100_000
        other, _ = self.server.connect("10.0.0.2")
        large = Client().ask(produce(7, bytes(900_000)))
        other.dataReceived(large[:200_000])
        self.protocol.dataReceived(self.client.ask(produce(1, bytes(900_000)))[:90_000])
        self.assertEqual(self.transport.producerState, "paused")
        self.sweep(20)
        self.assertEqual(self.expired(), 0)
        other.connectionLost(LOST)
        self.assertEqual(self.transport.producerState, "producing")
        self.sweep(4)
        self.server.factory.shared.budget.total = 1
        self.protocol.dataReceived(bytes(400_000))
        self.sweep(4)
        self.server.factory.shared.budget.total = 100_000_000
        self.server.factory.shared.budget.release(self.protocol.memory, 1)
        self.sweep(4)
        self.assertEqual(self.expired(), 1)

    def test_reading_responses_does_not_renew_the_timeout(self) -> None:
        """
        A peer that reads its earlier answers bit by bit has no more time for its frame than others.
        """
        carrier = self.transport.producer
        carrier.pauseProducing()
        self.protocol.dataReceived(self.client.ask(fetch(1))[:10])
        self.sweep(1)
        for _ in range(7):
            carrier.unsent += 1
            self.sweep(1)
        self.assertEqual(self.expired(), 1)

    def test_a_large_frame_may_take_longer(self) -> None:
        """
        One that keeps coming at a fair rate is let through, over a slow line as well.
        """
        frame = self.client.ask(produce(1, bytes(30_000_000)))
        step = 5 * self.server.limits.frame_rate
        for at in range(0, len(frame), step):
            self.protocol.dataReceived(frame[at : at + step])
            self.sweep(1)
        self.assertEqual((self.expired(), self.server.handler.seen), (0, [(0, 1)]))


class DeadlineTests(SynchronousTestCase):
    """The deadlines by themselves."""

    def setUp(self) -> None:
        self.deadlines = ConnectionDeadlines(ConnectionLimits(frame_seconds=30.0, frame_rate=100), 0.0)

    def check(self, now: float, *progress: int, partial: bool = False, reading: bool = True) -> str | None:
        return self.deadlines.check(now, ConnectionProgress(*progress), partial=partial, reading=reading, patience=60.0)

    def test_idle(self) -> None:
        """
        A connection on which nothing moves has so much time; a request, a byte sent or a byte received renews it.
        """
        for now, moved in enumerate([(1,), (1, 5), (1, 5, 7)]):
            self.assertIsNone(self.check(50.0 * now, *moved))
            self.assertFalse(self.deadlines.is_still)
        self.assertIsNone(self.check(159.0, 1, 5, 7))
        self.assertTrue(self.deadlines.is_still)
        self.assertEqual(self.check(160.0, 1, 5, 7), "nothing moved for 60 s")

    def test_a_frame(self) -> None:
        """
        A frame has more time the more of it is there; while the connection does not read, it does not age.
        """
        self.assertIsNone(self.check(5.0, 1, 0, 200, partial=True))
        self.assertIsNone(self.check(30.0, 1, 0, 201, partial=True))
        self.assertIsNone(self.check(55.0, 1, 0, 201, partial=True))
        self.assertIsNone(self.check(500.0, 1, 0, 202, partial=True, reading=False))
        self.assertIsNone(self.check(506.0, 1, 0, 203, partial=True))
        self.assertEqual(self.check(508.0, 1, 0, 204, partial=True), "a frame was not complete after 33 s")


class IdleTests(SynchronousTestCase):
    """Peers that wait for us."""

    def test_who_had_to_wait_was_not_idle(self) -> None:
        """The time counts from when it may send again."""
        deadlines = ConnectionDeadlines(ConnectionLimits(), 0.0)
        still = ConnectionProgress(5)

        def check(now: float, patience: float) -> str | None:
            return deadlines.check(now, still, partial=False, reading=False, patience=patience)

        self.assertIsNone(check(1, 600))
        self.assertIsNone(check(10_000, math.inf))
        self.assertIsNone(check(10_599, 600))
        self.assertIsNotNone(check(10_600, 600))
