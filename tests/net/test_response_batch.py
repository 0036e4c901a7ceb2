"""Small responses of many connections are sent by one system call, to whatever peer."""

from __future__ import annotations

import errno
import os
import resource
import socket
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.error import ConnectionLost
from twisted.python.failure import Failure
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logbus.net import response_batch
from logbus.net.reactor import BrokerReactor
from logbus.net.response_batch import LARGEST, MOST, BatchedSend, ResponseBatch
from logbus.net.sendfile import small_bytes
from logbus.records.file_slice import FileSlice
from tests.net import test_transport
from tests.net.fakes import TemporaryFile, metadata


def compiled(with_ring: bool = True) -> BatchedSend:
    """One of the compiled class."""
    kind = response_batch.compiled_send()
    if kind is None:
        raise SkipTest("what sends many is not compiled")
    return kind(with_ring)


def fill(sock: socket.socket) -> None:
    """Send until a socket takes nothing more."""
    while True:
        try:
            sock.send(bytes(1 << 16))
        except BlockingIOError:
            return


def rings() -> set[int]:
    """The descriptors of rings."""
    found = set()
    for each in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{each}")
        except FileNotFoundError:
            continue  # That of the listing.
        if "io_uring" in target:
            found.add(int(each))
    return found


class BatchedSendTests(SynchronousTestCase):
    """One send after the other, without a ring."""

    with_ring = False

    def setUp(self) -> None:
        self.batched = compiled(self.with_ring)
        if self.with_ring and not self.batched.has_ring:
            raise SkipTest("the system gives no ring")

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """A socket of ours, and its peer."""
        ours, peer = socket.socketpair()
        for sock in (ours, peer):
            sock.setblocking(False)
            self.addCleanup(sock.close)
        return ours, peer

    def send(self, ours: Sequence[socket.socket], data: list[bytes]) -> list[int]:
        return self.batched.send([sock.fileno() for sock in ours], data)

    def test_every_number(self) -> None:
        """Each peer gets its bytes, and each result is its socket's."""
        pairs = [self.pair() for _ in range(MOST)]
        for count in (0, 1, 2, 3, MOST - 1, MOST):
            data = [bytes([index]) * (index + 1) for index in range(count)]
            self.assertEqual(self.send([ours for ours, _ in pairs[:count]], data), [len(one) for one in data])
            self.assertEqual([peer.recv(1000) for _, peer in pairs[:count]], data)

    def test_one_socket_more_than_once(self) -> None:
        """Its bytes arrive in order."""
        ours, peer = self.pair()
        data = [b"%03d" % index for index in range(MOST)]
        self.assertEqual(self.send([ours] * MOST, data), [3] * MOST)
        self.assertEqual(peer.recv(1000), b"".join(data))

    def test_wrong_use(self) -> None:
        """Too many, or lists that do not belong together, send nothing."""
        ours, peer = self.pair()
        self.assertRaises(ValueError, self.send, [ours] * (MOST + 1), [b"x"] * (MOST + 1))
        self.assertRaises(ValueError, self.send, [ours], [b"x", b"y"])
        self.assertRaises(TypeError, self.send, [ours, ours], [b"x", "y"])
        self.assertRaises(BlockingIOError, peer.recv, 10)
        self.assertEqual(self.send([ours, ours], [b"x", b"y"]), [1, 1])

    def test_sockets_that_do_not_take_it(self) -> None:
        """A full socket, a closed one, one whose peer has gone, and what is no socket: the others are served."""
        full, gone, well, also = [self.pair() for _ in range(4)]
        fill(full[0])
        gone[1].close()
        none = os.open(os.devnull, os.O_WRONLY)
        self.addCleanup(os.close, none)
        descriptors = [well[0].fileno(), full[0].fileno(), -1, gone[0].fileno(), none, also[0].fileno()]
        found = self.batched.send(descriptors, [b"bytes"] * 6)
        self.assertEqual(found, [5, -errno.EAGAIN, -errno.EBADF, -errno.EPIPE, -errno.ENOTSOCK, 5])
        self.assertEqual((well[1].recv(10), also[1].recv(10)), (b"bytes", b"bytes"))

    def test_a_part(self) -> None:
        """A socket that has little room takes a part, which is what the peer gets."""
        (ours, peer), other = self.pair(), self.pair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        content = os.urandom(1 << 20)
        taken, small = self.send([ours, other[0]], [content, b"small"])
        self.assertTrue(0 < taken < len(content), taken)
        self.assertEqual(small, 5)
        received = b""
        while len(received) < taken:
            received += peer.recv(1 << 20)
        self.assertEqual(received, content[:taken])

    def test_a_blocking_socket(self) -> None:
        """Even one that would wait is not waited for."""
        ours, _ = self.pair()
        fill(ours)
        ours.setblocking(True)
        self.assertEqual(self.send([ours, ours], [b"x", b"y"]), [-errno.EAGAIN] * 2)


