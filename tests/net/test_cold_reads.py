"""Replies with data that is not in the page cache."""

from __future__ import annotations

import os
import socket
import struct
import sys
from tempfile import TemporaryDirectory
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import StorageError
from logbus.net.protocol import KafkaServerProtocol
from logbus.records.file_slice import FileSlice
from logbus.storage.filesystem.disk import Disk
from logbus.storage.filesystem.page_cache import PageCache
from tests.net.fakes import Client, Handler, Peer, Server, TemporaryFile, fetch, metadata, produce, taken
from tests.net.test_transport import RealCase
from tests.storage.filesystem.test_read_ahead import MAX_EVICTIONS, evict

CHUNK = 1 << 20
CONTENT = os.urandom(3 * CHUNK)


@define(eq=False)
class ColdFile:
    """A file whose chunks are loaded when the test says so."""

    content: TemporaryFile = field(factory=lambda: TemporaryFile(CONTENT))
    waits: list[tuple[int, int, Deferred[None]]] = field(factory=list)
    cancelled: list[Deferred[None]] = field(factory=list)
    hot: bool = False
    hot_until: int = 0
    size: int = len(CONTENT)

    def fileno(self) -> int:
        number: int = self.content.file.fileno()
        return number

    def read_ahead(self, position: int, length: int) -> Deferred[None] | None:
        if self.hot or position + length <= self.hot_until:
            return None
        done: Deferred[None] = Deferred(self.cancelled.append)
        self.waits.append((position, length, done))
        return done

    def slice(self) -> FileSlice:
        return FileSlice(self, 0, self.size)

    def loaded(self) -> None:
        self.waits[-1][2].callback(None)


