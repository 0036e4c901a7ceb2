"""One connection: order of responses, waiting, limits, closing."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ProtocolError
from logbus.net.connection_limits import ConnectionLimits
from logbus.net.factory import ELEMENTS_AT_ONCE
from logbus.net.sendfile import StreamTransport
from logbus.net.time_slices import UNITS
from logbus.wire.frame_buffer import FLOOR, FrameBuffer
from logbus.wire.messages.api_versions import ApiVersionsRequest
from logbus.wire.messages.records import FetchRequest
from tests.net.fakes import Client, Handler, Server, TemporaryFile, fetch, fetched, metadata, produce, produced, taken
from tests.net.time_slice_case import BusyClock

LOST = Failure(ConnectionLost())


class ManyElementsTests(SynchronousTestCase):
    """Requests with more elements than are decoded at once."""

    def setUp(self) -> None:
        self.clock = BusyClock()
        self.server = Server(clock=self.clock)
        self.handler = self.server.handler
        self.protocol, self.transport = self.server.connect()
        self.client = Client()

    def large(self, tag: int = 1, count: int = 3 * ELEMENTS_AT_ONCE) -> FetchRequest:
        request = fetch(tag)
        request.topics[0].partitions *= count
        return request

    def send(self, *messages: Any) -> None:
        self.protocol.dataReceived(b"".join(self.client.ask(message) for message in messages))

    def tags(self) -> list[int]:
        return self.client.tags(taken(self.transport))

    def test_it_is_served_in_slices(self) -> None:
        """
        Nothing is answered within the turn in which it came, others are served meanwhile, and the order is kept.
        """
        self.send(self.large(1), produce(2), fetch(3))
        self.assertEqual(self.handler.seen, [])
        other, transport = self.server.connect()
        client = Client()
        other.dataReceived(client.ask(fetch(9)))
        self.assertEqual(client.tags(taken(transport)), [9])
        self.clock.advance(0)
        self.assertEqual(self.handler.seen, [(1, 9), (1, 1), (0, 2), (1, 3)])
        self.assertEqual(self.tags(), [1, 2, 3])
        self.assertGreaterEqual(self.server.factory.shared.scheduler.slices, 1)

    def test_what_comes_meanwhile_does_no_harm(self) -> None:
        """
        The frame stays as it was while the connection receives on.
        """
        self.handler.override = lambda _, request: self.handler.answer(1, len(request.message.topics[0].partitions))
        self.send(self.large(1))
        for number in range(30):
            self.send(fetch(number))
        self.clock.advance(0)
        self.assertEqual(self.tags(), [3 * ELEMENTS_AT_ONCE, *[1] * 30])

    def test_nothing_is_done_for_a_client_that_left(self) -> None:
        """
        Decoding stops when the connection is lost.
        """
        self.send(self.large(1))
        self.protocol.connectionLost(LOST)
        self.assertEqual([call.func.__name__ for call in self.clock.getDelayedCalls()], [])
        self.clock.advance(0)
        self.assertEqual(self.handler.seen, [])

    def test_a_handler_is_cancelled_as_ever(self) -> None:
        """
        A handler that waits is cancelled when the connection is lost.
        """
        self.handler.held = {1}
        self.send(self.large(1))
        self.clock.advance(0)
        self.assertEqual(self.handler.seen, [(1, 1)])
        self.protocol.connectionLost(LOST)
        self.assertEqual(self.handler.cancelled, [1])

    def test_a_large_answer_leaves_in_slices(self) -> None:
        """
        The answer is encoded in slices; if the client leaves meanwhile, that is all.
        """
        many = fetched(1, b"")
        many.responses[0].partitions *= 2 * UNITS
        self.handler.override = lambda *_: many
        self.send(self.large(1))
        slices = self.server.factory.shared.scheduler
        while not self.handler.seen:
            self.clock.iterate()
        before = slices.slices
        while not self.transport.value():
            self.clock.iterate()
        self.assertGreaterEqual(slices.slices - before, 1)
        self.assertEqual(len(self.client.answers(taken(self.transport))[0].responses[0].partitions), 2 * UNITS)
        self.handler.seen.clear()
        self.send(self.large(1))
        while not self.handler.seen:
            self.clock.iterate()
        self.protocol.connectionLost(LOST)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_a_produce_does_not_overlap(self) -> None:
        """
        Requests after a Produce of many partitions wait until all of it was written.
        """
        request = produce(1)
        request.topic_data[0].partition_data *= 3 * ELEMENTS_AT_ONCE
        self.send(request, produce(2))
        self.assertEqual(self.handler.seen, [])
        self.clock.advance(0)
        self.assertEqual(self.handler.seen, [(0, 1), (0, 2)])
        self.assertEqual(self.tags(), [1, 2])

    def test_what_cannot_be_read_closes(self) -> None:
        """
        Damage behind the elements that are decoded at once is found, too.
        """
        data = self.client.ask(self.large(1))
        self.protocol.dataReceived((len(data) - 8).to_bytes(4, "big") + data[4:-4])
        self.clock.advance(0)
        self.assertEqual(self.handler.seen, [])
        self.assertTrue(self.transport.disconnecting)

    def test_memory_is_kept_while_the_frame_is_in_use(self) -> None:
        """
        What was reserved for a large frame is given back after it was served.
        """
        data = self.client.ask(self.large(1))
        self.assertGreater(len(data), FLOOR)
        self.handler.held = {1}
        self.protocol.dataReceived(data[:100])
        for at in range(100, len(data), 10_000):
            self.protocol.dataReceived(data[at : at + 10_000])
        self.clock.advance(0)
        held = self.server.factory.shared.budget.used
        self.protocol.memory.give_back_memory()
        self.assertEqual(self.server.factory.shared.budget.used, held)
        self.handler.release(1)
        self.clock.advance(0)
        self.protocol.memory.give_back_memory()
        self.assertEqual(self.server.factory.shared.budget.used, 0)


class OrderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.server = Server()
        self.handler = self.server.handler
        self.protocol, self.transport = self.server.connect()
        self.client = Client()

    def send(self, *messages: Any) -> None:
        self.protocol.dataReceived(b"".join(self.client.ask(message) for message in messages))

    def tags(self) -> list[int]:
        return self.client.tags(taken(self.transport))

    def test_answers_of_one_read_leave_together(self) -> None:
        """
        The replies to all requests found in one read are one write.
        """
        writes: list[bytes] = []
        self.transport.write = writes.append  # type: ignore[method-assign]
        self.send(produce(1), fetch(2), metadata())
        self.assertEqual(len(writes), 1)
        self.assertEqual(self.client.tags(writes[0]), [1, 2, -1])

    def test_a_waiting_produce_overlaps(self) -> None:
        """
        Requests after a Produce that waits for its acks are served, and answered after it.
        """
        self.handler.held = {1}
        self.send(produce(1), produce(2), fetch(3))
        self.assertEqual(self.handler.seen, [(0, 1), (0, 2), (1, 3)])
        self.assertEqual(self.tags(), [])
        self.handler.release(1)
        self.assertEqual(self.tags(), [1, 2, 3])

    def test_produces_answered_out_of_order(self) -> None:
        """
        Whatever order the acks come in, the answers keep the order of the requests.
        """
        self.handler.held = {1, 2, 3}
        self.send(produce(1), produce(2), produce(3))
        self.handler.release(2)
        self.handler.release(3)
        self.assertEqual(self.tags(), [])
        self.handler.release(1)
        self.assertEqual(self.tags(), [1, 2, 3])

    def test_a_waiting_fetch_holds_back(self) -> None:
        """
        Nothing after a long poll is begun before it is answered, and then in a turn of its own.
        """
        self.handler.held = {1}
        self.send(fetch(1), produce(2), produce(3))
        self.assertEqual(self.handler.seen, [(1, 1)])
        self.handler.release(1)
        self.assertEqual(self.tags(), [1])
        self.assertEqual(self.handler.seen, [(1, 1)])
        self.server.turn()
        self.assertEqual(self.tags(), [2, 3])

    def test_an_exclusive_produce_holds_back(self) -> None:
        """
        A Produce whose handler says so holds its successors back like anything else.
        """
        waiting: Deferred[Any] = Deferred()

        def recompress(context: Any, request: Any) -> Any:
            if self.handler.seen == [(0, 1)]:
                request.exclusive = True
                return waiting
            return produced(2)

        self.handler.override = recompress
        self.send(produce(1), produce(2))
        self.assertEqual(self.handler.seen, [(0, 1)])
        waiting.callback(produced(1))
        self.server.turn()
        self.assertEqual(self.tags(), [1, 2])

    def test_deferreds_that_have_fired(self) -> None:
        """
        An answer that is a Deferred but there already costs no turn and keeps the order.
        """
        self.handler.override = lambda context, request: succeed(self.handler.answer(*self.handler.seen[-1]))
        self.send(produce(1), fetch(2), produce(3))
        self.assertEqual(self.tags(), [1, 2, 3])

    def test_acks_0(self) -> None:
        """
        None sends nothing, now or later, and the order of the rest is kept.
        """
        later: Deferred[Any] = Deferred()
        answers = [None, later, produced(3)]
        self.handler.override = lambda context, request: answers.pop(0)
        stream = self.client.ask(produce(1, acks=0), expects_response=False)
        stream += self.client.ask(produce(2, acks=0), expects_response=False)
        self.protocol.dataReceived(stream + self.client.ask(produce(3)))
        self.assertEqual(self.tags(), [])
        later.callback(None)
        self.assertEqual(self.tags(), [3])

    @settings(max_examples=150)
    @given(st.lists(st.tuples(st.sampled_from("pfm"), st.booleans()), max_size=20), st.randoms(), st.integers(1, 400))
    def test_any_mixture(self, kinds: list[tuple[str, bool]], random: Any, step: int) -> None:
        """
        However requests are mixed, cut up and delayed, each is answered once, in order; and whenever something other
        than a Produce is unanswered, nothing after it was begun.
        """
        handler = Handler(held={tag for tag, (kind, held) in enumerate(kinds) if held})
        server = Server(handler)
        protocol, transport = server.connect()
        client = Client()
        makers = {"p": produce, "f": fetch, "m": lambda tag: metadata()}
        stream = b"".join(client.ask(makers[kind](tag)) for tag, (kind, _) in enumerate(kinds))
        for at in range(0, len(stream), step):
            protocol.dataReceived(stream[at : at + step])
            if handler.waiting and random.random() < 0.5:
                handler.release(random.choice(sorted(handler.waiting)))
            blocked = [tag for tag in handler.waiting if kinds[tag][0] == "f"]
            self.assertTrue(all(len(handler.seen) == tag + 1 for tag in blocked))
        while True:
            server.turn()
            if not handler.waiting:
                break
            handler.release(random.choice(sorted(handler.waiting)))
        expected = [-1 if kind == "m" else tag for tag, (kind, _) in enumerate(kinds)]
        self.assertEqual(client.tags(taken(transport)), expected)
        self.assertEqual(server.factory.metrics.requests_pending, 0)


class ContextTests(SynchronousTestCase):
    def test_who_asks(self) -> None:
        """
        Each request comes with its connection's number, listener, address and principal, and with its own client id.
        """
        server = Server()
        server.factory.listener = "INTERNAL"
        protocol, _ = server.connect("192.0.2.7")
        protocol.dataReceived(Client().ask(metadata()))
        [context] = server.handler.contexts
        self.assertEqual(
            (context.listener, context.host, context.port, context.principal, context.client_id),
            ("INTERNAL", "192.0.2.7", 4000, "User:ANONYMOUS", "tester"),
        )
        server.connect()
        self.assertNotEqual(context.connection_id, 0)

    def test_a_changed_client_id_changes_no_earlier_context(self) -> None:
        """
        A request that still waits keeps its client id when the connection's next one has another; what was found out
        about the software stays.
        """
        server = Server()
        protocol, _ = server.connect()
        client = Client()
        protocol.dataReceived(client.ask(metadata()))
        server.handler.contexts[0].software_name = "lib"
        client.wire.client_id = "other"
        protocol.dataReceived(client.ask(metadata()) + client.ask(metadata()))
        first, second, third = server.handler.contexts
        self.assertEqual((first.client_id, second.client_id, second.software_name), ("tester", "other", "lib"))
        self.assertIs(second, third)


class BackPressureTests(SynchronousTestCase):
    def test_too_many_pending(self) -> None:
        """
        With max_pending answers missing no further request is begun and nothing more is read, until one is there.
        """
        handler = Handler(held=set(range(10)))
        server = Server(handler, ConnectionLimits(max_pending=3))
        protocol, transport = server.connect()
        client = Client()
        protocol.dataReceived(b"".join(client.ask(produce(tag)) for tag in range(5)))
        self.assertEqual(len(handler.seen), 3)
        self.assertEqual(server.factory.metrics.requests_pending, 3)
        self.assertEqual(transport.producerState, "paused")
        handler.release(0)
        server.turn()
        self.assertEqual(len(handler.seen), 4)
        for tag in (1, 2, 3):
            handler.release(tag)
            server.turn()
        handler.release(4)
        self.assertEqual(client.tags(taken(transport)), [0, 1, 2, 3, 4])
        self.assertEqual(transport.producerState, "producing")

    def test_reading_goes_on_when_the_limit_was_only_touched(self) -> None:
        """
        Answers that are there at once leave no connection paused, however low the limit.
        """
        handler = Handler()
        handler.override = lambda context, request: succeed(handler.answer(*handler.seen[-1]))
        server = Server(handler, ConnectionLimits(max_pending=1))
        protocol, transport = server.connect()
        client = Client()
        protocol.dataReceived(b"".join(client.ask(produce(tag)) for tag in range(5)))
        self.assertEqual(client.tags(taken(transport)), [0, 1, 2, 3, 4])
        self.assertEqual(transport.producerState, "producing")

    def test_answers_that_wait_for_an_earlier_one_are_bounded(self) -> None:
        """
        Behind a Produce without its acks no more answers are collected than a peer may leave unsent.
        """
        handler = Handler(held={0}, records=bytes(30_000))
        server = Server(handler, ConnectionLimits(max_unsent=100_000))
        protocol, transport = server.connect()
        client = Client()
        protocol.dataReceived(client.ask(produce(0)) + b"".join(client.ask(fetch(tag)) for tag in range(1, 20)))
        self.assertEqual(len(handler.seen), 5)
        handler.release(0)
        for _ in range(20):
            server.turn()
        self.assertEqual(client.tags(taken(transport)), list(range(20)))

    def test_a_peer_that_never_reads(self) -> None:
        """
        While too much is unsent nothing more is served or read; when the peer takes it, everything is answered.
        """
        handler = Handler(records=bytes(10_000))
        server = Server(handler, ConnectionLimits(max_unsent=50_000))
        protocol, transport = server.connect()
        client = Client()
        carrier = transport.producer
        assert isinstance(carrier, StreamTransport)
        carrier.pauseProducing()
        stream = b"".join(client.ask(fetch(tag)) for tag in range(40))
        for at in range(0, len(stream), 100):
            protocol.dataReceived(stream[at : at + 100])
        self.assertEqual(transport.producerState, "paused")
        self.assertEqual(len(handler.seen), 5)
        self.assertLess(carrier.unsent, 70_000)
        self.assertGreaterEqual(server.factory.metrics.throttled_reads, 1)
        for _ in range(50):
            if carrier.unsent:
                carrier.resumeProducing()
            server.turn()
        self.assertEqual(client.tags(taken(transport)), list(range(40)))
        self.assertEqual(transport.producerState, "producing")

    def test_many_peers_that_never_read(self) -> None:
        """
        Together they leave no more unsent than all may, and a little each; every one is answered when it reads.
        """
        limits = ConnectionLimits(max_unsent=500_000, max_unsent_in_all=1_000_000)
        server = Server(Handler(records=bytes(70_000)), limits)
        crowd = []
        for number in range(20):
            protocol, transport = server.connect()
            client = Client()
            carrier = transport.producer
            assert isinstance(carrier, StreamTransport)
            carrier.pauseProducing()
            protocol.dataReceived(b"".join(client.ask(fetch(tag)) for tag in range(10)))
            crowd.append((protocol, transport, client, carrier))
            self.assertLessEqual(carrier.unsent, 600_000 if number < 4 else 160_000)
        unsent = server.factory.shared.unsent
        self.assertEqual(unsent.total, sum(carrier.unsent for *_, carrier in crowd))
        self.assertLess(unsent.total, 1_000_000 + 20 * 160_000)
        for protocol, transport, client, carrier in crowd[:10]:
            for _ in range(30):
                if carrier.unsent:
                    carrier.resumeProducing()
                server.turn()
            self.assertEqual(client.tags(taken(transport)), list(range(10)))
            protocol.connectionLost(LOST)
        for protocol, *_ in crowd[10:]:
            protocol.connectionLost(LOST)
        self.assertEqual(unsent.total, 0)

    def test_a_turn_is_bounded(self) -> None:
        """
        After a turn's worth of requests, or of bytes, the reactor has its turn; nothing is lost.
        """
        for limits in (ConnectionLimits(turn_requests=4), ConnectionLimits(turn_bytes=200)):
            server = Server(limits=limits)
            protocol, transport = server.connect()
            client = Client()
            protocol.dataReceived(b"".join(client.ask(produce(tag)) for tag in range(10)))
            self.assertTrue(3 <= len(server.handler.seen) <= 5, server.handler.seen)
            self.assertEqual(len(client.tags(taken(transport))), len(server.handler.seen))
            server.turn()
            server.turn()
            self.assertEqual(len(server.handler.seen), 10)
            self.assertEqual(server.clock.getDelayedCalls(), [])

    def test_memory_is_waited_for(self) -> None:
        """
        A frame beyond its share of memory is not read on before there is room; then it is served.
        """
        server = Server()
        server.factory.shared.budget.total = 200_000
        (one, _), (two, transport) = server.connect(), server.connect()
        large = Client().ask(produce(7, bytes(150_000)))
        one.dataReceived(large[:120_000])
        other = Client()
        second = other.ask(produce(8, bytes(150_000)))
        two.dataReceived(second[:90_000])
        self.assertEqual(transport.producerState, "paused")
        one.dataReceived(large[120_000:])
        self.assertEqual(server.handler.seen, [(0, 7)])
        self.assertEqual(transport.producerState, "producing")
        two.dataReceived(second[90_000:])
        self.assertEqual(server.handler.seen, [(0, 7), (0, 8)])
        for protocol in (one, two):
            protocol.connectionLost(LOST)
        self.assertEqual(server.factory.metrics.request_memory, 0)

    def test_an_announcement_takes_no_memory(self) -> None:
        """
        However many peers announce a large frame and send its first bytes, others are served as before.
        """
        server = Server()
        for _ in range(200):
            stranger, _ = server.connect()
            stranger.dataReceived(struct.pack(">i", 100 << 20) + b"\0" * 14)
        self.assertEqual(server.factory.shared.budget.used, 0)
        protocol, transport = server.connect()
        client = Client()
        request = client.ask(produce(3, bytes(2_000_000)))
        for at in range(0, len(request), 65_536):
            self.assertEqual(transport.producerState, "producing")
            protocol.dataReceived(request[at : at + 65_536])
        self.assertEqual(client.tags(taken(transport)), [3])

    def test_frames_that_are_kept_waiting_grow_nothing(self) -> None:
        """
        Behind a long poll no memory is reserved for a large frame.
        """
        server = Server(Handler(held={1}))
        protocol, _ = server.connect()
        client = Client()
        stream = client.ask(fetch(1)) + client.ask(produce(2, bytes(90_000)))
        first = len(stream) - 88_000
        protocol.dataReceived(stream[:first])
        self.assertEqual(server.factory.shared.budget.used, 0)
        server.handler.release(1)
        server.turn()
        protocol.dataReceived(stream[first : first + 80_000])
        self.assertGreater(server.factory.shared.budget.used, 70_000)

    def test_small_requests_faster_than_they_are_served(self) -> None:
        """
        A transport that has memory of its own brings no more than a little ahead of what is served, turn after turn:
        neither requests that take their time in turns nor those behind answers that are not ready pile up.
        """
        for held in (set(), set(range(1000))):
            server = Server(Handler(held=held))
            protocol, transport = server.connect()
            client = Client()
            chunk = b"".join(client.ask(metadata() if not held else fetch(n % 1000)) for n in range(1000))
            most = 0
            for _ in range(200):
                if transport.producerState == "producing":
                    protocol.dataReceived(chunk[: 1 << 16] if not most else chunk)
                for waiting in list(server.handler.waiting):
                    server.handler.release(waiting)
                server.turn()
                most = max(most, protocol.frames.held)
            self.assertLess(most, (1 << 16) + 2 * len(chunk))

    def test_a_system_without_memory(self) -> None:
        """
        When the system gives no memory for a frame, its connection is closed, with a warning, and nothing else happens.
        """
        server = Server()
        protocol, transport = server.connect()

        def none_left(size: int = 0) -> int:
            raise OSError(12, "Cannot allocate memory")

        self.patch(FrameBuffer, "grow", lambda frames, size=0: none_left())
        with Captured() as events:
            protocol.memory.memory_granted(100)
        self.assertTrue(transport.disconnecting)
        self.assertIn("no memory for its request", events[0]["problem"])


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

    def test_a_trickle_does_not_extend_it(self) -> None:
        """
        A byte now and then is not silence, and not enough.
        """
        frame = self.client.ask(produce(1, bytes(2000)))
        for at in range(9):
            self.assertEqual(self.expired(), int(at > 7), at)
            self.protocol.dataReceived(frame[at : at + 1])
            self.sweep(1)

    def test_waiting_for_memory_does_not_renew_it(self) -> None:
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

    def test_taking_answers_does_not_renew_it(self) -> None:
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


class EndTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.server = Server()
        self.handler = self.server.handler
        self.protocol, self.transport = self.server.connect()
        self.client = Client()

    def test_losing_the_connection_cancels_reads_only(self) -> None:
        """
        A long poll is cancelled with its connection; a Produce runs on, and its answer is dropped.
        """
        self.handler.held = {1, 2}
        self.protocol.dataReceived(self.client.ask(produce(1)) + self.client.ask(fetch(2)))
        self.protocol.connectionLost(LOST)
        self.assertEqual(self.handler.cancelled, [2])
        self.handler.release(1)
        self.assertEqual(taken(self.transport), b"")
        metrics = self.server.factory.metrics
        self.assertEqual((metrics.connections_open, metrics.requests_pending, metrics.failures), (0, 0, 0))
        self.assertEqual(self.server.clock.getDelayedCalls(), [])

    def test_lost_in_the_middle_of_a_turn(self) -> None:
        """
        What was put off to a later turn does not happen after the connection is gone.
        """
        server = Server(limits=ConnectionLimits(turn_requests=1))
        protocol, _ = server.connect()
        protocol.dataReceived(self.client.ask(produce(1)) + self.client.ask(produce(2)))
        protocol.connectionLost(LOST)
        self.assertEqual(server.clock.getDelayedCalls(), [])

    def test_broken_framing(self) -> None:
        """
        What was asked before is answered; then the connection is closed, counted, and said once a second for an
        address.
        """
        garbage = b"GET / HTTP/1.1\r\n\r\n"
        with self.capture() as events:
            self.protocol.dataReceived(self.client.ask(metadata()) + garbage)
            for _ in range(3):
                self.server.connect()[0].dataReceived(garbage)
            self.server.clock.advance(1.1)
            self.server.connect()[0].dataReceived(garbage)
        self.assertEqual(self.client.tags(taken(self.transport)), [-1])
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.server.factory.metrics.broken_frames, 5)
        self.assertEqual([event["suppressed"] for event in events], [0, 3])
        self.assertIn("HTTP", events[0]["problem"])

    def test_nothing_is_served_after_broken_framing(self) -> None:
        """
        More bytes on a connection that is being closed are ignored.
        """
        self.protocol.dataReceived(b"\xff" * 8)
        self.protocol.dataReceived(self.client.ask(metadata()))
        self.assertEqual(self.handler.seen, [])

    def test_a_request_not_served(self) -> None:
        """
        An API or a version we do not serve closes the connection (clients see EOF), and is no failure of ours.
        """
        self.protocol.dataReceived(self.client.ask(metadata(), version=12))
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.server.factory.metrics.failures, 0)

    def test_an_unknown_version_of_api_versions(self) -> None:
        """
        ApiVersions of a version we do not know reaches the router, and the connection lives.
        """
        self.protocol.dataReceived(self.client.ask(ApiVersionsRequest(), version=4))
        self.assertEqual(self.handler.seen, [(18, 0)])
        self.assertFalse(self.transport.disconnecting)

    def test_a_bug_in_the_router(self) -> None:
        """
        An exception is logged and counted, earlier answers leave, and the connection is closed.
        """

        def explode(context: Any, request: Any) -> Any:
            if len(self.handler.seen) == 2:
                raise RuntimeError("a bug")
            return produced(1)

        self.handler.override = explode
        self.protocol.dataReceived(b"".join(self.client.ask(produce(tag)) for tag in range(3)))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertEqual(self.client.tags(taken(self.transport)), [1])
        self.assertEqual(len(self.handler.seen), 2)
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.server.factory.metrics.failures, 1)

    def test_a_bug_found_out_later(self) -> None:
        """
        A Deferred that fails closes the connection too, and so does an answer that cannot be encoded.
        """
        wrong: list[Any] = [fail(RuntimeError("a bug")), succeed(object()), object()]
        for answer in wrong:
            self.handler.override = lambda context, request, answer=answer: answer
            protocol, transport = self.server.connect()
            protocol.dataReceived(Client().ask(produce()))
            self.assertTrue(transport.disconnecting)
        self.assertEqual(len(self.flushLoggedErrors()), 3)
        self.assertEqual(self.server.factory.metrics.failures, 3)

    def test_a_router_that_hangs_up(self) -> None:
        """
        A ProtocolError from a handler, now or later, closes the connection without being called a bug.
        """

        def refuse(context: Any, request: Any) -> Any:
            raise ProtocolError("acks=0 and no such topic")

        for override in (refuse, lambda context, request: fail(ProtocolError("no"))):
            self.handler.override = override
            protocol, transport = self.server.connect()
            protocol.dataReceived(Client().ask(produce()))
            self.assertTrue(transport.disconnecting)
        self.assertEqual(self.server.factory.metrics.failures, 0)

    def test_half_close(self) -> None:
        """
        A peer that has sent everything and only listens gets all its answers, then the connection closes.
        """
        server = Server(Handler(held={3}), ConnectionLimits(turn_requests=2))
        protocol, transport = server.connect()
        protocol.dataReceived(b"".join(self.client.ask(produce(tag)) for tag in range(5)))
        protocol.readConnectionLost()
        self.assertFalse(transport.disconnecting)
        for _ in range(3):
            server.turn()
        server.handler.release(3)
        self.assertEqual(self.client.tags(taken(transport)), [0, 1, 2, 3, 4])
        self.assertTrue(transport.disconnecting)

    def test_half_close_does_not_wait_for_a_poll(self) -> None:
        """
        The end of a peer's stream looks like its death: a long poll does not outlive it.
        """
        self.handler.held = {1}
        self.protocol.dataReceived(self.client.ask(fetch(1)))
        self.protocol.readConnectionLost()
        self.assertTrue(self.transport.disconnecting)

    def test_half_a_frame_then_the_end(self) -> None:
        """
        A frame that can never be completed is not waited for.
        """
        self.protocol.dataReceived(self.client.ask(produce())[:-1])
        self.protocol.readConnectionLost()
        self.assertTrue(self.transport.disconnecting)

    def test_slices_through_a_plain_transport(self) -> None:
        """
        Where there is no sendfile, slices are read piece by piece and arrive whole.
        """
        content = bytes(range(256)) * 3000
        self.handler.records = TemporaryFile(content).slice()
        self.protocol.dataReceived(self.client.ask(fetch(1)))
        [answer] = self.client.answers(taken(self.transport))
        self.assertEqual(bytes(answer.responses[0].partitions[0].records), content)

    def test_the_buffer_goes_back_to_its_floor(self) -> None:
        """
        A connection that had a large frame and fell silent keeps no memory.
        """
        self.protocol.dataReceived(self.client.ask(produce(1, bytes(300_000))))
        self.assertGreater(self.protocol.frames.capacity, FLOOR)
        for now in (5.0, 10.0):
            self.protocol.check(now)
        self.assertEqual((self.protocol.frames.capacity, self.server.factory.shared.budget.used), (FLOOR, 0))

    def test_done_is_done(self) -> None:
        """
        A connection closed in order leaves nothing on the clock.
        """
        self.protocol.dataReceived(self.client.ask(metadata()))
        self.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(self.server.clock.getDelayedCalls(), [])

    def capture(self) -> Any:
        return Captured()


class Captured:
    """Warnings logged within a ``with`` block."""

    def __enter__(self) -> list[dict[str, Any]]:
        from twisted.logger import LogLevel, globalLogPublisher

        self.events: list[dict[str, Any]] = []

        def observe(event: Any) -> None:
            if event["log_level"] is LogLevel.warn:
                self.events.append(event)

        self.observer = observe
        globalLogPublisher.addObserver(observe)
        return self.events

    def __exit__(self, *args: object) -> None:
        from twisted.logger import globalLogPublisher

        globalLogPublisher.removeObserver(self.observer)