class RingTests(BatchedSendTests):
    """The same by one system call."""

    with_ring = True

    def test_no_descriptor_is_left(self) -> None:
        """The ring goes with its owner."""
        before = len(os.listdir("/proc/self/fd"))
        made = [compiled() for _ in range(5)]
        self.assertEqual(len(os.listdir("/proc/self/fd")), before + 5)
        del made
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_in_a_child(self) -> None:
        """A child of the process that made it sends without the ring, which goes on to serve its owner."""
        ours, peer = self.pair()
        child = os.fork()
        if not child:
            os._exit(0 if self.send([ours, ours], [b"of ", b"a child "]) == [3, 8] else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(self.send([ours, ours], [b"of its", b" parent"]), [6, 7])
        self.assertEqual(peer.recv(100), b"of a child of its parent")

    def test_the_system_gives_none(self) -> None:
        """Where a ring is refused, such as in many containers, what there is to send is sent."""
        ours, peer = self.pair()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
        try:
            batched = compiled()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        self.assertIs(batched.has_ring, False)
        self.assertEqual(batched.send([ours.fileno()] * 2, [b"by ", b"itself"]), [3, 6])
        self.assertEqual(peer.recv(100), b"by itself")

    def test_a_ring_without_sends(self) -> None:
        """Older kernels have rings, and refuse sends as invalid: no connection is broken by that."""
        try:
            refusing = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        except PermissionError:
            raise SkipTest("only root has a socket that refuses what is sent as invalid") from None
        self.addCleanup(refusing.close)
        refusing.connect(("127.0.0.1", 0))
        self.assertRaisesRegex(OSError, "Invalid argument", refusing.send, b"no header")
        ours, peer = self.pair()
        self.assertEqual(self.send([refusing, ours], [b"no header", b"x"]), [-errno.EAGAIN, 1])
        self.assertIs(self.batched.has_ring, False)
        self.assertEqual(self.send([ours, ours], [b"y", b"z"]), [1, 1])
        self.assertEqual(peer.recv(100), b"xyz")

    def test_a_ring_that_breaks(self) -> None:
        """If the kernel takes the ring no more, nothing counts as sent that may not be, and the next batch is sent."""
        ours, peer = self.pair()
        before = rings()
        batched = compiled()
        [ring] = rings() - before
        other = os.open(os.devnull, os.O_WRONLY)
        os.dup2(other, ring)
        os.close(other)
        self.assertEqual(batched.send([ours.fileno()] * 2, [b"x", b"y"]), [-errno.EAGAIN] * 2)
        self.assertIs(batched.has_ring, False)
        self.assertEqual(batched.send([ours.fileno()] * 2, [b"x", b"y"]), [1, 1])
        self.assertEqual(peer.recv(100), b"xy")


@given(st.booleans(), st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=2000)), max_size=40))
def test_any_mix(with_ring: bool, sends: list[tuple[int, bytes]]) -> None:
    """What all peers get is what was sent to them, in order."""
    batched, pairs = compiled(with_ring), [socket.socketpair() for _ in range(4)]
    try:
        found = batched.send([pairs[number][0].fileno() for number, _ in sends], [data for _, data in sends])
        assert found == [len(data) for _, data in sends]
        for number, (ours, peer) in enumerate(pairs):
            ours.close()
            received = b"".join(iter(partial(peer.recv, 1 << 16), b""))
            assert received == b"".join(data for of, data in sends if of == number)
    finally:
        for pair in pairs:
            for sock in pair:
                sock.close()


@define(eq=False)
class Told:
    """A connection that notes of what not all was sent."""

    sock: socket.socket
    is_in_batch: bool = False
    short: list[tuple[bytes, int]] = field(factory=list)

    def fileno(self) -> int:
        return self.sock.fileno()

    def batch_sent(self, data: bytes, sent: int) -> None:
        self.short.append((data, sent))


class ResponseBatchTests(SynchronousTestCase):
    def setUp(self) -> None:
        compiled()
        self.batch = ResponseBatch()
        ours, self.peer = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(self.peer.close)
        self.peer.setblocking(False)
        ours.setblocking(False)
        self.told = Told(ours)

    def test_open_and_close(self) -> None:
        """Who opened it sends it, at once if there are too many."""
        self.assertIs(self.batch.is_open, False)
        self.assertIs(self.batch.open(), True)
        self.assertIs(self.batch.open(), False)
        for index in range(MOST + 1):
            self.batch.add(self.told, b"%03d" % index)
        self.assertEqual(len(self.peer.recv(10_000)), 3 * MOST)
        self.assertIs(self.told.is_in_batch, True)
        self.batch.close()
        self.assertEqual(self.peer.recv(100), b"%03d" % MOST)
        self.assertEqual((self.told.is_in_batch, self.batch.is_open, self.told.short), (False, False, []))
        self.batch.close()

    def test_trouble(self) -> None:
        """Who did not get all of it is told so, and one that was closed meanwhile as well."""
        closed = Told(socket.socket())
        closed.sock.close()
        ours, peer = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(peer.close)
        ours.setblocking(False)
        fill(ours)
        full = Told(ours)
        self.batch.open()
        for sender in (closed, full, self.told):
            self.batch.add(sender, b"bytes")
        self.batch.close()
        self.assertEqual(closed.short, [(b"bytes", -errno.EBADF)])
        self.assertEqual(full.short, [(b"bytes", -errno.EAGAIN)])
        self.assertEqual((self.told.short, self.peer.recv(10)), ([], b"bytes"))

    def test_not_compiled(self) -> None:
        """Without it nothing waits."""
        self.patch(response_batch, "compiled_send", lambda: None)
        self.assertIs(ResponseBatch().open(), False)