class RealTransportTests(RealCase):
    """Over real sockets, by sendfile."""

    def setUp(self) -> None:
        super().setUp()
        self.file = ColdFile()
        self.handler.override = self.answer

    def answer(self, context: Any, request: Any) -> Any:
        self.handler.records = self.file.slice() if request.api_key == 1 else b""
        return self.handler.answer(request.api_key, 7)

    def ask_for_cold(self) -> Peer:
        peer = self.connect(receive_buffer=65536)
        peer.sock.send(self.client.ask(fetch(7)))
        self.loop.until(lambda: self.file.waits)
        return peer

    def run_out(self, peer: Peer) -> bytearray:
        """Have every chunk loaded as it is asked for, until the whole answer is there."""
        seen = len(self.file.waits) - 1
        received = bytearray()

        def done() -> bool:
            nonlocal seen
            if len(self.file.waits) > seen:
                seen = len(self.file.waits)
                self.file.loaded()
            peer.read()
            received.extend(peer.received)
            peer.received.clear()
            return len(received) > self.file.size

        self.loop.until(done)
        return received

    def test_others_are_not_delayed(self) -> None:
        """
        While a chunk is read for one connection others have their answers, and the reactor is idle in between.
        """
        cold = self.ask_for_cold()
        transport = self.transport()
        other = self.connect()
        client, self.client = self.client, Client()
        other.sock.send(self.client.ask(metadata()))
        self.answers(other, 1)
        self.client = client
        self.loop.turns(5)
        cold.read()
        self.assertNotIn(transport, self.loop.reactor.getWriters())
        self.assertLess(len(cold.received), 1000)
        self.assertEqual([wait[:2] for wait in self.file.waits], [(0, CHUNK)])
        self.assertEqual(self.factory.metrics.cold_reads, 1)

    def test_chunk_by_chunk(self) -> None:
        """
        The answer comes whole, and nothing of it is sent that was not loaded before.
        """
        cold = self.ask_for_cold()
        received = self.run_out(cold)
        self.assertTrue(received.endswith(CONTENT))
        self.assertEqual([wait[:2] for wait in self.file.waits], [(n * CHUNK, CHUNK) for n in range(3)])

    def test_idle_between_chunks(self) -> None:
        """
        While a later chunk is read, a writable socket does not wake the connection.
        """
        cold = self.ask_for_cold()
        transport = self.transport()
        self.file.loaded()

        def at_the_second() -> bool:
            cold.read()
            return len(self.file.waits) == 2

        self.loop.until(at_the_second)
        self.loop.turns(3)
        self.assertNotIn(transport, self.loop.reactor.getWriters())

    def test_hot_chunks_are_not_waited_for(self) -> None:
        """
        Cached data is sent at once.
        """
        self.file.hot = True
        peer = self.connect()
        peer.sock.send(self.client.ask(fetch(7)))
        answer = self.answers(peer, 1)[0]
        self.assertEqual(answer.responses[0].partitions[0].records, CONTENT)
        self.assertEqual(self.factory.metrics.cold_reads, 0)

    def test_order(self) -> None:
        """
        Later responses stay behind the one whose data is read.
        """
        self.file.size = CHUNK // 2
        cold = self.ask_for_cold()
        self.handler.override = None
        cold.sock.send(self.client.ask(produce(8)) + self.client.ask(produce(9)))
        self.loop.until(lambda: self.factory.metrics.requests >= 3)
        cold.read()
        self.assertLess(len(cold.received), 1000)
        received = self.run_out(cold)
        peer = Peer(cold.sock, received)

        def all_there() -> bool:
            peer.read()
            return len(peer.received) > self.file.size + 150

        self.loop.until(all_there)
        self.loop.turns(5)
        self.assertEqual(self.client.tags(peer.frames()), [7, 8, 9])

    def test_disconnected_peer(self) -> None:
        """
        The read is given up, and nothing is kept for a connection that is gone.
        """
        self.file.size = CHUNK // 2
        cold = self.ask_for_cold()
        transport = self.transport()
        self.reset(cold)
        self.loop.until(lambda: not self.factory._connections)
        self.assertEqual(len(self.file.cancelled), 1)
        self.assertEqual((transport.unsent, transport._send_queue.waits_for_disk), (0, False))
        self.assertNotIn(transport, self.loop.reactor.getWriters())

    def reset(self, peer: Peer) -> None:
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.sock.close()

    def test_disconnected_peer_while_reading_is_paused(self) -> None:
        """
        With so much unsent that nothing more is served, a peer's end is noticed all the same.
        """
        cold = self.ask_for_cold()
        self.reset(cold)
        self.loop.until(lambda: not self.factory._connections)
        self.assertEqual(len(self.file.waits), 1)

    def test_uncancellable_read(self) -> None:
        """
        The end of a read that could not be cancelled has no effect.
        """
        cold = self.ask_for_cold()
        transport = self.transport()
        transport.abortConnection()
        self.file.loaded()
        self.loop.until(lambda: not self.factory._connections)
        cold.read()
        self.assertLess(len(cold.received), 1000)

    def test_an_error(self) -> None:
        """
        A chunk that cannot be read ends the connection: the rest of the frame was promised.
        """
        cold = self.ask_for_cold()
        self.file.waits[-1][2].errback(StorageError("bad sector"))

        def ended() -> bool:
            cold.read()
            return cold.ended

        self.loop.until(ended)
        self.assertLess(len(cold.received), 1000)
        self.loop.until(lambda: not self.factory._connections)

    def test_a_drain_waits(self) -> None:
        """
        A broker that stops finishes the answer first.
        """
        cold = self.ask_for_cold()
        self.port.stopListening()
        drained = self.factory.drain()
        self.loop.turns(5)
        self.assertNoResult(drained)
        self.assertTrue(self.run_out(cold).endswith(CONTENT))
        self.loop.until(lambda: not self.factory._connections)
        self.successResultOf(drained)


