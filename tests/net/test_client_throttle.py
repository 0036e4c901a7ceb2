"""Clients over their quotas: the answer at once, and a muted connection."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.quotas.client_quota_manager import ClientQuotaManager
from logbus.quotas.quota_table import QuotaTable
from logbus.wire.connection import ClientConnection
from tests.net.fakes import LOST, Client, Handler, Server, fetch, fetched, metadata, produce, taken


class ClientThrottleTests(SynchronousTestCase):
    """A listener with quotas: 1000 bytes a second for producers, and none for the rest."""

    def setUp(self) -> None:
        self.handler = Handler()
        self.server = Server(self.handler)
        clock = self.server.clock.seconds
        self.processor = 0.0
        self.waits: list[float] = []
        self.quotas = self.server.factory.shared.client_quotas
        self.quotas.produce = ClientQuotaManager(QuotaTable(), clock, throttled=self.waits.append)
        self.quotas.request = ClientQuotaManager(QuotaTable(), clock)
        self.quotas.processor_seconds = self.quotas.wall_seconds = lambda: self.processor
        self.quotas.set({"user": None}, {"producer_byte_rate": 1000.0})
        self.protocol, self.transport = self.server.connect()
        self.client = Client()

    def send(self, *messages: Any, version: int | None = None, expects_response: bool = True) -> None:
        asked = [self.client.ask(each, version, expects_response) for each in messages]
        self.protocol.dataReceived(b"".join(asked))

    def throttled(self) -> list[int]:
        """The throttle times in the answers."""
        return [answer.throttle_time_ms for answer in self.client.answers(taken(self.transport))]

    def test_within_the_quota(self) -> None:
        """No client waits that is within its quota."""
        self.send(produce(1, bytes(400)), produce(2, bytes(400)))
        self.assertEqual(self.throttled(), [0, 0])
        self.assertEqual(self.transport.producerState, "producing")
        self.assertEqual(self.waits, [])

    def test_over_the_quota(self) -> None:
        """The answer comes at once and says how long; until then nothing is served or read, of this client only."""
        self.send(produce(1, bytes(2900)), produce(2))
        [ms] = self.throttled()
        self.assertTrue(1900 < ms < 2000, ms)
        self.assertEqual(self.transport.producerState, "paused")
        self.assertEqual(self.handler.seen, [(0, 1)])
        other, transport = self.server.connect()
        other.context.broker = 1
        other.dataReceived(Client().ask(produce(9, bytes(9000))))
        self.assertTrue(taken(transport))
        self.server.clock.advance(ms / 1000 - 0.01)
        self.assertEqual(self.handler.seen, [(0, 1), (0, 9)])
        self.server.clock.advance(0.01)
        self.assertEqual(self.handler.seen, [(0, 1), (0, 9), (0, 2)])
        self.assertEqual(len(self.waits), 2)

    def test_a_producer_that_never_waits_gets_its_quota(self) -> None:
        """Within 5 % over 30 seconds, by the mute alone."""
        for number in range(1200):
            self.send(produce(number, bytes(40)), version=3)
        size = len(Client().ask(produce(1, bytes(40)), 3)) - 4
        while self.server.clock.seconds() < 30:
            self.server.clock.advance(0.01)
        served = len(self.handler.seen) * size
        self.assertTrue(0.95 * 30_000 < served < 1.05 * 30_000, served)

    def test_no_acknowledgement(self) -> None:
        """Who wants no answers is muted, too."""
        self.send(produce(1, bytes(2900), acks=0), expects_response=False)
        self.assertEqual(self.transport.producerState, "paused")

    def test_an_answer_that_waits_for_its_acks(self) -> None:
        """The wait begins with the request, as later requests may overlap it; the answer says so when it comes."""
        self.handler.held = {1}
        self.send(produce(1, bytes(2900)), produce(2))
        self.assertEqual(self.transport.producerState, "paused")
        self.handler.release(1)
        [ms] = self.throttled()
        self.assertTrue(1900 < ms < 2000, ms)
        self.server.clock.advance(2)
        self.assertEqual(self.handler.seen, [(0, 1), (0, 2)])

    def test_what_a_handler_says(self) -> None:
        """A throttle time that the handler has set mutes the connection as well; the longest counts."""
        answers: list[Any] = []
        self.handler.override = lambda *_: answers.pop()
        for deferred in (False, True):
            answer = fetched(1, b"")
            answer.throttle_time_ms = 500
            waiting: Deferred[Any] = Deferred()
            answers.append(waiting if deferred else answer)
            self.send(fetch(1))
            waiting.callback(answer)
            self.assertEqual(self.throttled(), [500])
            self.assertEqual(self.transport.producerState, "paused")
            self.server.clock.advance(0.5)
            self.assertEqual(self.transport.producerState, "producing")

    def test_processor_time(self) -> None:
        """A client pays for its requests' processor time, in per cent of a second."""
        self.quotas.set({"user": None}, {"request_percentage": 10.0})

        def work(*_: object) -> Any:
            self.processor += 0.3
            return self.handler.answer(3, 0)

        self.handler.override = work
        self.send(metadata(), version=5)
        # 0.3 s at a tenth of a second in each, one of which is free.
        self.assertEqual(self.throttled(), [2000])
        self.server.clock.advance(2)
        self.assertEqual(self.transport.producerState, "producing")

    def test_processor_time_of_small_requests(self) -> None:
        """It is recorded in portions, on the account of who took it, and the rest when the connection ends."""
        self.quotas.set({"user": None}, {"request_percentage": 10.0})
        recorded: list[tuple[str | None, float]] = []

        class Recorded(ClientQuotaManager):
            def add(self, user: str, client_id: str | None, amount: float) -> float:
                recorded.append((client_id, round(amount, 6)))
                return 0.0

        self.quotas.request = Recorded(self.quotas.request.quotas, self.server.clock.seconds)

        def work(*_: object) -> Any:
            self.processor += 0.0002
            return self.handler.answer(3, 0)

        self.handler.override = work
        for _ in range(4):
            self.send(metadata(), version=5)
        self.assertEqual(recorded, [("tester", 0.06)])
        self.client = Client(ClientConnection("other"))
        self.send(metadata(), version=5)
        self.assertEqual(recorded[1:], [("tester", 0.02)])
        self.protocol.connectionLost(LOST)
        self.assertEqual(recorded[2:], [("other", 0.02)])

    def test_processor_time_of_later_slices(self) -> None:
        """A request of many elements is charged for its later time slices, too; the next answer says the wait."""
        self.quotas.set({"user": None}, {"request_percentage": 10.0})
        scheduler = self.server.factory.shared.scheduler
        scheduler.processor_seconds = lambda: self.processor

        async def work(request: Any) -> Any:
            time_slice = self.protocol.context.time_slice(request)
            await time_slice.next()
            self.processor += 0.4
            return self.handler.answer(3, 0)

        def later(_: object, request: Any) -> Any:
            return Deferred.fromCoroutine(work(request))

        self.handler.override = later
        self.send(metadata(), version=5)
        self.server.turn()
        self.assertEqual(self.throttled(), [0])
        self.send(metadata(), version=5)
        self.server.turn()
        self.assertEqual(self.throttled()[0], 3000)

    def test_processor_time_of_answers_that_come_later(self) -> None:
        """Encoding and sending them is charged as well."""
        self.quotas.set({"user": None}, {"request_percentage": 10.0})
        self.handler.held = {1}
        self.send(produce(1))
        send = self.transport.writeSequence

        def work(parts: Any) -> None:
            self.processor += 0.3
            send(parts)

        self.patch(self.transport, "writeSequence", work)
        self.patch(self.transport, "write", lambda data: work([data]))
        self.handler.release(1)
        self.assertEqual(self.quotas.request.wait("ANONYMOUS", "tester"), 2)

    def test_brokers_are_exempt(self) -> None:
        self.protocol.context.broker = 2
        self.quotas.set({"user": None}, {"producer_byte_rate": 1.0, "request_percentage": 0.1})
        self.send(produce(1, bytes(90_000)))
        self.assertEqual(self.throttled(), [0])
        self.assertEqual(len(self.quotas.produce), 0)

    def test_a_lost_connection_leaves_no_timer(self) -> None:
        self.send(produce(1, bytes(2900)))
        self.protocol.connectionLost(LOST)
        self.assertEqual([each.func.__name__ for each in self.server.clock.getDelayedCalls()], [])

    def test_stopping_does_not_wait(self) -> None:
        """A muted connection is closed at once when the listener is drained."""
        self.send(produce(1, bytes(90_000)), produce(2))
        self.server.factory.drain()
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.handler.seen, [(0, 1)])

    def test_a_muted_connection_is_not_idle(self) -> None:
        """It is not closed while it is muted, nor right after."""
        self.quotas.produce = ClientQuotaManager(QuotaTable(1), self.server.clock.seconds, 100_000)
        self.send(produce(1, bytes(90_000)), produce(2))
        for now in range(0, 10_000, 100):
            self.protocol.check(now)
        self.assertEqual(self.server.factory.metrics.connections_expired, 0)

    def test_a_peer_that_ends_while_it_is_muted(self) -> None:
        """What it has sent before is served."""
        self.send(produce(1, bytes(2900)), produce(2))
        self.protocol.readConnectionLost()
        self.assertFalse(self.transport.disconnecting)
        self.server.clock.advance(2)
        self.assertEqual(self.handler.seen, [(0, 1), (0, 2)])
        self.assertTrue(self.transport.disconnecting)

    def test_nobody_has_a_quota(self) -> None:
        """Requests are not even looked at."""
        self.quotas.set({"user": None}, {})

        def never(*_: object) -> float:
            raise AssertionError("looked at")

        self.patch(ClientQuotaManager, "record", never)
        self.send(produce(1, bytes(90_000)))
        self.assertEqual(self.throttled(), [0])