def test_small_bytes() -> None:
    """What is small and in memory is one piece; the rest is sent as it is."""
    content = TemporaryFile(b"0123456789" * 1000)
    one = b"alone"
    assert small_bytes([one], 5) is one
    assert small_bytes([one, memoryview(b" and"), b" more"], 20) == b"alone and more"
    assert small_bytes([one], 4) is None
    assert small_bytes([], 100) is None
    assert small_bytes([b""], 100) is None
    piece = content.slice()
    assert small_bytes([b"head ", FileSlice(piece.file, 10, 3)], 10) == b"head 012"
    assert small_bytes([b"head ", piece], LARGEST) is None


class BatchedTransportTests(test_transport.TransportTests):
    """Connections whose small responses wait for the end of the turn."""

    def setUp(self) -> None:
        compiled()
        super().setUp()
        poll = BrokerReactor.doPoll
        self.batches = 0

        def together(reactor: BrokerReactor, timeout: float | None) -> None:
            opened = reactor.turn.responses.open()
            self.batches += opened
            try:
                poll(reactor, timeout)
            finally:
                if opened:
                    reactor.turn.responses.close()

        self.patch(BrokerReactor, "doPoll", together)
        self.patch(BrokerReactor, "doIteration", together)

    def tearDown(self) -> None:
        self.assertTrue(self.batches)

    def test_a_full_socket(self) -> None:
        """What a peer does not take is sent later, and counted once."""
        peer = self.connect(receive_buffer=4096)
        transport = self.transport()
        transport.set_send_buffer(4096)
        sent: list[bytes] = []
        batch = self.loop.reactor.turn.responses
        for index in range(200):
            data = b"%04d" % index * 1000
            opened = batch.open()
            transport.send([data[:2000], data[2000:]])
            transport.send([data])
            if opened:
                batch.close()
            sent += [data, data]
        self.assertTrue(transport.unsent)
        whole = b"".join(sent)
        received = bytearray()

        def all_there() -> bool:
            peer.read()
            received.extend(peer.received)
            peer.received.clear()
            return len(received) >= len(whole)

        self.loop.until(all_there)
        self.assertEqual(received, whole)
        self.assertEqual(self.factory.metrics.bytes_out, len(whole))

    def test_a_thread_does_not_overtake(self) -> None:
        """No thread answers fetches while the socket has not taken the response before them, or has failed."""
        handed: list[object] = []
        fetches = SimpleNamespace(submit=lambda *given: handed.append(given))
        prepared: Any = object()
        self.connect(receive_buffer=4096)
        transport = self.transport()
        self.patch(self.loop.reactor, "_fetches", fetches)
        batch = self.loop.reactor.turn.responses
        self.assertIs(batch.open(), True)
        transport.send([b"before the fetches"])
        fill(transport.socket)
        self.assertIs(transport.answer_fetches(prepared), False)
        self.assertEqual((transport.unsent, handed), (18, []))
        self.connect().sock.close()
        refused = self.transport()
        refused.send([b"to nobody"])
        refused.socket.shutdown(socket.SHUT_WR)
        self.assertIs(refused.answer_fetches(prepared), False)
        self.assertEqual(handed, [])
        batch.close()

    def test_lost_with_a_response_in_the_batch(self) -> None:
        """A connection that ends before the batch is sent harms no other."""
        self.connect()
        ending = self.transport()
        stays = self.connect()
        staying = self.transport()
        batch = self.loop.reactor.turn.responses
        self.assertIs(batch.open(), True)
        ending.send([b"never seen"])
        staying.send([b"seen"])
        ending.abortConnection()
        ending.connectionLost(Failure(ConnectionLost()))
        batch.close()

        def received() -> bytes:
            stays.read()
            return bytes(stays.received)

        self.loop.until(lambda: received() == b"seen")
        self.assertEqual(self.factory.metrics.bytes_out, len(b"seen"))

    def test_reset_before_the_batch(self) -> None:
        """A peer that has gone is noticed when the batch is sent."""
        self.connect().sock.close()
        transport = self.transport()
        self.loop.until(lambda: not transport.connected or self.refused(transport))
        self.loop.until(lambda: not self.factory._connections)

    def refused(self, transport: Any) -> bool:
        """Send something in a batch; whether the connection is given up."""
        batch = self.loop.reactor.turn.responses
        opened = batch.open()
        transport.send([b"to nobody"])
        if opened:
            batch.close()
        return bool(transport._aborting)

    def test_metadata_of_many(self) -> None:
        """Connections that ask at once are answered together."""
        peers = [self.connect() for _ in range(20)]
        for peer in peers:
            peer.sock.send(self.client.ask(metadata()))
        for peer in peers:
            self.answers(peer, 1)
