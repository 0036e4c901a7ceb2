"""A client's connection."""

from __future__ import annotations

import socket
import struct
from functools import partial
from typing import Any
from unittest.mock import Mock

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.error import ConnectionLost, ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, Disconnected, ErrorCode, RequestTimedOut
from logbus.net.channel import Channel
from logbus.net.connect import connect
from logbus.testing.held_ports import HeldPorts
from logbus.timers import Timers
from logbus.wire.encoder_runtime import EncodeError
from logbus.wire.messages.api_versions import ApiVersionsResponse
from logbus.wire.messages.metadata import MetadataRequest
from logbus.wire.messages.records import TopicProduceData
from logbus.wire.version_range import VersionRange
from tests.net.fakes import Loop, Server, TemporaryFile, Wire, fetch, metadata, produce, taken
from tests.net.test_transport import RealCase


class ChannelTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.wire = Wire(Server())
        assert self.wire.server is not None
        self.handler = self.wire.server.handler
        connecting = connect(self.wire, Timers(self.clock), client_id="me", timeout=10)
        # Our highest version of ApiVersions is more than the fakes serve.
        self.handler.override = lambda context, request: (
            ApiVersionsResponse(error_code=35, api_keys=[])
            if request.unsupported
            else self.handler.answer(*self.handler.seen[-1])
        )
        self.wire.pump()
        self.handler.override = None
        self.channel: Channel = self.successResultOf(connecting)

    def lose(self) -> None:
        self.channel.connectionLost(Failure(ConnectionLost()))

    def test_answers_in_order(self) -> None:
        """
        Pipelined requests are answered each with its own.
        """
        answers = [self.channel.request(produce(1)), self.channel.request(metadata()), self.channel.request(produce(2))]
        self.wire.pump()
        first, second, third = (self.successResultOf(answer) for answer in answers)
        self.assertEqual(first.responses[0].partition_responses[0].index, 1)
        self.assertEqual(second.controller_id, 0)
        self.assertEqual(third.responses[0].partition_responses[0].index, 2)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_records_are_the_callers(self) -> None:
        """
        Records in an answer stay what they are whatever comes after it.
        """
        self.handler.records = b"the first"
        first = self.channel.request(fetch(1))
        self.wire.pump()
        self.handler.records = b"a second that is longer"
        second = self.channel.request(fetch(2))
        self.wire.pump()
        records = [bytes(self.successResultOf(each).responses[0].partitions[0].records) for each in (first, second)]
        self.assertEqual(records, [b"the first", b"a second that is longer"])

    def test_large_answers(self) -> None:
        """
        An answer of megabytes arrives whole, and its memory is not kept.
        """
        content = bytes(range(256)) * 20_000
        self.handler.records = TemporaryFile(content).slice()
        answer = self.channel.request(fetch(1))
        self.wire.far.dataReceived(taken(self.wire.transport))
        assert self.wire.far_transport is not None
        stream = taken(self.wire.far_transport)
        for at in range(0, len(stream), 65536):
            self.channel.dataReceived(stream[at : at + 65536])
        self.assertEqual(bytes(self.successResultOf(answer).responses[0].partitions[0].records), content)
        self.assertLess(self.channel._frames.capacity, 1 << 20)

    def test_no_answer_is_expected(self) -> None:
        """
        A Produce with acks=0 is sent and forgotten; what follows is answered.
        """
        self.handler.override = lambda context, request: (
            None if request.api_key == 0 else self.handler.answer(*self.handler.seen[-1])
        )
        self.channel.send(produce(1, acks=0))
        answer = self.channel.request(metadata())
        self.wire.pump()
        self.successResultOf(answer)
        self.assertEqual(self.handler.seen[-2:], [(0, 1), (3, 0)])

    def test_explicit_version(self) -> None:
        """
        The caller may choose the version; one that cannot say what is in the message is its error.
        """
        self.successResultOf_(self.channel.request(metadata(), version=1))
        self.failureResultOf(self.channel.request(MetadataRequest(topics=None), version=0), EncodeError)
        self.failureResultOf(self.channel.request(TopicProduceData(name="t", partition_data=[])))

    def successResultOf_(self, answer: Deferred[Any]) -> Any:
        self.wire.pump()
        return self.successResultOf(answer)

    def test_no_common_version(self) -> None:
        """
        What the broker does not serve, or only at versions we do not speak, is said with both sides' versions.
        """
        self.channel.versions = {0: VersionRange(100, 101)}
        for request, words in ((produce(), "serves versions 100-101"), (metadata(), "does not serve it")):
            failure = self.failureResultOf(self.channel.request(request), ApiError)
            self.assertEqual(failure.value.code, ErrorCode.UNSUPPORTED_VERSION)
            self.assertIn(words, str(failure.value))

    def test_losing_the_connection(self) -> None:
        """
        Everything unanswered fails with one clear error, and so does what is asked afterwards.
        """
        answers = [self.channel.request(metadata()), self.channel.request(produce(1))]
        lost = self.channel.when_lost()
        self.assertTrue(self.channel.usable)
        self.lose()
        for answer in answers:
            self.assertIn("was lost", str(self.failureResultOf(answer, Disconnected).value))
        self.successResultOf(lost)
        self.assertFalse(self.channel.usable)
        self.failureResultOf(self.channel.request(metadata()), Disconnected)
        self.assertRaises(Disconnected, self.channel.send, produce(acks=0))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_timeout(self) -> None:
        """
        An answer that does not come in time costs the connection, because those after it are behind it.
        """
        slow = self.channel.request(metadata(), timeout=2)
        behind = self.channel.request(produce(1))
        self.clock.advance(2)
        self.assertIn("Metadata", str(self.failureResultOf(slow, RequestTimedOut).value))
        self.failureResultOf(behind, RequestTimedOut)
        self.assertTrue(self.wire.transport.disconnected)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_timeout_per_request(self) -> None:
        """
        A long poll may be given longer than the channel's other requests.
        """
        poll = self.channel.request(fetch(1), timeout=60)
        self.clock.advance(30)
        self.assertNoResult(poll)
        self.wire.pump()
        self.successResultOf(poll)

    def test_cancelling_a_request(self) -> None:
        """
        A cancelled request's answer is dropped when it comes, and the next is not mistaken for it.
        """
        cancelled, kept = self.channel.request(produce(1)), self.channel.request(produce(2))
        cancelled.cancel()
        self.failureResultOf(cancelled, CancelledError)
        self.wire.pump()
        self.assertEqual(self.successResultOf(kept).responses[0].partition_responses[0].index, 2)

    def test_closing(self) -> None:
        """
        Closing fails what is unanswered and tells when the connection is gone.
        """
        answer = self.channel.request(metadata())
        closed = self.channel.close()
        self.failureResultOf(answer, Disconnected)
        self.assertTrue(self.wire.transport.disconnecting)
        self.assertNoResult(closed)
        self.lose()
        self.successResultOf(closed)
        self.successResultOf(self.channel.close())

    def test_nonsense_from_the_broker(self) -> None:
        """
        A response without a request, one that is too long, and one that cannot be decoded close the connection.
        """
        for data in (
            struct.pack(">iii", 8, 12345, 0),
            struct.pack(">i", 2**31 - 1),
            b"HTTP/1.1 400 Bad Request\r\n",
        ):
            self.setUp()
            answer = self.channel.request(metadata())
            self.channel.dataReceived(data)
            self.failureResultOf(answer, Disconnected)
            self.assertTrue(self.wire.transport.disconnected)
            self.channel.dataReceived(data)

    def test_asking_from_within_an_answer(self) -> None:
        """
        A callback may ask the next question, or close the channel.
        """
        first = self.channel.request(produce(1))
        chained = first.addCallback(lambda _: self.channel.request(produce(2)))
        self.wire.pump()
        self.assertEqual(self.successResultOf(chained).responses[0].partition_responses[0].index, 2)
        closing = self.channel.request(produce(3)).addCallback(lambda _: self.channel.close() and None)
        after = self.channel.request(produce(4))
        self.wire.pump()
        self.successResultOf(closing)
        self.failureResultOf(after, Disconnected)