class RealDiskTests(RealCase):
    """Over real sockets, from a file that was really dropped from the page cache."""

    def setUp(self) -> None:
        super().setUp()
        directory = TemporaryDirectory(dir=os.environ.get("TMPDIR"))
        self.addCleanup(directory.cleanup)
        self.disk = Disk(directory.name, self.loop.reactor)
        self.addCleanup(self.close)
        self.disk.open("log", True).write(0, [CONTENT])
        # As it is for a process that did not write it.
        self.file = self.disk.open("log")
        self.handler.records = FileSlice(self.file, 0, len(CONTENT))

    def close(self) -> None:
        closed: list[None] = []
        self.disk.close().addCallback(closed.append)
        self.loop.until(lambda: closed)

    def test_cold_and_hot(self) -> None:
        """
        What is cold is waited for, and comes whole; what is hot then is not.
        """
        peer = self.connect()

        def waits() -> bool:
            before = self.factory.metrics.cold_reads
            peer.sock.send(self.client.ask(fetch(7)))
            answer = self.answers(peer, 1)[0]
            self.assertEqual(answer.responses[0].partitions[0].records, CONTENT)
            return self.factory.metrics.cold_reads > before

        for _ in range(MAX_EVICTIONS):
            evict(self.file.fileno())
            if waits():  # else the device was quick enough for the look at the cache to have read all of it
                break
        else:
            self.fail("what is cold was never waited for")
        self.assertFalse(waits())

    def test_peer_disconnects_during_a_read(self) -> None:
        """The file is released when the read has ended."""
        self.patch(PageCache, "is_cold", lambda *args: True)
        cold = self.connect()
        cold.sock.send(self.client.ask(fetch(7)))
        self.loop.until(lambda: self.factory.metrics.cold_reads)
        self.transport().abortConnection()
        self.loop.until(lambda: not self.factory._connections and not self.disk.reads.running)
        self.handler.records = b""
        # What holds it still is this name, and the one the interpreter lends to the call.
        self.loop.until(lambda: sys.getrefcount(self.file) == 2)


class StreamTests(SynchronousTestCase):
    """Through a transport that has no socket of ours: read and written piece by piece."""

    def setUp(self) -> None:
        self.file = ColdFile()
        self.server = Server(Handler(records=self.file.slice()))
        self.client = Client()
        self.protocol, self.transport = self.connect()
        self.protocol.dataReceived(self.client.ask(fetch(7)))

    def connect(self) -> tuple[KafkaServerProtocol, StringTransport]:
        return self.server.connect()

    def test_in_order_and_whole(self) -> None:
        """
        Each chunk is written when it was loaded, later answers after it; others do not wait.
        """
        other, transport = self.connect()
        client = Client()
        other.dataReceived(client.ask(metadata()))
        self.assertEqual(client.tags(taken(transport)), [-1])
        self.protocol.dataReceived(self.client.ask(produce(8)))
        received = taken(self.transport)
        for n in range(3):
            self.assertLess(len(received), n * CHUNK + 1000)
            self.assertEqual(len(self.file.waits), n + 1)
            self.file.loaded()
            received += taken(self.transport)
        self.assertIn(CONTENT, received)
        self.assertEqual(self.client.tags(received), [7, 8])

    def test_a_lost_connection(self) -> None:
        """
        The read is given up.
        """
        carrier: Any = self.protocol._frame_transport
        carrier.stopProducing()
        self.assertEqual(len(self.file.cancelled), 1)
        self.assertEqual(carrier.unsent, 0)

    def test_an_error(self) -> None:
        """
        A chunk that cannot be read ends the connection.
        """
        self.file.waits[-1][2].errback(StorageError("bad sector"))
        self.assertTrue(self.transport.disconnected)

    def test_a_drain_waits(self) -> None:
        """
        The connection closes when the last chunk was written, not before.
        """
        self.protocol.drain()
        for _ in range(3):
            self.assertFalse(self.transport.disconnecting)
            self.file.loaded()
        self.assertTrue(self.transport.disconnecting)
