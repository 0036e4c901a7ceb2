"""Slices are sent by threads that know no Python, to whatever peer."""

from __future__ import annotations

import errno
import os
import select
import socket
from typing import Any
from unittest.mock import PropertyMock

from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logbus.net import native_sends
from logbus.net.native_sends import MOST_THREADS, NativeSends, SendThreads, threads_for
from logbus.records.file_slice import Parts, joined
from tests.net import test_transport
from tests.net.fakes import TemporaryFile, fetch, metadata
from tests.net.test_transport import CONTENT

DEADLINE_MS = 120_000


def compiled() -> type[SendThreads]:
    """The compiled class."""
    kind = native_sends.compiled_threads()
    if kind is None:
        raise SkipTest("the threads that send are not compiled")
    return kind


@define(eq=False)
class Told:
    """A connection that notes what was sent."""

    results: list[tuple[int, OSError | None]] = field(factory=list)

    def thread_sent(self, sent: int, error: OSError | None) -> None:
        self.results.append((sent, error))


class NativeSendsTests(SynchronousTestCase):
    """The threads themselves."""

    def setUp(self) -> None:
        self.sends = NativeSends(compiled()(2))
        self.addCleanup(self.end)
        self.file = TemporaryFile(CONTENT)

    def end(self) -> None:
        self.assertEqual(self.sends._waiting, {})
        self.sends.stop()

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """A socket of ours, which does not block, and its peer."""
        ours, peer = socket.socketpair()
        ours.setblocking(False)
        self.addCleanup(ours.close)
        self.addCleanup(peer.close)
        return ours, peer

    def wait(self, *told: Told) -> None:
        """Until all of these were told something."""
        while not all(one.results for one in told):
            poll = select.poll()
            poll.register(self.sends.fileno(), select.POLLIN)
            assert poll.poll(DEADLINE_MS), "nothing came from the threads"
            self.sends.doRead()

    def received(self, peer: socket.socket, size: int) -> bytes:
        """So many bytes, or fewer at the end."""
        found = bytearray()
        while len(found) < size and (more := peer.recv(1 << 16)):
            found += more
        return bytes(found)

    def test_a_range(self) -> None:
        """A range of a file arrives whole, though the socket takes only a part of it at a time."""
        ours, peer = self.pair()
        told = Told()
        part = self.file.slice().narrow(1000, 2_000_000)
        self.sends.send(told, ours.fileno(), [part])
        self.assertEqual(self.received(peer, part.length), CONTENT[1000:2_001_000])
        self.wait(told)
        self.assertEqual(told.results, [(2_000_000, None)])

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.tuples(st.booleans(), st.integers(1, 400_000)), min_size=1, max_size=8))
    def test_bytes_and_ranges(self, shapes: list[tuple[bool, int]]) -> None:
        """Bytes and ranges of files arrive in order, as one, over TCP as over any other socket."""
        parts: Parts = [self.file.slice(7, n) if file else memoryview(CONTENT)[:n] for file, n in shapes]
        expected = joined(parts)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            tcp = socket.create_connection(listening.getsockname()), listening.accept()[0]
        for ours, peer in (socket.socketpair(), tcp):
            with ours, peer:
                ours.setblocking(False)
                told = Told()
                self.sends.send(told, ours.fileno(), parts)
                self.assertEqual(self.received(peer, len(expected)), expected)
                self.wait(told)
                self.assertEqual(told.results, [(len(expected), None)])

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.tuples(st.booleans(), st.integers(1, 9000)), min_size=2, max_size=400))
    def test_many_small_ones(self, shapes: list[tuple[bool, int]]) -> None:
        """Small ranges are sent together, and arrive in order though the socket takes only a part of them at a time."""
        parts: Parts = [
            self.file.slice(n, length) if file else memoryview(CONTENT)[n : n + length]
            for n, (file, length) in enumerate(shapes)
        ]
        expected = joined(parts)
        ours, peer = self.pair()
        with ours, peer:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10_000)
            told = Told()
            self.sends.send(told, ours.fileno(), parts)
            self.assertEqual(self.received(peer, len(expected)), expected)
            self.wait(told)
            self.assertEqual(told.results, [(len(expected), None)])

    def test_a_short_file_among_small_ones(self) -> None:
        """What is before a small range that is not there any more is sent, and of that what there is."""
        ours, peer = self.pair()
        told = Told()
        parts: Parts = [b"head", self.file.slice(0, 500), b"between", self.file.slice(900, 200), b"tail"]
        self.file.truncate(1000)
        self.sends.send(told, ours.fileno(), parts)
        self.wait(told)
        self.assertEqual(told.results, [(4 + 500 + 7 + 100, None)])
        ours.close()
        self.assertEqual(self.received(peer, 5000), b"head" + CONTENT[:500] + b"between" + CONTENT[900:1000])

    def test_a_slow_peer_delays_no_other(self) -> None:
        """More peers that take nothing than there are threads; who takes what it gets has it all."""
        silent = [(self.pair(), Told()) for _ in range(6)]
        for (ours, _), told in silent:
            self.sends.send(told, ours.fileno(), [self.file.slice()])
        for _ in range(4):
            ours, peer = self.pair()
            told = Told()
            self.sends.send(told, ours.fileno(), [self.file.slice()])
            self.assertEqual(self.received(peer, len(CONTENT)), CONTENT)
            self.wait(told)
            self.assertEqual(told.results, [(len(CONTENT), None)])
        self.assertTrue(self.sends.is_busy)
        for (_, peer), _ in silent:
            peer.close()
        self.wait(*[told for _, told in silent])
        for _, told in silent:
            [(sent, error)] = told.results
            assert error is not None
            self.assertIn(error.errno, (errno.EPIPE, errno.ECONNRESET))
            self.assertLess(sent, len(CONTENT))
        self.assertFalse(self.sends.is_busy)

    def test_a_full_socket(self) -> None:
        """What a socket has not passed on yet comes before; the threads wait until it takes more."""
        ours, peer = self.pair()
        before = 0
        try:
            while True:
                before += ours.send(bytes(1 << 16))
        except BlockingIOError:
            pass
        told = Told()
        self.sends.send(told, ours.fileno(), [b"head", self.file.slice()])
        received = self.received(peer, before + 4 + len(CONTENT))
        self.assertEqual(received[before:], b"head" + CONTENT)
        self.wait(told)
        self.assertEqual(told.results, [(4 + len(CONTENT), None)])

    def test_more_peers_than_threads(self) -> None:
        """Each of many that read by turns gets everything, whichever thread sends for it at a time."""
        peers = [(*self.pair(), Told(), bytearray()) for _ in range(12)]
        for ours, _, told, _ in peers:
            self.sends.send(told, ours.fileno(), [self.file.slice(), b"tail"])
        while any(len(received) < len(CONTENT) + 4 for *_, received in peers):
            for _, peer, _, received in peers:
                if len(received) < len(CONTENT) + 4:
                    received += peer.recv(1 << 18)
        self.wait(*[told for _, _, told, _ in peers])
        for _, _, told, received in peers:
            self.assertEqual(bytes(received), CONTENT + b"tail")
            self.assertEqual(told.results, [(len(CONTENT) + 4, None)])

    def test_a_short_file(self) -> None:
        """Where the file ends before the slice, what there was is sent."""
        ours, peer = self.pair()
        part, told = self.file.slice(), Told()
        self.file.truncate(1000)
        self.sends.send(told, ours.fileno(), [part])
        self.assertEqual(self.received(peer, 1000), CONTENT[:1000])
        self.wait(told)
        self.assertEqual(told.results, [(1000, None)])

    def test_a_short_file_in_between(self) -> None:
        """What comes after a range that is not there any more is not sent."""
        ours, peer = self.pair()
        told = Told()
        parts: Parts = [b"head", self.file.slice().narrow(0, 5000), b"tail"]
        self.file.truncate(1000)
        self.sends.send(told, ours.fileno(), parts)
        self.wait(told)
        self.assertEqual(told.results, [(1004, None)])
        ours.close()
        self.assertEqual(self.received(peer, 5008), b"head" + CONTENT[:1000])

    def test_its_own_descriptor(self) -> None:
        """The owner may close the socket: once it is shut down, nothing is sent any more, and nothing is left open."""
        before = len(os.listdir("/proc/self/fd"))
        ours, peer = socket.socketpair()
        ours.setblocking(False)
        told = Told()
        self.sends.send(told, ours.fileno(), [self.file.slice()])
        ours.shutdown(socket.SHUT_RDWR)
        ours.close()
        self.wait(told)
        [(_, error)] = told.results
        assert error is not None
        self.assertEqual(error.errno, errno.EPIPE)
        peer.close()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_a_socket_that_is_none(self) -> None:
        """A descriptor that is not open is refused at once; a file that cannot be sent is reported."""
        self.assertRaises(OSError, self.sends.send, Told(), 1 << 20, [self.file.slice()])
        before = len(os.listdir("/proc/self/fd"))
        self.assertRaises(OSError, self.sends.send, Told(), self.file.slice().file.fileno(), [b"nobody waits for it"])
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        ours, _ = self.pair()
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        self.addCleanup(os.close, writing)
        told = Told()
        self.sends._threads.submit(7, ours.fileno(), [(reading, 0, 10)])
        self.sends._waiting[7] = told, [self.file.slice()]
        self.wait(told)
        [(sent, error)] = told.results
        self.assertEqual(sent, 0)
        self.assertIsNot(error, None)

    def test_busy(self) -> None:
        """One connection alone is not busy, though its last response is reported in the same turn."""
        own = self.sends.fileno()
        for ready, several in (
            ([], False),
            ([5], False),
            ([own, 5], False),
            ([5, own], False),
            ([5, 6], True),
            ([5, own, 6], True),
        ):
            self.sends.polled([(fd, select.EPOLLIN) for fd in ready])
            self.assertIs(self.sends.is_busy, several)

    def test_stopped(self) -> None:
        """After the end nothing is accepted, and nothing is left open."""
        kind = compiled()
        before = len(os.listdir("/proc/self/fd"))
        self.assertRaises(ValueError, kind, 0)
        self.assertRaises(ValueError, kind, 17)
        threads = kind(5)
        threads.stop()
        threads.stop()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        self.assertEqual((threads.fileno(), threads.take()), (-1, []))
        self.assertRaises(RuntimeError, threads.submit, 1, 0, [(0, 0, 1)])

    def test_none_can_start(self) -> None:
        """Where no thread can be started, there are none, and connections do without."""

        def refuse(number: int) -> SendThreads:
            raise RuntimeError("can't start new thread")

        self.patch(native_sends, "compiled_threads", lambda: refuse)
        self.patch(native_sends, "threads_for", lambda processors: 1)
        self.assertIs(NativeSends.start(None), None)

    def test_number(self) -> None:
        """On a single processor they would only change places with the reactor."""
        self.assertEqual([threads_for(count) for count in (1, 2, 4, 64)], [0, 3, 4, MOST_THREADS])