class ArrivedSocket:
    """A socket at which these bytes have arrived; counts the calls for them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.calls = self.wakes_for = 0

    def recv_into(self, room: memoryview) -> int:
        self.calls += 1
        if not self.data:
            raise BlockingIOError
        count = min(len(room), len(self.data))
        room[:count], self.data = self.data[:count], self.data[count:]
        return count

    def setsockopt(self, level: int, option: int, value: int) -> None:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        self.wakes_for = value


class ReceivingTests(SynchronousTestCase):
    def channel(self, *, lends: bool) -> Channel:
        channel = Channel(Timers(Clock()), lends=lends)
        channel.transport = Mock(socket=ArrivedSocket(b""))
        return channel

    def receive(self, channel: Channel, data: bytes) -> int:
        """Have these bytes arrive, and be received in one turn; returns for how many the next one waits."""
        arrived: Any = channel.transport
        arrived.socket.data = data
        self.assertIs(channel._receive(), None)
        self.assertEqual(arrived.socket.data, b"")
        return int(arrived.socket.wakes_for)

    def test_a_follower_wakes_once_for_a_response(self) -> None:
        """It waits for all that is missing, within limits, and takes all that has arrived."""
        length, mega = 5 << 20, 1 << 20
        channel = self.channel(lends=True)
        self.assertEqual(self.receive(channel, struct.pack(">i", length) + bytes(1000)), 4 * mega)
        self.assertEqual(self.receive(channel, bytes(3 * mega)), 2 * mega - 1000)
        # Too early: nothing is missing less than before.
        self.assertEqual(self.receive(channel, b""), 2 * mega - 1000)
        self.assertEqual(self.receive(channel, bytes(mega)), mega - 1000)

    def test_others_wake_for_each_megabyte(self) -> None:
        """A client's kernel need not keep more for it."""
        channel = self.channel(lends=False)
        self.assertEqual(channel.room()[:4].nbytes, 4)
        channel.room()[:4] = struct.pack(">i", 5 << 20)
        self.assertEqual(channel.filled(4), 1 << 20)

    def test_a_turn_is_bounded(self) -> None:
        """A peer that sends without an end does not keep the others from their turns."""
        channel = self.channel(lends=True)
        arrived: Any = channel.transport
        arrived.socket.data = struct.pack(">i", 64 << 20) + bytes(16 << 20)
        channel._receive()
        self.assertGreater(len(arrived.socket.data), 10 << 20)
        self.assertGreater(arrived.socket.calls, 1)


