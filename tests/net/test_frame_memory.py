"""The memory of frame buffers."""

from __future__ import annotations

import struct

from twisted.trial.unittest import SynchronousTestCase

from logbus.wire import frame_buffer
from logbus.wire.buffer_pool import KEEPERS, MOST, SIZE
from logbus.wire.frame_buffer import FLOOR, LARGE
from tests.net.fakes import (
    LOST,
    CapturedWarnings,
    Client,
    Handler,
    Server,
    fetch,
    produce,
    taken,
)


class FrameMemoryTests(SynchronousTestCase):
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

    def test_no_memory_for_waiting_frames(self) -> None:
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

    def test_a_system_without_memory(self) -> None:
        """
        When the system gives no memory for a frame, its connection is closed, with a warning, and nothing else happens.
        """
        server = Server()
        protocol, transport = server.connect()

        def none_left(size: int, pool: object) -> bytearray:
            raise OSError(12, "Cannot allocate memory")

        self.patch(frame_buffer, "_memory", none_left)
        with CapturedWarnings() as events:
            protocol.memory.memory_granted(100)
        self.assertTrue(transport.disconnecting)
        self.assertIn("no memory for its request", events[0]["problem"])

    def test_buffer_shrinks(self) -> None:
        """
        A connection that had a large frame and fell silent keeps no memory.
        """
        server = Server()
        protocol, _ = server.connect()
        protocol.dataReceived(Client().ask(produce(1, bytes(300_000))))
        self.assertGreater(protocol.frames.capacity, FLOOR)
        for now in (5.0, 10.0):
            protocol.check(now)
        self.assertEqual((protocol.frames.capacity, server.factory.shared.budget.used), (FLOOR, 0))

    def test_few_keep_a_large_buffer(self) -> None:
        """
        A few connections keep a large buffer for their next frame; the others' go back to the pool after each, until
        one of the few is gone or has fallen silent.
        """
        server = Server()
        pool = server.factory.shared.buffers
        protocols = [server.connect()[0] for _ in range(KEEPERS + 2)]
        client = Client()
        for protocol in protocols:
            protocol.dataReceived(client.ask(produce(1, bytes(600_000))))
        self.assertEqual([each.frames.capacity > LARGE for each in protocols], [True] * KEEPERS + [False] * 2)
        self.assertEqual(pool.keepers, KEEPERS)
        self.assertTrue(pool.fits(SIZE))
        protocols[0].connectionLost(LOST)
        for now in (5.0, 10.0):
            protocols[1].check(now)
        self.assertEqual(pool.keepers, KEEPERS - 2)
        for protocol in protocols[KEEPERS:]:
            protocol.dataReceived(client.ask(produce(2, bytes(600_000))))
            self.assertGreater(protocol.frames.capacity, LARGE)
        self.assertEqual(pool.keepers, KEEPERS)

    def test_a_lost_connection_keeps_nothing(self) -> None:
        """
        Whatever is still called for a connection that is lost, it does not count among those that keep a buffer.
        """
        server = Server()
        protocol, _ = server.connect()
        protocol.dataReceived(Client().ask(produce(1, bytes(600_000))))
        protocol.connectionLost(LOST)
        protocol.memory.release_spare()
        self.assertEqual((server.factory.shared.buffers.keepers, server.factory.shared.budget.used), (0, 0))

    def test_a_lost_connection_frees_its_buffer(self) -> None:
        """
        The memory of a frame that does not arrive completely is freed at once, though the connection's objects stay
        until the garbage collector visits them; only a request that is still served keeps its own.
        """
        server = Server()
        protocol, _ = server.connect()
        protocol.dataReceived(Client().ask(produce(1, bytes(50_000_000)))[:40_000_000])
        self.assertGreater(protocol.frames.capacity, 40_000_000)
        protocol.connectionLost(LOST)
        self.assertEqual((protocol.frames.capacity, protocol.frames.held), (0, 0))

    def test_little_memory_is_kept_by_all(self) -> None:
        """
        Memory for frames that are not large is kept by each connection.
        """
        server = Server()
        protocols = [server.connect()[0] for _ in range(KEEPERS + 2)]
        for protocol in protocols:
            protocol.dataReceived(Client().ask(produce(1, bytes(100_000))))
        self.assertGreater(min(each.frames.capacity for each in protocols), 100_000)
        self.assertEqual(server.factory.shared.buffers.keepers, 0)

    def test_pooled_memory_is_counted_while_in_use(self) -> None:
        """
        What the pool lends counts to the memory of the connection, and is released with the frame.
        """
        server = Server()
        shared = server.factory.shared
        lent = [shared.buffers.take(SIZE) for _ in range(MOST)]
        for buffer in lent:
            shared.buffers.give_back(buffer)
        shared.buffers.keepers = KEEPERS
        protocol, _ = server.connect()
        request = Client().ask(produce(1, bytes(600_000)))
        protocol.dataReceived(request[:-1])
        self.assertGreater(shared.budget.used, 590_000)
        protocol.dataReceived(request[-1:])
        self.assertEqual(shared.budget.used, 0)
        self.assertEqual(server.handler.seen, [(0, 1)])
