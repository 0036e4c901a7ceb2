"""Tests of :mod:`logbus.kafka07.protocol`, :mod:`.factory` and :mod:`.service`: a connection, without a socket."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.protocol import connectionDone
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from logbus.ilogbus import IProtocolPlugin, Listener
from logbus.kafka07 import factory as factory_module
from logbus.kafka07.factory import KafkaSevenFactory
from logbus.kafka07.plugin import KafkaSevenPlugin
from logbus.kafka07.protocol import FRAME_SECONDS, READ_SECONDS, KafkaSevenProtocol
from logbus.kafka07.requests import PARTS_PER_STEP
from tests.kafka07 import client as old
from tests.kafka07.fake_broker import FakeBroker, FakeClient

LISTENER = Listener("old", "kafka07", "tcp:0")


class Transport(StringTransport):
    """
    A transport that knows whether it is closed, and can be full.

    :ivar is_full: more is written than the peer takes.
    """

    is_full = False

    def write(self, data: bytes) -> None:
        super().write(data)
        if self.is_full and self.producer is not None:
            self.producer.pauseProducing()

    def abortConnection(self) -> None:
        self.loseConnection()


class ProtocolCase(SynchronousTestCase):
    """A connection to a broker in memory."""

    def setUp(self) -> None:
        self.broker = FakeBroker()
        made = KafkaSevenPlugin().factory(self.broker, LISTENER)
        assert isinstance(made, KafkaSevenFactory)
        self.factory = made
        self.protocol, self.transport = self.connect()

    def connect(self) -> tuple[KafkaSevenProtocol, Transport]:
        """Another connection."""
        protocol = self.factory.buildProtocol(IPv4Address("TCP", "10.0.0.1", 5))
        assert protocol is not None
        transport = Transport()
        protocol.makeConnection(transport)
        return protocol, transport

    def send(self, *data: bytes) -> list[bytes]:
        """Send bytes; the responses since the last call."""
        for each in data:
            self.protocol.dataReceived(each)
            self.broker.turn()
        return self.responses()

    def responses(self) -> list[bytes]:
        """Those since the last call."""
        data = self.transport.value()
        self.transport.clear()
        found = []
        while data:
            size = int.from_bytes(data[:4], "big")
            found.append(data[4 : 4 + size])
            data = data[4 + size :]
        return found

    def warnings(self) -> list[str]:
        """The lines about connections that were closed."""
        return [event["problem"] for event in self.logged]

    def run(self, result: Any = None) -> Any:
        from twisted.logger import globalLogPublisher

        self.logged: list[Any] = []

        def note(event: Any) -> None:
            if "problem" in event:
                self.logged.append(event)

        globalLogPublisher.addObserver(note)
        try:
            return super().run(result)
        finally:
            globalLogPublisher.removeObserver(note)


class Requests(ProtocolCase):
    def test_all_of_them(self) -> None:
        """
        Produce and multi-produce have no response; fetch, multi-fetch and offsets have one each, in order.
        """
        self.assertEqual(self.send(old.produce("t", 0, old.message(b"a"), old.message(b"b"))), [])
        self.assertEqual(self.send(old.multi_produce(("t", 0, old.message(b"c")), ("u", 0, old.message(b"d")))), [])
        one, several, end = self.send(
            old.fetch("t", 0, 11) + old.multi_fetch(("u", 0, 0, 100), ("t", 0, 1, 100)) + old.offsets("t", 0, -1, 5)
        )
        self.assertEqual([each.payload for each in old.read_set(old.checked(one), 0)[0]], [b"b", b"c"])
        first, second = old.read_multi(several)
        self.assertEqual(old.read_set(old.checked(first), 0)[0][0].payload, b"d")
        self.assertRaisesRegex(old.Failed, "code 1", old.checked, second)
        self.assertEqual(old.read_offsets(end), [33, 0])
        self.assertEqual(self.transport.producerState, "producing")

    def test_codes(self) -> None:
        """
        Errors of reading are codes, and the connection stays; a topic that nobody wrote to is empty, as it was in 0.7.
        """
        self.broker.log().append(b"a")
        for request, code in (
            (old.fetch("t", 0, 5), 1),
            (old.fetch("t", 1, 0), 3),
            (old.fetch("t", 0, 0, -1), 4),
            (old.offsets("t", 7, -1), 3),
        ):
            with self.assertRaises(old.Failed) as failed:
                old.checked(self.send(request)[0])
            self.assertEqual(failed.exception.code, code)
        self.assertEqual(old.checked(self.send(old.fetch("none", 0, 0))[0]), b"")
        self.assertEqual(old.read_offsets(self.send(old.offsets("none", 0, -2))[0]), [0])
        self.assertEqual(old.read_offsets(self.send(old.offsets("none", 0, 1234))[0]), [])
        self.broker.leader = 1
        self.assertRaisesRegex(old.Failed, "code 3", old.checked, self.send(old.fetch("t", 0, 0))[0])
        self.assertFalse(self.transport.disconnecting)

    def test_rights(self) -> None:
        """
        Without a right to read, the code is −1; without one to write, the connection is closed: nobody would know.
        """
        self.broker.client_made.forbidden = frozenset({"read", "write", "describe"})
        for request in (old.fetch("t", 0, 0), old.offsets("t", 0, -1)):
            self.assertRaisesRegex(old.Failed, "code -1", old.checked, self.send(request)[0])
        self.send(old.produce("t", 0, old.message(b"a")))
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.broker.logs, {})
        self.assertEqual(self.warnings(), ["User:old lacks write on t"])

    def test_quotas(self) -> None:
        """
        Who is over a quota is not listened to for so long.
        """
        self.broker.client_made.quota = 20
        self.send(old.produce("t", 0, old.message(b"a")))
        self.assertEqual(self.transport.producerState, "paused")
        self.protocol.dataReceived(old.offsets("t", 0, -1))
        self.broker.turn()
        self.assertEqual(self.responses(), [])
        self.broker.reactor.advance(60)
        self.broker.turn()
        self.assertEqual(len(self.responses()), 1)
        self.assertEqual(self.transport.producerState, "producing")

    def test_random_partition(self) -> None:
        """
        For partition −1 the broker chooses one that it leads.
        """
        for partition in range(3):
            self.broker.log("t", partition)
        self.factory.service._choose = max
        self.send(old.produce("t", -1, old.message(b"a")))
        self.assertEqual([self.broker.log("t", n).end for n in range(3)], [0, 0, 1])
        self.send(old.produce("new", -1, old.message(b"a")))
        self.assertEqual(self.broker.log("new").end, 1)

    def test_nothing_of_a_bad_set_is_written(self) -> None:
        """
        A set is checked before any of it is written.
        """
        self.send(old.produce("t", 0, old.message(b"a"), old.message(b"b")[:-1] + b"c"))
        self.assertEqual(self.broker.logs, {})
        self.assertTrue(self.transport.disconnecting)
        self.assertRegex(self.warnings()[0], "CRC")

    def test_refused_by_the_log(self) -> None:
        """
        What the log does not take closes the connection.
        """
        self.send(old.produce("full", 0, old.message(b"a")))
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.warnings(), ["too large"])

    def test_room(self) -> None:
        """
        The parts of a multi-fetch share the room of a response; one that finds none is empty, and not cut.
        """
        for topic in "tuv":
            self.broker.log(topic).append(b"x" * 90, b"y" * 90)
        self.patch(factory_module, "MAX_RESPONSE", 250)
        answer = self.send(old.multi_fetch(*((topic, 0, 0, 1000) for topic in "tuv")))[0]
        self.assertEqual([len(old.checked(each)) for each in old.read_multi(answer)], [200, 0, 0])

    def test_many_parts(self) -> None:
        """
        A request of very many parts, of which none waits for anything, leaves room for the requests of others.
        """
        self.broker.log().append(b"a")
        many = 20 * PARTS_PER_STEP
        read = [("none", 0, 0, 9), ("t", 9, 0, 9), ("t", 0, 11, 9), ("t", 0, 7, 9)]
        written = [("t", 0, b""), ("t", -1, b""), ("t", -1, old.message(b"b")), ("t", 0, b"")]
        for request in (old.multi_fetch(*read * (many // 4)), old.multi_produce(*written * (many // 4))):
            topics, turns = self.count_calls(self.broker, "topics"), self.count_calls(self.broker.reactor, "callLater")
            self.protocol.dataReceived(request)
            self.broker.turn()
            # They are decoded, and then served.
            self.assertGreaterEqual(len(turns), 2 * (many // PARTS_PER_STEP - 1))
            self.assertEqual(len(topics), 1)
        self.assertEqual(self.broker.log().end, 1 + many // 4)
        [answer] = self.responses()
        self.assertEqual(len(old.read_multi(answer)), many)

    def count_calls(self, called: Any, name: str) -> list[None]:
        """A list that grows with each call of a method."""
        calls: list[None] = []
        method = getattr(type(called), name)

        def counted(*given: Any) -> Any:
            calls.append(None)
            return method(*given)

        self.patch(type(called), name, counted)
        return calls

    @given(st.lists(st.integers(1, 20), max_size=40))
    def test_chunking_is_invisible(self, steps: list[int]) -> None:
        """
        The same responses come however the stream was cut up.
        """
        self.protocol, self.transport = self.connect()
        stream = old.offsets("none", 0, -1) + old.fetch("none", 0, 0) + old.multi_fetch(("none", 0, 0, 9))
        chunks = []
        for step in steps:
            chunks.append(stream[:step])
            stream = stream[step:]
        answers = self.send(*chunks, stream)
        self.assertEqual([len(each) for each in answers], [14, 2, 8])
        self.protocol.connectionLost(connectionDone)


class Connections(ProtocolCase):
    def test_nonsense(self) -> None:
        """
        A frame that is none closes the connection, with one line; what follows is ignored.
        """
        for data in (b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n", old.framed(b"\x00\x09"), old.framed(b"")):
            self.protocol, self.transport = self.connect()
            self.broker.reactor.advance(2)
            before = len(self.logged)
            self.send(data, old.offsets("t", 0, -1))
            self.assertTrue(self.transport.disconnecting)
            self.assertEqual(self.transport.value(), b"")
            self.assertEqual(len(self.logged) - before, 1)

    def test_lines_are_limited(self) -> None:
        """
        An address gets one line a second.
        """
        for _ in range(3):
            self.protocol, self.transport = self.connect()
            self.send(old.framed(b""))
        self.assertEqual(len(self.logged), 1)

    def test_a_request_that_does_not_end(self) -> None:
        """
        A request must be complete after a minute; a connection without one may be idle for ever.
        """
        self.broker.reactor.advance(FRAME_SECONDS * 10)
        self.send(old.fetch("none", 0, 0)[:9])
        self.broker.reactor.advance(FRAME_SECONDS - 1)
        self.send(old.fetch("none", 0, 0)[9:])
        self.broker.reactor.advance(FRAME_SECONDS)
        self.assertFalse(self.transport.disconnecting)
        self.send(b"\x00")
        self.broker.reactor.advance(FRAME_SECONDS)
        self.assertTrue(self.transport.disconnecting)

    def test_a_client_that_does_not_read(self) -> None:
        """
        Nothing is served while its responses are not taken; after two minutes it is hung up on.
        """
        self.transport.is_full = True
        self.assertEqual(len(self.send(old.fetch("none", 0, 0) * 3)), 1)
        self.assertEqual(self.transport.producerState, "paused")
        self.protocol.resumeProducing()
        self.broker.turn()
        self.assertEqual(len(self.responses()), 1)
        self.broker.reactor.advance(READ_SECONDS)
        self.assertTrue(self.transport.disconnecting)

    def test_too_many(self) -> None:
        """
        More connections than may be are closed.
        """
        self.factory.most_connections = 1
        self.assertIsNone(self.factory.buildProtocol(IPv4Address("TCP", "10.0.0.2", 6)))
        self.protocol.connectionLost(connectionDone)
        self.assertIsNotNone(self.factory.buildProtocol(IPv4Address("TCP", "10.0.0.2", 6)))

    def test_no_memory_for_requests(self) -> None:
        """
        When unfinished requests take too much, those that send more are closed.
        """
        self.patch(factory_module, "MOST_HELD", 20_000)
        self.send(old.framed(bytes(100_000))[:30_000])
        self.assertTrue(self.transport.disconnecting)
        self.assertRegex(self.warnings()[0], "no memory for a request of 100004 bytes")
        self.protocol.connectionLost(connectionDone)
        self.assertFalse(self.factory.is_full)

    def test_a_stop(self) -> None:
        """
        What was read is written before the connections are closed, and the index has the end.
        """
        self.broker.log().append(b"before")
        self.send(old.offsets("t", 0, -1))
        self.broker.waiting = Deferred()
        self.send(old.produce("t", 0, old.message(b"a")))
        drained = self.factory.drain()
        self.assertNoResult(drained)
        self.assertFalse(self.transport.disconnecting)
        self.broker.waiting.callback(None)
        self.broker.turn()
        self.successResultOf(drained)
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(len(self.broker.files["t", 0].content), 24 + 2 * 28)
        self.assertEqual([call for call in self.broker.reactor.getDelayedCalls() if call.getTime() > 0], [])

    def test_the_plugin(self) -> None:
        """
        Listeners of one broker share its positions.
        """
        plugin = KafkaSevenPlugin()
        verifyObject(IProtocolPlugin, plugin)
        first, second = (plugin.factory(self.broker, LISTENER) for _ in range(2))
        assert isinstance(first, KafkaSevenFactory) and isinstance(second, KafkaSevenFactory)
        self.assertIs(first.service, second.service)
        self.assertEqual(FakeClient().principal, "User:old")
