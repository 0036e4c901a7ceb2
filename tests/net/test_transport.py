"""Our transport over real sockets."""

from __future__ import annotations

import os
import resource
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet import main
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import serverFromString
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logbus.net.connection_limits import ConnectionLimits
from logbus.net.factory import KafkaServerFactory
from logbus.net.listening_reactor import ListeningReactor
from logbus.net.shared_resources import SharedResources
from logbus.net.transport import ServerPort, ServerTransport
from tests.net.fakes import SERVED, Client, Handler, Loop, Peer, TemporaryFile, fetch, metadata, produce

CONTENT = os.urandom(3 << 20)


class RealCase(SynchronousTestCase):
    """A listener on a reactor of its own."""

    endpoint = "tcp:0:interface=127.0.0.1"
    limits = ConnectionLimits()

    def setUp(self) -> None:
        self.loop = Loop()
        self.addCleanup(self.loop.close)
        self.handler = Handler()
        self.factory = KafkaServerFactory(SERVED, self.handler, SharedResources(self.loop.reactor, self.limits))
        self.client = Client()
        self.port = self.listen(self.endpoint)

    def listen(self, endpoint: str) -> Any:
        listening = serverFromString(ListeningReactor(self.loop.reactor), endpoint).listen(self.factory)
        return self.successResultOf(listening)

    def connect(self, receive_buffer: int = 0) -> Peer:
        sock = socket.socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.connect(("127.0.0.1", self.port.getHost().port))
        sock.setblocking(False)
        self.addCleanup(sock.close)
        before = self.factory.metrics.connections_accepted
        self.loop.until(lambda: self.factory.metrics.connections_accepted > before)
        return Peer(sock)

    def transport(self) -> ServerTransport:
        """The newest connection's transport."""
        connection = list(self.factory._connections)[-1]
        assert isinstance(connection.transport, ServerTransport)
        return connection.transport

    def answers(self, peer: Peer, count: int) -> list[Any]:
        whole = bytearray()
        received: list[Any] = []

        def enough() -> bool:
            peer.read()
            whole.extend(peer.frames())
            received.extend(self.client.answers(bytes(whole)))
            whole.clear()
            return len(received) >= count

        self.loop.until(enough)
        return received


class Source:
    """A socket that receives a stream in pieces, and blocks or ends behind it; all else is the real one's."""

    def __init__(self, sock: socket.socket, stream: bytes, most: int) -> None:
        self.sock, self.stream, self.most = sock, stream, most
        self.at, self.ends = 0, False

    def recv_into(self, room: memoryview) -> int:
        piece = self.stream[self.at : self.at + min(self.most, len(room))]
        if not piece and not self.ends:
            raise BlockingIOError
        room[: len(piece)] = piece
        self.at += len(piece)
        return len(piece)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sock, name)


