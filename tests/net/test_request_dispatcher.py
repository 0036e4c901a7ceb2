"""Requests of one connection: many elements, the order of responses, contexts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from logbus.net import pending_responses
from logbus.net.factory import ELEMENTS_AT_ONCE
from logbus.net.time_slices import UNITS
from logbus.wire.codegen import ELEMENTS_PER_STEP
from logbus.wire.connection import Request
from logbus.wire.frame_buffer import FLOOR
from logbus.wire.message_release import release_in_steps
from logbus.wire.messages.records import FetchRequest, FetchResponse
from tests.net.fakes import (
    LOST,
    Client,
    Handler,
    Server,
    fetch,
    fetched,
    metadata,
    produce,
    produced,
    tag_of,
    taken,
)
from tests.net.time_slice_case import BusyClock


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

    def test_many_elements_are_served_in_slices(self) -> None:
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

    def test_receiving_between_slices(self) -> None:
        """
        The frame stays as it was while the connection receives on.
        """
        self.handler.override = lambda _, request: self.handler.answer(1, len(request.message.topics[0].partitions))
        self.send(self.large(1))
        for number in range(30):
            self.send(fetch(number))
        self.clock.advance(0)
        self.assertEqual(self.tags(), [3 * ELEMENTS_AT_ONCE, *[1] * 30])

    def test_disconnect_ends_decoding(self) -> None:
        """
        Decoding stops when the connection is lost.
        """
        self.send(self.large(1))
        self.protocol.connectionLost(LOST)
        self.assertEqual([call.func.__name__ for call in self.clock.getDelayedCalls()], [])
        self.clock.advance(0)
        self.assertEqual(self.handler.seen, [])

    def test_disconnect_cancels_the_handler(self) -> None:
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

    def test_requests_that_take_long_end_the_turn(self) -> None:
        """
        A connection's turn ends when its requests have taken some milliseconds; others are served before it goes on.
        """

        def slow(_: object, request: Request) -> Any:
            self.clock.work(0.002)
            order.append(tag_of(request))
            return self.handler.answer(1, order[-1])

        order: list[int] = []
        self.handler.override = slow
        other, transport = self.server.connect()
        self.send(*(fetch(number) for number in range(1, 11)))
        self.assertLess(len(order), 6)
        other.dataReceived(Client().ask(fetch(99)))
        while len(order) < 11:
            self.clock.iterate()
        self.assertIn(99, order[:6])
        self.assertEqual([one for one in order if one != 99], list(range(1, 11)))
        self.assertEqual(self.tags(), list(range(1, 11)))
        self.assertTrue(transport.value())

    def test_both_messages_are_freed_in_slices(self) -> None:
        """
        Request and response are freed some elements at a time, before the next request is served.
        """
        turns: list[int] = []
        freed: list[int] = []

        def release(arrays: list[list[Any]]) -> Iterator[None]:
            freed.append(sum(map(len, arrays)))
            for _ in release_in_steps(arrays):
                turns.append(self.server.factory.shared.scheduler.slices)
                yield

        self.patch(pending_responses, "release_in_steps", release)
        requests: list[Request] = []

        def answer(_: object, request: Request) -> FetchResponse:
            requests.append(request)
            many = fetched(1, b"")
            many.responses[0].partitions *= 3 * UNITS
            return many

        self.handler.override = answer
        self.send(self.large(1))
        while not self.transport.value():
            self.clock.iterate()
        self.assertEqual(freed, [2], "a topic of each")
        self.assertIsNone(requests[0].message)
        self.assertGreaterEqual(len(set(turns)), 3)
        self.assertLessEqual(max(Counter(turns).values()), UNITS // ELEMENTS_PER_STEP + 2)

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

    def test_undecodable_request_closes(self) -> None:
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

    def test_responses_to_one_read_are_one_write(self) -> None:
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
    def test_request_context(self) -> None:
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