class BusyTransportTests(test_transport.TransportTests):
    """Connections whose slices are sent by threads."""

    def setUp(self) -> None:
        super().setUp()
        sends = NativeSends(compiled()(2))
        self.loop.reactor.addReader(sends)
        self.loop.reactor._sends = sends
        self.addCleanup(sends.stop)
        self.addCleanup(self.loop.reactor.removeReader, sends)
        self.addCleanup(self.settle, sends)
        self.patch(NativeSends, "is_busy", PropertyMock(return_value=True))
        self.sent: list[Any] = []
        original = NativeSends.send

        def send(sends: NativeSends, *given: Any) -> None:
            self.sent.append(given)
            original(sends, *given)

        self.patch(NativeSends, "send", send)

    def settle(self, sends: NativeSends) -> None:
        """Wait until nothing is being sent."""
        for connection in list(self.factory._connections):
            connection.abort()
        self.loop.until(lambda: not sends._waiting)

    def test_slices_to_a_slow_reader(self) -> None:
        super().test_slices_to_a_slow_reader()
        self.assertTrue(self.sent)

    def test_a_file_truncated_under_a_slice(self) -> None:
        super().test_a_file_truncated_under_a_slice()
        self.assertTrue(self.sent)

    def test_reset_during_a_slice(self) -> None:
        super().test_reset_during_a_slice()
        self.assertTrue(self.sent)

    def test_close_during_a_slice(self) -> None:
        """A connection that is to be closed sends what it has promised first."""
        self.handler.records = TemporaryFile(CONTENT).slice()
        peer = self.connect(receive_buffer=65536)
        transport = self.transport()
        peer.sock.send(self.client.ask(fetch(1)))
        self.loop.until(lambda: bool(self.sent))
        transport.loseConnection()
        self.loop.turns(3)
        self.loop.until(lambda: (peer.read(), peer.ended)[1])
        [answer] = self.client.answers(peer.frames())
        self.assertEqual(bytes(answer.responses[0].partitions[0].records), CONTENT)

    def test_abort_during_a_slice(self) -> None:
        """An abort does not wait for the peer."""
        self.handler.records = TemporaryFile(CONTENT).slice()
        peer = self.connect(receive_buffer=65536)
        transport = self.transport()
        peer.sock.send(self.client.ask(fetch(1)))
        self.loop.until(lambda: bool(self.sent))
        transport.abortConnection()
        self.loop.until(lambda: not self.loop.reactor._sends._waiting)
        self.loop.until(lambda: (peer.read(), peer.ended)[1])
        self.assertLess(len(peer.received), len(CONTENT))

    def test_too_many_open_files(self) -> None:
        """Without a descriptor for the thread, the reactor sends."""

        def refuse(sends: NativeSends, *given: Any) -> None:
            raise OSError(errno.EMFILE, "too many open files")

        self.patch(NativeSends, "send", refuse)
        self.handler.records = TemporaryFile(CONTENT).slice()
        peer = self.connect()
        peer.sock.send(self.client.ask(fetch(1)) + self.client.ask(metadata()))
        answer, _ = self.answers(peer, 2)
        self.assertEqual(bytes(answer.responses[0].partitions[0].records), CONTENT)
