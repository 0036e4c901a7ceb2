"""Sending on sockets."""

from __future__ import annotations

import errno
import os
import select
import socket
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.metrics import NetMetrics
from logbus.net.sendfile import LEAST_FOR_THREAD, MOST_FOR_THREAD, TURN, SendQueue, SliceTruncated
from logbus.records.file_slice import MEMORY, FileSlice, Part, Parts, joined
from tests.net.fakes import TemporaryFile
from tests.net.test_cold_reads import ColdFile

CONTENT = os.urandom(1 << 20)


def small_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected TCP sockets with buffers so small that they fill up."""
    listening = socket.create_server(("127.0.0.1", 0))
    near = socket.socket()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    near.connect(listening.getsockname())
    far, _ = listening.accept()
    listening.close()
    near.setblocking(False)
    far.setblocking(False)
    return near, far


class SendQueueTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.near, self.far = small_pair()
        self.addCleanup(self.near.close)
        self.addCleanup(self.far.close)
        self.metrics = NetMetrics()
        self.send_queue = SendQueue(self.metrics, lambda: None)
        self.file = TemporaryFile(CONTENT)

    def take(self, most: int = 1 << 20) -> bytes:
        try:
            return self.far.recv(most)
        except BlockingIOError:
            return b""

    def run_out(self) -> tuple[bytes, int]:
        """Send everything to a reader that is slow; how often the socket was full."""
        received, full, total = bytearray(), 0, self.send_queue.unsent
        while len(received) < total:
            self.send_queue.flush(self.near)
            full += bool(self.send_queue.unsent)
            # What the kernel took may be on its way for a moment.
            readable = select.poll()
            readable.register(self.far, select.POLLIN)
            self.assertTrue(readable.poll(10_000), "nothing arrives")
            received += self.take(20_000)
        received += self.take()
        return bytes(received), full

    def test_slices_and_bytes_in_order(self) -> None:
        """
        Everything arrives in order although the socket is full again and again, in the middle of slices and of bytes.
        """
        in_memory = FileSlice(MEMORY, 0, 200_000, memoryview(CONTENT)[:200_000])
        parts: list[Part] = [b"head", self.file.slice(10, 300_000), b"between", memoryview(CONTENT), self.file.slice()]
        parts += [in_memory, in_memory.narrow(5, 100)]
        expected = joined(parts)
        self.send_queue.push(parts)
        self.assertEqual(self.send_queue.unsent, len(expected))
        received, full = self.run_out()
        self.assertEqual(received, expected)
        self.assertGreater(full, 5)
        self.assertEqual((self.send_queue.unsent, self.metrics.bytes_out), (0, len(expected)))

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.tuples(st.booleans(), st.integers(0, 90_000)), max_size=12))
    def test_any_parts(self, shapes: list[tuple[bool, int]]) -> None:
        """
        Whatever the mixture, the bytes are those of the parts.
        """
        parts: list[Part] = [self.file.slice(7, n) if file else CONTENT[:n] for file, n in shapes]
        expected = joined(parts)
        for part in parts:
            self.send_queue.push([part])
        self.assertEqual(self.run_out()[0], expected)

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.tuples(st.booleans(), st.integers(0, 9000)), max_size=100))
    def test_many_small_parts(self, shapes: list[tuple[bool, int]]) -> None:
        """
        Their order is kept as well if many of them are small slices of files, which are sent together.
        """
        parts: list[Part] = [
            self.file.slice(n, length) if file else CONTENT[n : n + length] for n, (file, length) in enumerate(shapes)
        ]
        expected = joined(parts)
        self.send_queue.push(parts)
        self.assertEqual(self.run_out()[0], expected)

    def test_calls_for_many_small_slices(self) -> None:
        """
        A little of each of many files takes few system calls to send, also where the file system cannot tell what is in
        memory, if it is known otherwise.
        """
        for file in (self.file, TemporaryFile(CONTENT, on_tmpfs=True)):
            self.send_queue.push([part for n in range(200) for part in (b"head", file.slice(n, 600))])
            sent = self.sent()
            self.assertEqual(sum(sent), 200 * 604)
            self.assertLessEqual(len(sent), 4)

    def test_a_truncated_file(self) -> None:
        """
        A file that became shorter than its slice is found out.
        """
        self.send_queue.push([b"head", self.file.slice()])
        self.file.truncate(5000)
        self.assertRaises(SliceTruncated, self.run_out)

    def test_small_slices_are_sent_with_the_rest(self) -> None:
        """
        What is small and at hand leaves in one piece; a small slice that is not is sent as any other.
        """
        parts: list[Part] = [b"head", self.file.slice(10, 300), b"between", self.file.slice(400, 500), b"tail"]
        self.send_queue.push(list(parts))
        self.assertEqual(self.sent(), [815])

        def nothing(*args: Any) -> int:
            raise BlockingIOError

        self.patch(os, "preadv", nothing)
        self.send_queue.push(list(parts))
        self.assertEqual(self.sent(), [4, 300, 7, 500, 4])

    def sent(self) -> list[int]:
        """Send everything to a socket that takes it, and say how."""
        sent: list[int] = []

        class Socket:
            def send(self, data: Any) -> int:
                sent.append(len(data))
                return len(data)

            def fileno(self) -> int:
                return -1

        def sendfile(out: int, file: int, offset: int, count: int) -> int:
            sent.append(count)
            return count

        self.patch(os, "sendfile", sendfile)
        self.send_queue.flush(Socket())  # type: ignore[arg-type]
        return sent

    def test_little_is_copied(self) -> None:
        """
        However many small slices a peer does not take, they stay in the file but for a few.
        """
        self.patch(os, "sendfile", lambda out, file, offset, count: 0)
        read: list[int] = []
        preadv = os.preadv

        def counted(fd: int, buffers: Any, position: int, flags: int) -> int:
            read.append(preadv(fd, buffers, position, flags))
            return read[-1]

        self.patch(os, "preadv", counted)
        for _ in range(100):
            self.send_queue.push([self.file.slice(0, 3000), b"between"])
        self.assertGreater(sum(read), 0)
        self.assertLessEqual(sum(read), 16384)

    def test_a_small_truncated_file(self) -> None:
        """
        A file that became shorter than its slice is found out, however small it is.
        """
        self.file.truncate(50)
        self.send_queue.push([b"head", self.file.slice(0, 100), b"tail"])
        self.assertRaises(SliceTruncated, self.run_out)

    def test_a_closed_peer(self) -> None:
        """
        A broken connection is an OSError.
        """
        self.far.close()
        self.send_queue.push([self.file.slice()])
        with self.assertRaises(OSError) as caught:
            for _ in range(1000):
                self.send_queue.flush(self.near)
        self.assertIn(caught.exception.errno, (errno.EPIPE, errno.ECONNRESET))

    def test_a_file_system_without_sendfile(self) -> None:
        """
        Where the kernel refuses to send a file, it is read.
        """

        def refuse(*args: Any) -> int:
            raise OSError(errno.EINVAL, "not from here")

        self.patch(os, "sendfile", refuse)
        self.send_queue.push([b"head", self.file.slice(0, 100_000), b"tail"])
        self.assertEqual(self.run_out()[0], b"head" + CONTENT[:100_000] + b"tail")

    def test_unreadable_file(self) -> None:
        """
        An error of the disk is not mistaken for one of the socket.
        """

        def refuse(*args: Any) -> int:
            raise OSError(errno.EIO, "bad sector")

        self.patch(os, "sendfile", refuse)
        self.send_queue.push([self.file.slice()])
        self.assertEqual(self.assertRaises(OSError, self.send_queue.flush, self.near).errno, errno.EIO)

    def test_a_turn_is_bounded(self) -> None:
        """
        One flush sends at most a turn's worth, so that other connections are served.
        """
        sent: list[int] = []

        def sendfile(out: int, file: int, offset: int, count: int) -> int:
            sent.append(count)
            return count

        self.patch(os, "sendfile", sendfile)
        large = TemporaryFile(b"")
        self.send_queue.push([large.slice(0, 5 * TURN)])
        self.send_queue.flush(self.near)
        self.assertEqual((sum(sent), self.send_queue.unsent), (TURN, 4 * TURN))

    def test_a_header_does_not_split_a_slice(self) -> None:
        """
        A slice of a turn's worth goes out in one call though a header went before it.
        """
        counts: list[int] = []

        def sendfile(out: int, file: int, offset: int, count: int) -> int:
            counts.append(count)
            return count

        self.patch(os, "sendfile", sendfile)
        self.send_queue.push([b"head", self.file.slice(0, TURN)])
        self.send_queue.flush(self.near)
        self.assertEqual((counts, self.send_queue.unsent), ([TURN], 0))

    def test_clearing_closes_files(self) -> None:
        """
        A lost connection keeps no file open.
        """
        self.send_queue.push([self.file.slice()])
        self.send_queue.clear()
        self.assertEqual((self.send_queue.unsent, len(self.send_queue._parts)), (0, 0))


class HandedOverTests(SynchronousTestCase):
    """What a thread is given to send."""

    def setUp(self) -> None:
        self.given: list[Parts] = []
        self.is_wanted = self.is_taken = True
        self.loads: list[None] = []
        self.metrics = NetMetrics()
        self.send_queue = SendQueue(self.metrics, lambda: self.loads.append(None), self.thread)
        self.near, self.far = small_pair()
        self.addCleanup(self.near.close)
        self.addCleanup(self.far.close)
        self.file = TemporaryFile(CONTENT)

    def thread(self) -> Callable[[Parts], bool] | None:
        return self.submit if self.is_wanted else None

    def submit(self, parts: Parts) -> bool:
        self.given.append(parts)
        return self.is_taken

    def flush(self, *parts: Part) -> None:
        self.send_queue.push(list(parts))
        self.send_queue.flush(self.near)

    def test_a_whole_response(self) -> None:
        """
        Its head, its slices, what is between them and its end are given away together, and are gone when they are sent.
        """
        parts: list[Part] = [b"head", self.file.slice(10, 300_000), b"between", self.file.slice(0, 200_000), b"tail"]
        self.flush(*parts)
        self.assertEqual(self.given, [parts])
        self.assertTrue(self.send_queue.is_away)
        self.flush(b"the next response")
        self.assertEqual((len(self.given), self.send_queue.unsent), (1, 500_015 + 17))
        self.send_queue.sent_by_thread(500_015, None)
        self.assertEqual((self.send_queue.unsent, self.metrics.bytes_out), (17, 500_015))
        self.assertFalse(self.send_queue.is_away)
        self.send_queue.flush(self.near)
        self.assertEqual((len(self.given), self.send_queue.unsent), (1, 0))

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.tuples(st.booleans(), st.integers(0, 700_000)), max_size=8))
    def test_any_parts(self, shapes: list[tuple[bool, int]]) -> None:
        """
        Whatever the mixture, what threads are given one after the other, and what is left, are the bytes of the parts.
        """
        self.setUp()
        parts: list[Part] = [self.file.slice(7, n) if file else CONTENT[:n] for file, n in shapes]
        for part in parts:
            self.send_queue.push([part])
        queue, found = self.send_queue, b""
        while queue.unsent >= LEAST_FOR_THREAD:
            queue.flush(self.near)
            size = sum(map(len, self.given[-1]))
            self.assertTrue(LEAST_FOR_THREAD <= size < MOST_FOR_THREAD + TURN)
            self.assertTrue(all(self.given[-1]))
            found += joined(self.given[-1])
            queue.sent_by_thread(size, None)
        self.assertEqual(found + joined(queue._parts), joined(parts))
        self.assertEqual(queue.unsent, sum(map(len, queue._parts)))

    def test_what_is_not_worth_it(self) -> None:
        """
        Small responses are sent at once; so are large ones if no thread is wanted, or none takes them.
        """
        self.is_taken = False
        self.flush(b"head", self.file.slice())
        self.assertEqual(len(self.given), 1)
        self.assertFalse(self.send_queue.is_away)
        self.assertLess(self.send_queue.unsent, 4 + len(CONTENT))
        self.is_taken = True
        self.send_queue.clear()
        self.flush(b"head", self.file.slice(0, LEAST_FOR_THREAD - 10))
        self.send_queue.clear()
        self.is_wanted = False
        self.flush(b"head", self.file.slice())
        self.assertEqual(len(self.given), 1)
        self.assertFalse(self.send_queue.is_away)

    def test_cold_data_is_left(self) -> None:
        """
        The thread is given what is before a slice that has to be read from the disk first.
        """
        cold = ColdFile()
        slices = [self.file.slice(0, 200_000), FileSlice(cold, 0, 200_000)]
        self.flush(b"head", slices[0], b"between", slices[1], b"tail")
        self.assertEqual(self.given, [[b"head", slices[0], b"between"]])
        self.assertTrue(self.send_queue.waits_for_disk)
        self.send_queue.sent_by_thread(200_011, None)
        self.send_queue.flush(self.near)
        self.assertEqual(len(self.given), 1)
        cold.hot = True
        cold.loaded()
        self.assertEqual(len(self.loads), 1)
        self.send_queue.flush(self.near)
        self.assertEqual(self.given[1:], [[slices[1], b"tail"]])

    def test_a_large_slice(self) -> None:
        """
        A thread is given all of a slice of a few megabytes, and a larger one in several parts.
        """
        most = MOST_FOR_THREAD
        large = TemporaryFile(b"").slice(0, 2 * most + 200_000)
        self.flush(b"head", large.narrow(0, most), b"tail")
        self.assertEqual(self.given, [[b"head", large.narrow(0, most)]])
        self.send_queue.clear()
        self.setUp()
        self.flush(b"head", large, b"tail")
        self.send_queue.sent_by_thread(4 + most, None)
        self.send_queue.flush(self.near)
        self.send_queue.sent_by_thread(most, None)
        self.send_queue.flush(self.near)
        self.assertEqual(
            self.given,
            [[b"head", large.narrow(0, most)], [large.narrow(most, most)], [large.narrow(2 * most), b"tail"]],
        )

    def test_a_slice_that_is_cold_in_its_middle(self) -> None:
        """
        It is looked at a turn's worth at a time: a thread is given what is cached, while the rest is loaded.
        """
        cold = ColdFile()
        cold.hot_until = TURN
        large = FileSlice(cold, 0, 3 * TURN)
        self.flush(b"head", large)
        self.assertEqual(self.given, [[b"head", large.narrow(0, TURN)]])
        self.assertTrue(self.send_queue.waits_for_disk)
        self.send_queue.sent_by_thread(4 + TURN, None)
        self.send_queue.flush(self.near)
        self.assertEqual(len(self.given), 1)
        cold.hot = True
        cold.loaded()
        self.send_queue.flush(self.near)
        self.assertEqual(self.given[1:], [[large.narrow(TURN)]])

    def test_a_truncated_file(self) -> None:
        """
        Fewer bytes than were given, or an error, end the connection.
        """
        parts: list[Part] = [b"head", self.file.slice(0, 300_000), b"between", self.file.slice(0, 200_000), b"tail"]
        self.flush(*parts)
        self.assertRaises(SliceTruncated, self.send_queue.sent_by_thread, 300_500, None)
        self.send_queue.clear()
        self.flush(*parts)
        self.assertRaises(BrokenPipeError, self.send_queue.sent_by_thread, 2, BrokenPipeError())
        self.assertEqual(self.send_queue.unsent, 500_015 - 2)

    def test_a_file_system_without_sendfile(self) -> None:
        """
        What a thread cannot send is read instead, from then on.
        """
        self.flush(b"head", self.file.slice(0, 300_000))
        self.send_queue.sent_by_thread(4, OSError(errno.EINVAL, "not from here"))
        self.assertFalse(self.send_queue.is_away)
        self.flush()
        self.assertEqual(len(self.given), 1)
        self.assertLess(self.send_queue.unsent, 300_000)