class RealChannelTests(RealCase):
    def test_over_a_socket(self) -> None:
        """
        A channel over TCP negotiates with a server of ours, asks, and closes in order.
        """
        self.handler.records = TemporaryFile(bytes(3 << 20)).slice()
        self.factory.wire.served[18] = (0, 4)
        reactor = self.loop.reactor
        results: list[Any] = []
        endpoint = TCP4ClientEndpoint(reactor, "127.0.0.1", self.port.getHost().port)
        connect(endpoint, Timers(reactor), client_id="real").addBoth(results.append)
        self.loop.until(lambda: results)
        [channel] = results
        self.assertTrue(channel.transport.getTcpNoDelay())
        answers: list[Any] = []
        for request in (produce(1), fetch(2, 3 << 20), metadata()):
            channel.request(request).addBoth(answers.append)
        self.loop.until(lambda: len(answers) == 3)
        self.assertEqual(len(answers[1].responses[0].partitions[0].records), 3 << 20)
        self.assertEqual(self.handler.contexts[-1].client_id, "real")
        closed: list[Any] = []
        channel.close().addBoth(closed.append)
        self.loop.until(lambda: closed and not self.factory.metrics.connections_open)

    def test_lent(self) -> None:
        """
        Answers that are only lent come whole, whatever their size, each in the memory of the one before.
        """
        content = bytes(range(256)) * 4096 * 3
        self.factory.wire.served[18] = (0, 4)
        reactor = self.loop.reactor
        results: list[Any] = []
        endpoint = TCP4ClientEndpoint(reactor, "127.0.0.1", self.port.getHost().port)
        connect(endpoint, Timers(reactor), lends=True).addBoth(results.append)
        self.loop.until(lambda: results)
        [channel] = results
        found: list[tuple[int, bool]] = []
        kept: list[Any] = []
        wakes_for = partial(channel.transport.socket.getsockopt, socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        watched: list[int] = []
        receive = channel.transport.doRead

        def watching() -> Any:
            result = receive()
            watched.append(wakes_for())
            return result

        channel.transport.doRead = watching

        def answered(response: Any) -> None:
            records = response.responses[0].partitions[0].records
            kept.append(records)
            found.append((len(records), records == content[: len(records)]))

        for size in (3 << 20, 10, 2 << 20, 3 << 20):
            self.handler.records = TemporaryFile(content[:size]).slice()
            count = len(found)
            channel.request(fetch(2, 3 << 20)).addCallback(answered).addErrback(found.append)
            self.loop.until(lambda count=count: len(found) > count)  # type: ignore[misc]
        self.assertEqual(found, [(size, True) for size in (3 << 20, 10, 2 << 20, 3 << 20)])
        self.assertIs(kept[0].obj, kept[3].obj)
        # Of what is large it is not woken for each segment; of what may be small it is.
        self.assertGreater(max(watched), 1)
        self.assertEqual(wakes_for(), 1)
        channel.transport.abortConnection()
        lost: list[Any] = []
        channel.when_lost().addBoth(lost.append)
        self.loop.until(lambda: lost)

    def test_a_request_leaves_at_once(self) -> None:
        """
        A request is sent where it is made, unless one before it may still be on its way out: then it stays behind.
        """
        self.factory.wire.served[18] = (0, 4)
        results: list[Any] = []
        endpoint = TCP4ClientEndpoint(self.loop.reactor, "127.0.0.1", self.port.getHost().port)
        connect(endpoint, Timers(self.loop.reactor)).addBoth(results.append)
        self.loop.until(lambda: results)
        [channel] = results
        written: list[bytes] = []
        write = channel.transport.write
        channel.transport.write = lambda data: (written.append(data), write(data))
        answers: list[Any] = []
        channel.request(metadata()).addBoth(answers.append)
        self.assertEqual(written, [])
        channel.request(metadata()).addBoth(answers.append)
        self.assertEqual(len(written), 1)
        self.loop.until(lambda: len(answers) == 2)
        self.assertFalse([answer for answer in answers if isinstance(answer, Failure)])
        # It is unknown when a request without a response was sent.
        channel.send(produce(0, acks=0))
        channel.request(metadata()).addErrback(lambda _: None)
        self.assertEqual(len(written), 3)
        channel.transport.abortConnection()
        lost: list[Any] = []
        channel.when_lost().addBoth(lost.append)
        self.loop.until(lambda: lost)

    def test_request_larger_than_the_send_buffer(self) -> None:
        """
        A request larger than the socket takes at once arrives whole, and one on a broken connection fails.
        """
        self.factory.wire.served[18] = (0, 4)
        results: list[Any] = []
        endpoint = TCP4ClientEndpoint(self.loop.reactor, "127.0.0.1", self.port.getHost().port)
        connect(endpoint, Timers(self.loop.reactor)).addBoth(results.append)
        self.loop.until(lambda: results)
        [channel] = results
        channel.transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        answers: list[Any] = []
        large = produce(1)
        large.topic_data[0].partition_data[0].records = bytes(3 << 20)
        channel.request(large).addBoth(answers.append)
        self.loop.until(lambda: answers)
        self.assertNotIsInstance(answers[0], Failure)
        channel.transport.socket.shutdown(socket.SHUT_RDWR)
        channel.request(metadata()).addBoth(answers.append)
        self.loop.until(lambda: len(answers) == 2)
        self.assertIsInstance(answers[1], Failure)
        self.assertIsInstance(answers[1].value, Disconnected)

    def test_refused(self) -> None:
        """
        Without a listener the attempt fails at once.
        """
        held = HeldPorts()
        self.addCleanup(held.close)
        loop = Loop()
        self.addCleanup(loop.close)
        results: list[Any] = []
        endpoint = TCP4ClientEndpoint(loop.reactor, "127.0.0.1", held.free("127.0.0.1"))
        connect(endpoint, Timers(loop.reactor)).addBoth(results.append)
        loop.until(lambda: results)
        results[0].trap(ConnectionRefusedError)
