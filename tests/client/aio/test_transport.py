"""Connections of an event loop, as Twisted's protocols see them."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import IsolatedAsyncioTestCase

from twisted.internet.error import ConnectError, ConnectionDone, DNSLookupError
from twisted.internet.interfaces import IStreamClientEndpoint, ITCPTransport
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure
from zope.interface.verify import verifyObject

from logbus.client.aio.awaiting import outcome
from logbus.client.aio.event_loop import EventLoop
from logbus.client.aio.transport import LoopEndpoint


class Peer(Protocol):
    """Notes what comes."""

    def __init__(self) -> None:
        self.data = b""
        self.lost = asyncio.get_running_loop().create_future()

    def dataReceived(self, data: bytes) -> None:
        self.data += data

    def connectionLost(self, reason: Failure = None) -> None:  # type: ignore[assignment]
        self.lost.set_result(reason.type)


class TransportTests(IsolatedAsyncioTestCase):
    async def serve(self, host: str, answer: bytes = b"") -> int:
        """Begin to listen; each peer is sent the answer, and hung up on once it has said something."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.heard = await reader.read(100)
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, host, 0)
        self.addAsyncCleanup(server.wait_closed)
        self.addCleanup(server.close)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def connect(self, host: str, port: int) -> Any:
        """A connected protocol."""
        endpoint = LoopEndpoint(EventLoop(), host, port)
        verifyObject(IStreamClientEndpoint, endpoint)
        return await outcome(endpoint.connect(Factory.forProtocol(Peer)))

    async def test_both_ways(self) -> None:
        """Bytes go both ways, over IPv4 and IPv6, and the end is told."""
        for host in ("127.0.0.1", "::1"):
            port = await self.serve(host, b"answer")
            peer = await self.connect(host, port)
            verifyObject(ITCPTransport, peer.transport)
            self.assertEqual((peer.transport.getPeer().host, peer.transport.getPeer().port), (host, port))
            self.assertEqual(peer.transport.getHost().host, host)
            peer.transport.setTcpNoDelay(True)
            peer.transport.setTcpKeepAlive(True)
            self.assertTrue(peer.transport.getTcpNoDelay() and peer.transport.getTcpKeepAlive())
            peer.transport.writeSequence([b"as", b"k"])
            self.assertIs(await peer.lost, ConnectionDone)
            self.assertEqual((self.heard, peer.data), (b"ask", b"answer"))

    async def test_paused(self) -> None:
        """A paused transport delivers nothing; a producer is paused while much is unsent."""
        reading, writing, written = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await writing.wait()
            writer.write(b"first")
            await writer.drain()
            written.set()
            await reading.wait()
            while await reader.read(1 << 20):
                pass
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.addCleanup(server.close)
        peer = await self.connect("127.0.0.1", server.sockets[0].getsockname()[1])
        peer.transport.pauseProducing()
        writing.set()
        await written.wait()
        calls: list[str] = []
        resumed = asyncio.Event()

        class Producer:
            def pauseProducing(self) -> None:
                calls.append("pause")

            def resumeProducing(self) -> None:
                calls.append("resume")
                resumed.set()

        peer.transport.registerProducer(Producer(), True)
        peer.transport.write(b"x" * (16 << 20))
        self.assertEqual(calls, ["pause"])
        self.assertEqual(peer.data, b"")
        reading.set()
        await resumed.wait()
        peer.transport.unregisterProducer()
        peer.transport.resumeProducing()
        peer.transport.loseWriteConnection()
        await peer.lost
        self.assertEqual(peer.data, b"first")

    async def test_closed_here(self) -> None:
        """What was written before the end is sent; an abort sends nothing more."""
        port = await self.serve("127.0.0.1")
        peer = await self.connect("127.0.0.1", port)
        peer.transport.write(b"last words")
        peer.transport.loseConnection()
        self.assertTrue(peer.transport.disconnecting)
        await peer.lost
        peer = await self.connect("127.0.0.1", port)
        peer.transport.abortConnection()
        self.assertIs(await peer.lost, ConnectionDone)

    async def test_cannot_connect(self) -> None:
        """Errors are Twisted's; a cancelled attempt ends."""
        with self.assertRaises(ConnectError) as refused:
            await self.connect("127.0.0.1", 1)
        self.assertIsInstance(refused.exception.__cause__, OSError)
        with self.assertRaises(DNSLookupError):
            await self.connect("nowhere.invalid", 1)
        before = asyncio.all_tasks()
        connecting = LoopEndpoint(EventLoop(), "127.0.0.1", 1).connect(Factory.forProtocol(Peer))
        (task,) = asyncio.all_tasks() - before
        connecting.addErrback(lambda _: None)
        connecting.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