class TransportTests(RealCase):
    def test_our_transport_is_used(self) -> None:
        """
        An endpoint string listens with our port, and its connections answer.
        """
        self.assertIsInstance(self.port, ServerPort)
        peer = self.connect()
        self.transport()
        peer.sock.send(self.client.ask(metadata()))
        self.answers(peer, 1)

    def test_send_buffer(self) -> None:
        """
        The kernel holds as much on its way to a peer as the limits say, or what it likes.
        """
        # Linux doubles the value, for its own bookkeeping.
        sizes = {}
        for wanted in (64 * 1024, -1):
            limits = evolve(self.limits, send_buffer=wanted)
            self.factory.shared = evolve(self.factory.shared, limits=limits)
            self.connect()
            sizes[wanted] = self.transport().socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        self.assertIn(sizes[64 * 1024], (64 * 1024, 2 * 64 * 1024))
        self.assertNotEqual(sizes[-1], sizes[64 * 1024])

    def test_receive_buffer(self) -> None:
        """
        The kernel holds as much of what a client sends as the listener says; connections inherit it.
        """
        reactor = ListeningReactor(self.loop.reactor, receive_buffer=48 * 1024)
        self.port = self.successResultOf(serverFromString(reactor, self.endpoint).listen(self.factory))
        self.connect()
        size = self.transport().socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        self.assertIn(size, (48 * 1024, 2 * 48 * 1024))

    def test_requests_in_pieces(self) -> None:
        """
        A request that arrives byte by byte is served, large ones and small ones mixed.
        """
        peer = self.connect()
        stream = b"".join(self.client.ask(produce(tag, bytes(tag * 40))) for tag in range(4))
        for at in range(len(stream)):
            peer.sock.send(stream[at : at + 1])
            self.loop.reactor.iterate(0)
        self.answers(peer, 4)
        self.assertEqual(self.handler.seen, [(0, tag) for tag in range(4)])

    def test_many_small_and_large_requests(self) -> None:
        """
        Pipelined requests of all sizes are answered in order, across growth of the buffer and turns of the reactor.
        """
        peer = self.connect()
        sizes = [0, 10, 5000, 0, 300_000, 1, 1_200_000, 70_000, 3] * 8
        stream = memoryview(b"".join(self.client.ask(produce(tag, bytes(n))) for tag, n in enumerate(sizes)))
        received: list[int] = []

        def pump() -> bool:
            nonlocal stream
            if stream:
                try:
                    stream = stream[peer.sock.send(stream[:100_000]) :]
                except BlockingIOError:
                    pass
            peer.read()
            received.extend(self.client.tags(peer.frames()))
            return len(received) == len(sizes)

        self.loop.until(pump, 30)
        self.assertEqual(received, list(range(len(sizes))))

    def test_large_frames_are_received_to_their_ends(self) -> None:
        """
        The rest of a large frame is received before other connections have their turn, one frame in each, but no more
        of a very large one than a turn may take.
        """
        self.connect()
        transport = self.transport()
        sizes = [1_000_000, 1_000_000, 9_000_000]
        requests = [self.client.ask(produce(tag, bytes(n))) for tag, n in enumerate(sizes)]
        stream = b"".join(requests)
        source = Source(transport.socket, stream, 100_000)
        self.patch(transport, "socket", source)
        ends = [len(requests[0]), len(requests[0]) + len(requests[1])]
        for number, end in enumerate(ends):
            transport.doRead()
            self.assertEqual(source.at, end)
            # It may wait for the small requests of others.
            self.loop.until(lambda number=number: len(self.handler.seen) > number)  # type: ignore[misc]
        turns = 0
        while source.at < len(stream):
            before = source.at
            transport.doRead()
            self.assertLessEqual(source.at - before, 2_200_000)
            turns += 1
        self.assertEqual((source.at, turns), (len(stream), 5))
        self.loop.until(lambda: len(self.handler.seen) == 3)

    def test_a_large_frame_waits_for_its_rest(self) -> None:
        """
        A peer that stops in the middle of a large frame, or hangs up there, is not waited for.
        """
        self.connect()
        transport = self.transport()
        request = self.client.ask(produce(1, bytes(1_000_000)))
        source = Source(transport.socket, request[:500_000], 100_000)
        self.patch(transport, "socket", source)
        self.assertIsNone(transport.doRead())
        self.assertEqual((source.at, self.handler.seen), (500_000, []))
        source.stream = request
        self.assertIsNone(transport.doRead())
        self.assertEqual(self.handler.seen, [(0, 1)])
        source.stream += request[:200_000]
        source.ends = True
        self.assertIs(transport.doRead(), main.CONNECTION_DONE)

    def test_slices_to_a_slow_reader(self) -> None:
        """
        Slices of a file arrive whole and in order when the socket is full again and again in their middle.
        """
        file = TemporaryFile(CONTENT)
        self.handler.records = file.slice()
        peer = self.connect(receive_buffer=65536)
        transport = self.transport()
        transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        peer.sock.send(self.client.ask(fetch(1)) + self.client.ask(produce(2)) + self.client.ask(fetch(3)))
        self.loop.until(lambda: transport.unsent > 0)
        held: list[int] = []
        whole = bytearray()

        def enough() -> bool:
            peer.read(30_000)
            whole.extend(peer.frames())
            held.append(transport.unsent)
            return len(whole) > 2 * len(CONTENT)

        self.loop.until(enough, 30)
        first, second, third = self.client.answers(bytes(whole))
        for answer in (first, third):
            self.assertEqual(bytes(answer.responses[0].partitions[0].records), CONTENT)
        self.assertEqual(second.responses[0].partition_responses[0].index, 2)
        self.assertGreater(sum(1 for unsent in held if unsent), 20)

    def test_client_that_never_reads(self) -> None:
        """
        It costs neither memory nor anything of the others: no more than max_unsent and one answer wait for it.
        """
        self.handler.records = bytes(100_000)
        peer, other = self.connect(receive_buffer=65536), self.connect()
        request = self.client.ask(fetch(1))
        for _ in range(300):
            try:
                peer.sock.send(request * 50)
            except BlockingIOError:
                pass
            self.loop.reactor.iterate(0)
        served = len(self.handler.seen)
        silent = next(iter(self.factory._connections)).transport
        assert isinstance(silent, ServerTransport)
        self.assertLessEqual(silent.unsent, self.limits.max_unsent + 101_000)
        self.loop.turns(50)
        self.assertEqual(len(self.handler.seen), served)
        self.client = Client()
        other.sock.send(self.client.ask(metadata()))
        self.answers(other, 1)

    def test_reset_during_a_slice(self) -> None:
        """
        A reset while a file is being sent ends the connection and lets the file go.
        """
        self.handler.records = TemporaryFile(CONTENT).slice()
        peer = self.connect(receive_buffer=65536)
        transport = self.transport()
        peer.sock.send(self.client.ask(fetch(1)))
        self.loop.until(lambda: transport.unsent > 0)
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.sock.close()
        self.loop.until(lambda: not self.factory.metrics.connections_open)
        self.assertEqual(transport.unsent, 0)

    def test_a_file_truncated_under_a_slice(self) -> None:
        """
        A promised length that cannot be kept resets the connection; others live on.
        """
        file = TemporaryFile(CONTENT)
        self.handler.records = file.slice()
        peer = self.connect(receive_buffer=65536)
        transport = self.transport()
        transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        peer.sock.send(self.client.ask(fetch(1)))
        self.loop.until(lambda: transport.unsent > 0)
        file.truncate(1000)

        def ended() -> bool:
            peer.read()
            return peer.ended

        self.loop.until(ended)
        self.assertLess(len(peer.received), len(CONTENT))
        self.assertEqual(self.factory.metrics.connections_open, 0)

    def test_half_close(self) -> None:
        """
        A client that shuts down its sending side after its requests gets every answer, then the end.
        """
        self.handler.held = {199}
        peer = self.connect()
        peer.sock.setblocking(True)
        peer.sock.sendall(b"".join(self.client.ask(produce(tag)) for tag in range(200)))
        peer.sock.shutdown(socket.SHUT_WR)
        peer.sock.setblocking(False)
        self.loop.until(lambda: len(self.handler.seen) == 200)
        self.loop.turns()
        self.handler.release(199)

        def ended() -> bool:
            peer.read()
            return peer.ended

        self.loop.until(ended)
        self.assertEqual(self.client.tags(peer.frames()), list(range(200)))
        self.assertEqual(self.factory.metrics.connections_open, 0)

    def test_disconnect_during_a_long_poll(self) -> None:
        """
        The end of the connection is noticed while its long poll waits, and cancels it.
        """
        self.handler.held = {1}
        peer = self.connect()
        peer.sock.send(self.client.ask(fetch(1)) + self.client.ask(produce(2)))
        self.loop.until(lambda: self.handler.seen)
        peer.sock.close()
        self.loop.until(lambda: self.handler.cancelled == [1])
        self.assertEqual(self.handler.seen, [(1, 1)])

    def test_a_full_buffer_behind_a_poll(self) -> None:
        """
        Requests pile up in the kernel, not here, while a long poll waits; then they are served.
        """
        self.handler.held = {5000}
        peer = self.connect()
        peer.sock.send(self.client.ask(fetch(5000)))
        stream = memoryview(b"".join(self.client.ask(produce(tag)) for tag in range(1000)))
        for _ in range(200):
            if stream:
                try:
                    stream = stream[peer.sock.send(stream) :]
                except BlockingIOError:
                    pass
            self.loop.reactor.iterate(0)
        [connection] = self.factory._connections
        self.assertLessEqual(connection.frames.capacity, 65536)
        self.assertEqual(len(self.handler.seen), 1)
        self.handler.release(5000)
        self.answers(peer, 1001)

    def test_plain_write(self) -> None:
        """
        The transport is an ordinary one for callers that only write and close.
        """
        peer = self.connect()
        transport = self.transport()
        transport.write(b"abc")
        transport.writeSequence([b"d", b"ef"])
        transport.loseConnection()

        def ended() -> bool:
            peer.read()
            return peer.ended

        self.loop.until(ended)
        self.assertEqual(bytes(peer.received), b"abcdef")

    def test_writing_to_a_broken_connection(self) -> None:
        """
        An answer that finds the connection broken ends it once, in a turn of its own.
        """
        self.handler.held = {1}
        peer = self.connect()
        transport = self.transport()
        peer.sock.send(self.client.ask(produce(1)))
        self.loop.until(lambda: self.handler.waiting)
        transport.pause_reading()
        transport.startWriting()
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.sock.close()
        self.handler.release(1)
        self.loop.until(lambda: not self.factory.metrics.connections_open)
        transport.send([b"more"])
        self.assertEqual(self.factory.metrics.failures, 0)

    def test_small_segments_leave_at_once(self) -> None:
        """
        Nagle's algorithm is off: it would hold back the end of a slice for 40 ms.
        """
        self.connect()
        self.assertTrue(self.transport().getTcpNoDelay())

    def test_bulk_beside_small(self) -> None:
        """
        A client in the middle of its stream of large requests does not keep another from being served.
        """
        bulk, small = self.connect(), self.connect()
        stream = Client().ask(produce(1, bytes(1 << 20))) * 30
        rest = memoryview(stream)
        small.sock.send(self.client.ask(metadata()))
        self.loop.turns(2)
        for _ in range(20):
            try:
                rest = rest[bulk.sock.send(rest) :]
            except BlockingIOError:
                pass
            self.loop.reactor.iterate(0)
        small.read()
        self.assertEqual(self.client.tags(small.frames()), [-1])


