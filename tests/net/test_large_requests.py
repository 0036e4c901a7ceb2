"""Large requests and the small ones of others take turns."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.large_requests import (
    FEWEST_PASSES,
    LARGE,
    MOST_CREDIT,
    MOST_PASSES,
    MOST_SECONDS,
    SOON,
    LargeRequestScheduler,
)
from logbus.net.protocol import KafkaServerProtocol
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from tests.net.fakes import LOST, Client, Server, produce, produced, tag_of, taken

TOOK = 0.001
"""Seconds to serve a large request here."""

BULK = 100
"""Requests with this tag and those above are large."""


class Connection:
    """A producer in memory."""

    def __init__(self, server: Server) -> None:
        self.protocol: KafkaServerProtocol
        self.transport: StringTransport
        self.protocol, self.transport = server.connect()
        self.client = Client()

    def send(self, *tags: int) -> None:
        messages = [produce(tag, bytes(LARGE) if tag >= BULK else b"batch") for tag in tags]
        self.protocol.dataReceived(b"".join(map(self.client.ask, messages)))

    def answered(self) -> list[int]:
        return self.client.tags(taken(self.transport))

    def ask(self, tag: int) -> list[int]:
        self.send(tag)
        return self.answered()


class LargeRequestTests(SynchronousTestCase):
    """Connections to a listener, on a virtual clock."""

    def setUp(self) -> None:
        self.server = Server()
        self.clock = self.server.clock
        self.took = TOOK
        self.server.handler.override = self.serve
        self.bulk, self.small = Connection(self.server), Connection(self.server)

    def serve(self, context: RequestContext, request: Request) -> Any:
        if request.size >= LARGE:
            # Nothing else happens meanwhile.
            self.clock.rightNow += self.took
        return produced(tag_of(request))

    def use(self, seconds: float) -> None:
        """Small requests come one after the other, often enough."""
        often = SOON / 2
        for number in range(round(seconds / often)):
            self.assertEqual(self.small.ask(number), [number])
            self.clock.advance(often)
        self.clock.advance(1e-6)  # the sum is rounded

    def test_alone(self) -> None:
        """A large request waits for nobody while nobody else has requests."""
        self.assertEqual([self.bulk.ask(tag) for tag in (100, 101, 102)], [[100], [101], [102]])

    def test_it_gives_way(self) -> None:
        """Beside small requests it waits as long as the last large one took, and nothing is received; they do not."""
        self.bulk.ask(100)
        self.small.ask(1)
        self.assertEqual(self.bulk.ask(101), [])
        self.assertEqual(self.bulk.transport.producerState, "paused")
        self.use(TOOK - SOON)
        self.assertEqual(self.bulk.answered(), [])
        self.use(SOON)
        self.assertEqual(self.bulk.answered(), [101])
        self.assertEqual(self.bulk.transport.producerState, "producing")

    def test_their_turn_is_over(self) -> None:
        """The turn of small requests begins when the last large one was served, not when the next one comes."""
        self.bulk.ask(100)
        self.use(TOOK)
        self.assertEqual(self.bulk.ask(101), [101])

    def test_the_longest_turn(self) -> None:
        """However long the last one took, it does not wait for long."""
        self.took = 1.0
        self.bulk.ask(100)
        self.small.ask(1)
        self.bulk.send(101)
        self.use(MOST_SECONDS)
        self.assertEqual(self.bulk.answered(), [101])

    def test_in_vain(self) -> None:
        """After it has waited for requests that did not come, the next ones do not wait; each time twice as many."""
        tag, passes = 100, FEWEST_PASSES
        while passes <= 2 * MOST_PASSES:
            self.bulk.ask(tag)
            self.small.ask(1)
            self.assertEqual(self.bulk.ask(tag + 1), [])
            self.clock.advance(TOOK)
            self.assertEqual(self.bulk.answered(), [tag + 1])
            for _ in range(min(passes, MOST_PASSES)):
                self.small.ask(1)
                self.assertEqual(self.bulk.ask(tag + 2), [tag + 2])
            passes *= 2
            self.clock.advance(TOOK)

    def gives_way(self, *, in_vain: bool) -> bool:
        """Whether a large request, right after another and a small one, waits; small ones come meanwhile or not."""
        self.clock.advance(TOOK)
        self.bulk.ask(100)
        self.small.ask(1)
        waited = self.bulk.ask(101) == []
        if in_vain:
            self.clock.advance(TOOK)
        else:
            self.use(TOOK)
        self.bulk.answered()
        return waited

    def test_now_and_then_in_vain(self) -> None:
        """Once small requests use their time, a few that do not stop no large one from waiting."""
        for _ in range(2):
            for _ in range(MOST_CREDIT + 2):
                self.assertTrue(self.gives_way(in_vain=False))
            for _ in range(MOST_CREDIT + 1):
                self.assertTrue(self.gives_way(in_vain=True))
            for _ in range(FEWEST_PASSES):
                self.assertFalse(self.gives_way(in_vain=True))

    def test_the_longest_waiting_first(self) -> None:
        """Several that wait are served in the order in which they came, with a turn of small ones after each."""
        others = [Connection(self.server) for _ in range(3)]
        self.bulk.ask(100)
        self.small.ask(1)
        for number, other in enumerate(others):
            other.send(101 + number)
        for number in range(3):
            self.use(TOOK)
            self.assertEqual([other.answered() for other in others], [[101 + n] * (n == number) for n in range(3)])

    def test_all_wait_in_vain(self) -> None:
        """If no small ones come, those that wait behind the first are served at once, each in a turn of its own."""
        others = [Connection(self.server) for _ in range(3)]
        self.bulk.ask(100)
        self.small.ask(1)
        for number, other in enumerate(others):
            other.send(101 + number)
        self.clock.advance(TOOK)
        for _ in others:
            self.clock.advance(0)
        self.assertEqual([other.answered() for other in others], [[101], [102], [103]])

    def test_many_that_are_large(self) -> None:
        """Once small requests use their time, all large ones give way, also those right behind another."""
        other = Connection(self.server)
        self.bulk.ask(100)
        self.small.ask(1)
        self.bulk.send(101)
        self.use(TOOK)
        self.assertEqual(self.bulk.answered(), [101])
        self.assertEqual(other.ask(102), [])
        self.use(TOOK)
        self.assertEqual(other.answered(), [102])

    def test_order_on_a_connection(self) -> None:
        """What is behind the large request of a connection stays behind it."""
        self.bulk.ask(100)
        self.small.ask(1)
        self.bulk.send(101, 2, 3)
        self.assertEqual(self.bulk.answered(), [])
        self.use(TOOK)
        self.server.turn()
        self.assertEqual(self.bulk.answered(), [101, 2, 3])

    def test_incomplete(self) -> None:
        """Nothing waits for a request of which there is only a part: it is received on."""
        self.bulk.ask(100)
        self.small.ask(1)
        frame = self.bulk.client.ask(produce(101, bytes(2 * LARGE)))
        self.bulk.protocol.dataReceived(frame[:-1])
        self.assertEqual(self.bulk.transport.producerState, "producing")
        self.clock.advance(TOOK)
        self.bulk.protocol.dataReceived(frame[-1:])
        self.assertEqual(self.bulk.answered(), [101])

    def test_disconnect(self) -> None:
        """A client that leaves while it waits is not served; those behind it are."""
        other = Connection(self.server)
        self.bulk.ask(100)
        self.small.ask(1)
        self.bulk.send(101)
        other.send(102)
        self.bulk.protocol.connectionLost(LOST)
        self.use(TOOK)
        self.assertEqual(other.answered(), [102])
        self.assertNotIn((0, 101), self.server.handler.seen)

    def test_all_disconnect(self) -> None:
        """When all that wait have left, no timer is left of them."""
        self.bulk.ask(100)
        self.small.ask(1)
        before = len(self.clock.getDelayedCalls())
        self.bulk.send(101)
        self.bulk.protocol.connectionLost(LOST)
        self.assertEqual(len(self.clock.getDelayedCalls()), before)

    def test_the_peer_sends_no_more(self) -> None:
        """A client that closes its side is answered before its connection is closed."""
        self.bulk.ask(100)
        self.small.ask(1)
        self.bulk.send(101)
        self.bulk.protocol.readConnectionLost()
        self.assertFalse(self.bulk.transport.disconnecting)
        self.use(TOOK)
        self.assertEqual(self.bulk.answered(), [101])
        self.assertTrue(self.bulk.transport.disconnecting)

    def test_shutdown(self) -> None:
        """A broker that stops serves nothing more that waits, and goes on with those behind it."""
        self.bulk.ask(100)
        self.small.ask(1)
        self.bulk.send(101)
        self.bulk.protocol.drain()
        self.clock.advance(TOOK)
        self.assertEqual(self.bulk.answered(), [])
        self.assertTrue(self.bulk.transport.disconnecting)


class LargeRequestSchedulerTests(SynchronousTestCase):
    """The scheduler alone."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.idle = 0.0
        self.scheduler = LargeRequestScheduler(self.clock, self.clock.seconds, lambda: self.idle)

    def waits(self) -> bool:
        self.scheduler.small += 1
        return self.scheduler.must_wait(lambda: None)

    def turn(self, idle: float) -> bool:
        """Whether the next large request but one gives way, after a turn with one small request."""
        self.clock.advance(TOOK)
        self.scheduler.served(self.clock.seconds() - TOOK)
        self.assertTrue(self.waits())
        self.idle += idle
        self.clock.advance(TOOK)
        self.scheduler.served(self.clock.seconds() - TOOK)
        return self.waits()

    def test_busy_in_their_turn(self) -> None:
        """Large requests have not waited in vain while the reactor did something else."""
        self.assertTrue(self.turn(idle=SOON / 2))

    def test_idle_in_their_turn(self) -> None:
        """They have if it mostly waited."""
        self.assertFalse(self.turn(idle=2 * SOON))

    def test_failure(self) -> None:
        """If something fails in the turn of one connection, that is logged, and the next has its own."""
        done = []
        self.clock.advance(TOOK)
        self.scheduler.served(0.0)
        self.scheduler.small += 1
        self.assertTrue(self.scheduler.must_wait(lambda: done.append(1 // 0)))
        self.assertTrue(self.scheduler.must_wait(lambda: done.append(2)))
        self.clock.advance(TOOK)
        self.assertEqual(done, [2])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_nobody_was_served(self) -> None:
        """If small requests waited while a thread wrote records, they have their turn."""
        self.clock.advance(TOOK)
        self.scheduler.served(0.0, others=1)
        self.assertTrue(self.waits())

    def test_others_were_served(self) -> None:
        """If others were served while a thread wrote, they had it."""
        self.clock.advance(TOOK)
        self.scheduler.served(0.0, others=2 * round(TOOK / SOON))
        self.assertFalse(self.waits())