class UnixTests(RealCase):
    def setUp(self) -> None:
        self.directory = tempfile.mkdtemp()
        self.path = str(Path(self.directory) / "socket")
        self.endpoint = f"unix:{self.path}"
        super().setUp()

    def test_over_a_unix_socket(self) -> None:
        """
        A UNIX endpoint takes the plain path and serves the same, files included.
        """
        self.handler.records = TemporaryFile(CONTENT).slice()
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(self.path)
        sock.setblocking(False)
        self.addCleanup(sock.close)
        peer = Peer(sock)
        sock.send(self.client.ask(produce(1)) + self.client.ask(fetch(2)))
        _, second = self.answers(peer, 2)
        self.assertEqual(bytes(second.responses[0].partitions[0].records), CONTENT)
        self.assertEqual(self.handler.contexts[0].host, "")


class LimitTests(RealCase):
    limits = ConnectionLimits(max_connections=3)

    def test_connection_limit(self) -> None:
        """
        A connection beyond the limit is closed at once; when another has left there is room again.
        """
        peers = [self.connect() for _ in range(3)]
        refused = socket.create_connection(("127.0.0.1", self.port.getHost().port))
        refused.setblocking(False)
        self.addCleanup(refused.close)
        extra = Peer(refused)

        def ended() -> bool:
            extra.read()
            return extra.ended

        self.loop.until(ended)
        self.assertEqual(self.factory.metrics.connections_refused, 1)
        peers[0].sock.close()
        self.loop.until(lambda: self.factory.metrics.connections_open == 2)
        self.connect()

    def test_draining(self) -> None:
        """
        A drain finishes what was begun, serves nothing new, and closes everything.
        """
        self.handler.held = {1}
        busy, idle = self.connect(), self.connect()
        busy.sock.send(self.client.ask(produce(1)))
        self.loop.until(lambda: self.handler.waiting)
        self.port.stopListening()
        drained: Deferred[None] = self.factory.drain()
        busy.sock.send(self.client.ask(produce(2)))
        self.loop.turns()
        self.assertNoResult(drained)
        self.assertEqual(self.factory.metrics.connections_open, 1)
        self.handler.release(1)

        def ended() -> bool:
            busy.read()
            idle.read()
            return busy.ended and idle.ended

        self.loop.until(ended)
        self.successResultOf(drained)
        self.assertEqual(self.handler.seen, [(0, 1)])
        self.assertEqual(self.client.tags(busy.frames()), [1])


class DescriptorTests(SynchronousTestCase):
    PROGRAM = """
import resource, socket, sys
sys.path[:0] = {path!r}
from twisted.internet.endpoints import serverFromString
from logbus.net.listening_reactor import ListeningReactor
from logbus.net.factory import KafkaServerFactory
from logbus.net.shared_resources import SharedResources
from tests.net.fakes import SERVED, Client, Handler, Loop, Peer, metadata
loop = Loop()
factory = KafkaServerFactory(SERVED, Handler(), SharedResources(loop.reactor))
ports = []
serverFromString(ListeningReactor(loop.reactor), "tcp:0:interface=127.0.0.1").listen(factory).addCallback(ports.append)
number = ports[0].getHost().port
client = Client()
question = client.ask(metadata())  # A broker has read its messages' modules by then.
peers = [socket.socket() for _ in range(40)]
used = max(sock.fileno() for sock in peers)
resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, used + 20))
for sock in peers:
    sock.setblocking(False)
    sock.connect_ex(("127.0.0.1", number))
loop.until(lambda: factory.metrics.connections_open >= 5)
loop.turns(200)
served = factory.metrics.connections_open
assert served < 40, served
first = Peer(peers[0])
first.sock.send(question)
def answers():
    first.read()
    return client.tags(first.frames())
loop.until(lambda: answers() == [-1])
for sock in peers:
    sock.close()
loop.until(lambda: factory.metrics.connections_open == 0)
again = socket.create_connection(("127.0.0.1", number))
loop.until(lambda: factory.metrics.connections_open == 1)
print("survived", served)
"""

    def test_no_descriptors_left(self) -> None:
        """
        When the process has no descriptor left, connections that exist are served, and new ones when there are again.
        """
        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 100:
            raise SkipTest("this process may not even have a hundred descriptors")
        program = self.PROGRAM.format(path=[str(Path(__file__).parents[2])])
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
        self.assertTrue(ran.stdout.startswith("survived"), ran.stderr)
