"""Fetches of consumers that read on are answered by threads, as the handler would have answered them."""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Sequence
from typing import Any

from attrs import define, evolve, field
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logbus.metrics import LATENCY_BUCKETS
from logbus.net import native_fetches
from logbus.net.native_fetches import FetchThreads, NativeFetches
from logbus.net.prepared_fetches import LEAST_PREPARED, MOST_RANGES, SMALL, AnsweredFetches, PreparedFetches
from logbus.records.file_slice import BatchRange, FileSlice, joined
from logbus.wire.connection import ClientConnection, ServerConnection
from logbus.wire.fetch_template import FetchTemplate, FetchTemplateCache, RepeatedFetch
from logbus.wire.messages.records import FetchPartition, FetchRequest, FetchTopic
from tests.net.fakes import TemporaryFile, metadata
from tests.net.test_transport import RealCase

DEADLINE_MS = 120_000
WHOLE = 1 << 30
"""Bytes of a response that has all batches of a range."""
NUMBERS = (1_000_000, 999_999, 3)
"""High watermark, last stable offset, log start offset."""


def compiled() -> type[FetchThreads]:
    """The compiled class."""
    kind = native_fetches.compiled_threads()
    if kind is None:
        raise SkipTest("the threads that answer fetches are not compiled")
    return kind


def batches(sizes: list[int], first: int = 7) -> bytes:
    """As much of record batches as tells one from the other; each has 3 offsets."""
    found = bytearray()
    for number, size in enumerate(sizes):
        batch = bytearray(bytes([number % 251]) * size)
        struct.pack_into(">qiib", batch, 0, first + 3 * number, size - 12, 0, 2)
        found += batch
    return bytes(found)


def fits(sizes: list[int], most: int, indexed: Sequence[int] = ()) -> int:
    """
    How many of the first batches go into one response.

    :param indexed: which of them are in the index, that a large response ends by.
    """
    count, left = 0, most
    while count < len(sizes) and (sizes[count] <= left or not count):
        left -= sizes[count]
        count += 1
    if most <= SMALL or count == len(sizes):
        return count
    # A batch may begin where the limit is.
    return max((i for i in indexed if 0 < i <= count and sum(sizes[:i]) <= most), default=count)


def halves(sizes: list[int]) -> list[tuple[int, int]]:
    """Which batches are in each of two segments."""
    half = len(sizes) // 2
    return [(0, half), (half, len(sizes))] if half else [(0, len(sizes))]


def segment(
    data: bytes, sizes: list[int], first: int, end: int, indexed: frozenset[int], on_tmpfs: bool = False
) -> BatchRange:
    """A segment with some of the batches, of which some have entries in its index."""
    starts = [sum(sizes[:i]) for i in range(end + 1)]
    file = TemporaryFile(data[starts[first] : starts[end]], on_tmpfs)
    return file.batches(0, None, [starts[i] - starts[first] for i in range(first, end) if i in indexed])


@define
class Requests:
    """A consumer's requests, and what they repeat."""

    version: int = 12
    session_id: int = 0
    client: str = "reader"
    correlation_id: int = 0

    def request(self, offset: int, epoch: int = -1) -> bytes:
        """The next request."""
        partition = FetchPartition(partition=3, fetch_offset=offset, partition_max_bytes=4096)
        topic = FetchTopic(topic="t", topic_id=b"0123456789abcdef", partitions=[partition])
        message = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self.session_id,
            session_epoch=epoch if self.session_id else -1,
            topics=[topic],
        )
        wire = ClientConnection(self.client)
        wire._next_id = self.correlation_id
        self.correlation_id += 1
        return joined(wire.request(message, self.version)[1])

    def template(self, data: bytes) -> tuple[FetchTemplate, RepeatedFetch]:
        """The template of a request, and the request."""
        known, frame = FetchTemplateCache(), memoryview(data)[4:]
        assert known.learn(ServerConnection({1: (4, 18)}).receive(frame), frame)
        found = known.recognize(frame)
        assert found is not None
        assert found.template.repeated(found) == data
        return found.template, found

    def prepared(
        self,
        offset: int,
        epoch: int,
        ranges: list[BatchRange],
        most: int,
        least: int,
        done: list[AnsweredFetches],
        first_offset: int,
    ) -> tuple[PreparedFetches, FetchTemplate]:
        """What is prepared after a request."""
        data = self.request(offset, epoch)
        template, _ = self.template(data)
        head, tail, compact = template.around_records(self.session_id, *NUMBERS)
        epoch_at, offset_at = template.places()
        if not self.session_id:
            epoch_at = 0
        prepared = PreparedFetches(
            data, epoch_at, offset_at, head, tail, compact, ranges, first_offset, most, least, done.append
        )
        return prepared, template


@define(eq=False)
class Told:
    """A connection that notes what was answered."""

    results: list[AnsweredFetches] = field(factory=list)

    def fetches_answered(self, answered: AnsweredFetches) -> None:
        self.results.append(answered)

    def abortConnection(self) -> None:
        raise AssertionError("something failed")


@define(eq=False)
class Reader:
    """A consumer whose fetches a thread answers: its side, and what comes back."""

    peer: socket.socket
    requests: Requests
    template: FetchTemplate
    done: list[AnsweredFetches]
    told: Told
    ticket: int
    ours: socket.socket

    def ask(self, offset: int, epoch: int = -1) -> int:
        """Send a request; returns its correlation id."""
        self.peer.sendall(self.requests.request(offset, epoch))
        return self.requests.correlation_id - 1

    def response(self) -> bytes:
        """The next response, whole."""
        head = self._exactly(4)
        return head + self._exactly(struct.unpack(">i", head)[0])

    def expected(self, correlation_id: int, records: bytes) -> bytes:
        """The response with these records that the handler would have made."""
        part = FileSlice(TemporaryFile(records).file, 0, len(records))
        found = self.template.found(*NUMBERS, part)
        size = sum(map(len, found))
        return joined(self.template.response(correlation_id, self.requests.session_id, found, size))

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            more = self.peer.recv(size - len(found))
            assert more, "the connection was closed"
            found += more
        return bytes(found)


class ThreadsCase(SynchronousTestCase):
    threads = 2

    def setUp(self) -> None:
        self.fetches = NativeFetches(compiled()(self.threads, LATENCY_BUCKETS))
        self.addCleanup(self.fetches._threads.stop)
        # On a busy machine a connection would be given back before a test is through.
        self.patch(native_fetches, "SECONDS", 2 * DEADLINE_MS / 1000)

    def reader(
        self,
        ranges: list[BatchRange],
        most: int = WHOLE,
        least: int = 0,
        requests: Requests | None = None,
        offset: int = 7,
        epoch: int = 5,
        send_buffer: int = 0,
        first_offset: int = 0,
    ) -> Reader:
        """One that has just read up to ``offset``, in a session with this epoch."""
        ours, peer = socket.socketpair()
        ours.setblocking(False)
        peer.settimeout(DEADLINE_MS / 1000)
        if send_buffer:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        self.addCleanup(ours.close)
        self.addCleanup(peer.close)
        requests, told = requests or Requests(), Told()
        done: list[AnsweredFetches] = []
        prepared, template = requests.prepared(max(0, offset - 3), epoch, ranges, most, least, done, first_offset)
        ticket = self.fetches.submit(told, ours.fileno(), prepared)
        return Reader(peer, requests, template, done, told, ticket, ours)

    def turn(self) -> None:
        """Wait until a thread has something to tell."""
        poll = select.poll()
        poll.register(self.fetches.fileno(), select.POLLIN)
        assert poll.poll(DEADLINE_MS), "no connection was given back"
        self.fetches.doRead()

    def result(self, reader: Reader) -> AnsweredFetches:
        """Wait until the connection is given back."""
        while not reader.told.results:
            self.turn()
        [result] = reader.told.results
        self.assertEqual(reader.done, [result] if result.requests else [])
        # One whose response was not sent whole took no time.
        self.assertEqual(sum(result.counts), result.requests - (result.error is not None))
        return result


class AnswerTests(ThreadsCase):
    @settings(deadline=None, max_examples=settings.default.max_examples // 2)
    @given(
        st.integers(4, 18),
        st.booleans(),
        st.lists(st.integers(61, 5000), min_size=1, max_size=60),
        st.sampled_from((1, 61, 1000, 4096, 65536, 65537, 80_000, WHOLE)),
        st.sampled_from((0, 1, 5000, WHOLE)),
        st.frozensets(st.integers(0, 59)),
        st.integers(0, 65),
        st.sampled_from(("other", "offset", "client", "epoch", "part", "none")),
        st.booleans(),
        st.booleans(),
    )
    def test_as_the_handler_would(
        self,
        version: int,
        in_session: bool,
        sizes: list[int],
        most: int,
        least: int,
        indexed: frozenset[int],
        count: int,
        odd: str,
        at_once: bool,
        on_tmpfs: bool,
    ) -> None:
        """
        Requests that read on get the batches that follow, as many as fit, from any file system; the first other one
        comes back, with all bytes behind it.
        """
        assume(odd != "epoch" or (in_session and version >= 7))
        requests = Requests(version, 77 if in_session and version >= 7 else 0)
        data = batches(sizes)
        segments = halves(sizes)
        starts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
        ranges = [segment(data, sizes, first, end, indexed, on_tmpfs) for first, end in segments]
        reader = self.reader(ranges, most, least, requests)
        expected: list[bytes] = []
        stream, epoch, at = bytearray(), 5, 0
        for first, end in segments:
            while first < end and len(expected) < count:
                inside = sizes[first:end]
                take = fits(inside, most, [i - first for i in indexed])
                length = sum(inside[:take])
                if first + take == len(sizes) and length < least:
                    break
                epoch += 1
                stream += requests.request(7 + 3 * first, epoch)
                expected.append(reader.expected(requests.correlation_id - 1, data[at : at + length]))
                at, first = at + length, first + take
        offset = 7 + 3 * starts.index(at)
        served = len(expected)
        epoch += 1
        rest = {
            "other": b"\0\0\0\x10\0\x12\0\0" + bytes(12),
            "offset": requests.request(offset + 1, epoch),
            "client": Requests(version, requests.session_id, "READER").request(offset, epoch),
            "epoch": requests.request(offset, epoch + 1),
            "part": requests.request(offset + 1, epoch)[:-1],
            "none": b"",
        }[odd]
        if at_once and served:
            # The rest comes in the same read as the last request, or in another.
            reader.peer.sendall(stream + rest)
            for each in expected:
                self.assertEqual(reader.response(), each)
        else:
            size = len(stream) // served if served else 0
            for i, each in enumerate(expected):
                reader.peer.sendall(stream[i * size : (i + 1) * size])
                self.assertEqual(reader.response(), each)
            reader.peer.sendall(rest)
        if odd in ("part", "none"):
            reader.peer.shutdown(socket.SHUT_WR)
        result = self.result(reader)
        self.assertEqual((result.requests, result.error), (served, None))
        self.assertEqual(result.bytes_in, len(stream))
        self.assertEqual(result.bytes_out, sum(map(len, expected)))
        self.assertEqual(result.record_bytes, at)
        received = bytearray(result.received)
        reader.ours.setblocking(True)
        while len(received) < len(rest):
            received += reader.ours.recv(4096)
        self.assertEqual(bytes(received), rest)

    @settings(deadline=None, max_examples=settings.default.max_examples // 2)
    @given(
        st.lists(st.integers(61, 3000), min_size=1, max_size=60),
        st.sampled_from((1, 4096, 70_000, WHOLE)),
        st.frozensets(st.integers(0, 59)),
        st.integers(0, 30),
        st.integers(0, 60),
        st.lists(st.tuples(st.integers(0, 59), st.sampled_from((0, 0, 0, 0, 1))), max_size=20),
    )
    def test_back_and_forth(
        self,
        sizes: list[int],
        most: int,
        indexed: frozenset[int],
        begin: int,
        least_batch: int,
        reads: list[tuple[int, int]],
    ) -> None:
        """Whoever goes to another batch gets those from there on, unless they may not be read."""
        data, segments = batches(sizes), halves(sizes)
        starts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
        begin = min(begin, max(0, len(sizes) // 2 - 1))
        least_batch = min(least_batch, begin)
        ranges = [segment(data, sizes, first, end, indexed) for first, end in segments]
        ranges[0] = evolve(ranges[0], position=starts[begin])
        reader = self.reader(ranges, most, first_offset=7 + 3 * least_batch)
        served = 0
        for number, within in reads:
            correlation_id = reader.ask(7 + 3 * number + within)
            if within or number < least_batch or number >= len(sizes):
                break
            end = next(end for _, end in segments if end > number)
            take = fits(sizes[number:end], most, [i - number for i in indexed])
            records = data[starts[number] : starts[number + take]]
            self.assertEqual(reader.response(), reader.expected(correlation_id, records))
            served += 1
        else:
            reader.peer.shutdown(socket.SHUT_WR)
        self.assertEqual(self.result(reader).requests, served)

    def test_slow_peers_share_a_buffer(self) -> None:
        """Small responses that a socket takes in part go on from the file, whatever the thread sends to others."""
        sizes = [4000] * 20
        readers = []
        for number in range(6):
            changed = bytearray(batches(sizes))
            for at in range(20, len(changed), 4000):
                changed[at : at + 100] = bytes([number]) * 100
            reader = self.reader([TemporaryFile(bytes(changed)).batches()], 65536, send_buffer=4096)
            readers.append((reader, bytes(changed[:64_000]), reader.ask(7)))
        for reader, data, correlation_id in readers:
            self.assertEqual(reader.response(), reader.expected(correlation_id, data))

    def test_a_slow_peer_delays_no_other(self) -> None:
        """One that takes nothing of a large response."""
        data = batches([1000] * 3000)
        slow = self.reader([TemporaryFile(data).batches()], send_buffer=4096)
        number = slow.ask(7)
        for _ in range(4):
            quick = self.reader([TemporaryFile(data).batches()])
            self.assertEqual(quick.expected(quick.ask(7), data), quick.response())
        self.assertEqual(slow.response(), slow.expected(number, data))

    def test_nothing_left(self) -> None:
        """The request behind the last prepared one comes back."""
        data = batches([1000])
        reader = self.reader([TemporaryFile(data).batches()])
        reader.ask(7)
        reader.response()
        reader.ask(10)
        result = self.result(reader)
        self.assertEqual((result.requests, result.offset), (1, 7))
        self.assertEqual(reader.template.request(memoryview(result.received)[4:]).offset, 10)  # type: ignore[union-attr]

    def test_time_is_over(self) -> None:
        """Later requests come back."""
        self.patch(native_fetches, "SECONDS", -1.0)
        reader = self.reader([TemporaryFile(batches([1000])).batches()])
        reader.ask(7)
        self.assertEqual(self.result(reader).requests, 0)

    def test_recall(self) -> None:
        """A connection comes back at once while no response is being sent, else behind that."""
        data = batches([1000] * 3000)
        idle = self.reader([TemporaryFile(data).batches()])
        self.fetches.recall(idle.ticket)
        self.assertEqual(self.result(idle).requests, 0)
        busy = self.reader([TemporaryFile(data).batches()], send_buffer=4096)
        number = busy.ask(7)
        busy.peer.recv(4, socket.MSG_PEEK)
        self.fetches.recall(busy.ticket)
        self.assertEqual(busy.response(), busy.expected(number, data))
        self.assertEqual(self.result(busy).requests, 1)
        self.fetches.recall(busy.ticket)  # It is not there any more.

    def test_lost(self) -> None:
        """A peer that goes in the middle of a response, or resets the connection."""
        data = batches([1000] * 3000)
        reader = self.reader([TemporaryFile(data).batches()], send_buffer=4096)
        reader.ask(7)
        reader.peer.recv(4, socket.MSG_PEEK)
        reader.peer.close()
        result = self.result(reader)
        self.assertIsInstance(result.error, OSError)

    def test_a_truncated_file(self) -> None:
        """Records that are not there are not announced; when they go in the middle of a response, the peer is lost."""
        data = batches([1000] * 3000)
        file = TemporaryFile(data)
        before, during = self.reader([file.batches()]), self.reader([file.batches()], send_buffer=4096)
        during.ask(7)
        during.peer.recv(4, socket.MSG_PEEK)
        file.truncate(2_000_000)
        before.ask(7)
        self.assertEqual(self.result(before).requests, 0)
        during._exactly(2_000_000)
        self.assertIsNot(self.result(during).error, None)

    def test_damaged_records(self) -> None:
        """Where no batch begins, the handler looks."""
        for at, change in ((8, b"\xff\xff\xff\xff"), (8, b"\0\0\0\0"), (16, b"\x01"), (8, b"\x7f\xff\xff\xff")):
            data = bytearray(batches([1000] * 200))
            data[1000 + at : 1000 + at + len(change)] = change
            for most in (4096, 100_000):
                reader = self.reader([TemporaryFile(bytes(data)).batches()], most)
                reader.ask(7)
                self.assertEqual(self.result(reader).requests, 0)

    def test_a_long_index(self) -> None:
        """Where a response ends is found in an index of any length, near where the last one ended and far from it."""
        sizes = [100] * 6000
        data = batches(sizes)
        file = TemporaryFile(data)
        for every, most in ((1, 65_600), (1, 300_000), (5, 70_000), (2000, 70_000)):
            reader = self.reader([file.batches(0, None, range(0, len(data), 100 * every))], most)
            at = 0
            while at < len(data):
                correlation_id = reader.ask(7 + 3 * at // 100)
                end = len(data) if at + most >= len(data) else (at + most) // (100 * every) * 100 * every
                if end <= at:
                    break  # So many batches without an entry are not looked at.
                self.assertEqual(reader.response(), reader.expected(correlation_id, data[at:end]))
                at = end
            if every == 2000:
                self.assertEqual(self.result(reader).requests, 0)

    def test_few_entries(self) -> None:
        """Where the index has none, a look at some batches finds the end."""
        sizes = [2000] * 50
        data = batches(sizes)
        file = TemporaryFile(data)
        for indexed in ((), (0,), (0, 98_000)):
            reader = self.reader([file.batches(0, None, indexed)], 70_000)
            correlation_id = reader.ask(7)
            self.assertEqual(reader.response(), reader.expected(correlation_id, data[:70_000]))

    def test_a_truncated_index(self) -> None:
        """The handler looks."""
        file = TemporaryFile(batches([2000] * 50))
        for entries in (3, 3000):
            reader = self.reader([evolve(file.batches(0, None, (0, 2000)), entries=entries)], 70_000)
            reader.ask(7)
            self.assertEqual(self.result(reader).requests, 0)

    def test_what_is_not_in_memory(self) -> None:
        """The disk is not waited for here."""
        data = batches([60_000] * 40)
        file = TemporaryFile(data)
        descriptor = file.file.fileno()
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        try:
            if os.preadv(descriptor, [bytearray(1)], len(data) - 1, os.RWF_NOWAIT):
                raise SkipTest("this file system keeps files in memory")
        except BlockingIOError:
            pass
        except OSError as error:
            raise SkipTest("this file system cannot tell what is in memory") from error
        for most in (WHOLE, 4096):
            reader = self.reader([file.batches()], most)
            reader.ask(7)
            self.assertEqual(self.result(reader).requests, 0)

    def test_stop(self) -> None:
        """Threads end while they have connections."""
        reader = self.reader([TemporaryFile(batches([1000])).batches()])
        self.fetches.stop()
        self.assertNotEqual(self.fetches.fileno(), -1)  # Not by the reactor: a disk might hold a thread up.
        self.fetches._threads.stop()
        self.assertEqual(reader.told.results, [])
        self.assertEqual(self.fetches.fileno(), -1)
        with self.assertRaisesRegex(RuntimeError, "stopped"):
            self.reader([TemporaryFile(batches([1000])).batches()])

    def test_wrong_numbers(self) -> None:
        kind = compiled()
        for number in (0, 17):
            with self.assertRaisesRegex(ValueError, "1 to 16"):
                kind(number, LATENCY_BUCKETS)
        with self.assertRaisesRegex(ValueError, "bounds"):
            kind(1, (1.0,) * 16)
        right: Any = [0, 0, bytes(100), 20, 40, bytes(10), b"", False, [(0, 0, 0, 1, 0, 0)], 0, 1, 0, 1.0]
        for at, wrong in (
            (8, [(0, 0, 0, 1, 0, 0)] * (MOST_RANGES + 1)),
            (8, []),
            (2, bytes(2000)),
            (3, 38),
            (4, 93),
            (5, bytes(1020)),
            (6, bytes(5)),
            (10, 0),
        ):
            with self.assertRaisesRegex(ValueError, "cannot be answered"):
                self.fetches._threads.submit(*[*right[:at], wrong, *right[at + 1 :]])


class ConnectionTests(RealCase):
    """Connections of a listener whose reactor has the threads."""

    def setUp(self) -> None:
        super().setUp()
        reactor = self.loop.reactor
        fetches = NativeFetches(compiled()(1, LATENCY_BUCKETS))
        reactor.addReader(fetches)
        reactor._fetches = fetches
        self.addCleanup(fetches._threads.stop)
        self.addCleanup(reactor.removeReader, fetches)
        self.sizes = [1000] * 400
        self.file = TemporaryFile(batches(self.sizes, 0))
        self.served: list[int] = []
        self.prepared: list[PreparedFetches] = []
        self.factory.served = {**self.factory.served}
        self.factory.repeated_router = self.repeated
        self.factory.fetch_preparer = self.prepare
        self.requests = Requests()

    def repeated(self, context: Any, request: RepeatedFetch) -> Any:
        """Read four batches."""
        self.served.append(request.offset)
        at = request.offset // 3 * 1000
        part = self.file.slice(at, min(4000, 400_000 - at))
        found = request.template.found(*NUMBERS, part)
        if at + 4000 < 400_000:
            request.read_to = request.offset + 12
        return request.template.response(request.correlation_id, 0, found, sum(map(len, found)))

    def prepare(self, context: Any, request: RepeatedFetch) -> PreparedFetches:
        template = request.template
        head, tail, compact = template.around_records(0, *NUMBERS)
        at = request.read_to // 3 * 1000
        made = PreparedFetches(
            template.repeated(request),
            0,
            template.places()[1],
            head,
            tail,
            compact,
            [self.file.batches(at)],
            0,
            4096,
            WHOLE,
            lambda answered: None,
        )
        self.prepared.append(made)
        return made

    def read(self, peer: Any, offset: int) -> bytes:
        """Fetch once; the records."""
        peer.sock.sendall(self.requests.request(offset))
        return self.response(peer)

    def response(self, peer: Any) -> bytes:
        frames = bytearray()

        def came() -> bool:
            peer.read()
            frames.extend(peer.frames())
            return bool(frames)

        self.loop.until(came, 60)
        return bytes(frames)

    def reading(self) -> Any:
        """A consumer whose next fetch a thread answers, from offset 48 on."""
        peer = self.connect()
        for offset in range(0, 48, 12):
            self.read(peer, offset)
        self.loop.until(lambda: self.transport()._fetching is not None)
        return peer

    def test_reads_on(self) -> None:
        """After a few fetches a thread answers, up to the end; what is counted is all of them."""
        peer = self.connect()
        found = bytearray()
        for offset in range(0, 1200, 12):
            found += self.read(peer, offset)[-4003:-3]
        self.assertEqual(bytes(found), self.file.data)
        self.assertEqual(len(self.prepared), 1)
        self.assertLessEqual(len(self.served), LEAST_PREPARED + 2)
        peer.sock.send(self.client.ask(metadata()))
        self.response(peer)
        metrics = self.factory.metrics
        self.assertEqual(metrics.requests, 101)
        self.assertEqual(metrics.requests_in_threads + len(self.served), 100)
        times = self.factory.shared.times.apis[1]
        self.assertEqual(sum(times.total.counts), 100)
        self.assertEqual(sum(times.queue.counts), 100)
        self.assertEqual(len(self.served), len(set(self.served)))

    def test_another_request(self) -> None:
        """It is answered behind the fetches, and they go on."""
        peer = self.reading()
        self.read(peer, 48)
        peer.sock.send(self.requests.request(60) + self.client.ask(metadata()) + self.requests.request(72))
        frames = bytearray()
        while len(frames) < 8000:
            frames += self.response(peer)
        self.assertEqual(self.handler.seen[-1], (3, 0))
        self.read(peer, 84)

    def test_drain(self) -> None:
        """Connections are closed behind the response that is being sent."""
        peer = self.reading()
        peer.sock.sendall(self.requests.request(48))
        self.loop.until(lambda: (peer.read(), peer.received)[1])
        done: list[None] = []
        self.factory.drain(60).addCallback(done.append)
        self.loop.until(lambda: (peer.read(), peer.ended)[1], 60)
        self.loop.until(lambda: done)
        self.assertEqual(len(peer.received), struct.unpack_from(">i", peer.received)[0] + 4)

    def test_abort(self) -> None:
        """An abort does not wait for the thread, which gives up."""
        peer = self.reading()
        list(self.factory._connections)[-1].abort()
        self.loop.until(lambda: (peer.read(), peer.ended)[1], 60)
        self.loop.until(lambda: not self.loop.reactor.fetches._away, 60)

    def test_end(self) -> None:
        """A peer that closes is noticed."""
        peer = self.reading()
        peer.sock.close()
        self.loop.until(lambda: not self.factory._connections, 60)

    def test_reset(self) -> None:
        """A peer that resets the connection, too."""
        peer = self.reading()
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.sock.close()
        self.loop.until(lambda: not self.factory._connections, 60)

    def test_idle(self) -> None:
        """The periodic check takes a connection back, so that an idle one is found."""
        peer = self.reading()
        [connection] = self.factory._connections
        connection.check(0.0)
        self.loop.until(lambda: self.transport()._fetching is None, 60)
        self.assertTrue(connection.frames.held == 0 and self.transport()._reading)
        self.read(peer, 48)

    def test_stalled(self) -> None:
        """A peer that takes nothing of a response for too long is closed."""
        large = TemporaryFile(batches([1_000_000] * 10, 48)).batches()
        self.factory.fetch_preparer = lambda *given: evolve(self.prepare(*given), ranges=[large], most=WHOLE, least=0)
        peer = self.reading()
        peer.sock.sendall(self.requests.request(48))
        peer.sock.setblocking(True)
        peer.sock.recv(1, socket.MSG_PEEK)
        [connection] = self.factory._connections
        now = self.loop.reactor.seconds()
        connection.check(now)
        connection.check(now + self.limits.idle_seconds - 5)
        self.assertFalse(self.factory.metrics.connections_expired)
        connection.check(now + self.limits.idle_seconds + 5)
        self.loop.until(lambda: not self.factory._connections, 60)
        self.assertEqual(self.factory.metrics.connections_expired, 1)
        self.loop.until(lambda: not self.loop.reactor.fetches._away, 60)

    def test_failures(self) -> None:
        """A bug that shows while one connection is given back, or while its fetches are prepared, closes only that."""
        peers = [self.reading(), self.reading()]
        first, _ = (connection.transport for connection in self.factory._connections)

        def fail(answered: AnsweredFetches) -> None:
            raise ValueError("a bug")

        first.protocol.fetches_answered = fail
        for peer in peers:
            peer.sock.send(self.client.ask(metadata()))
        self.loop.until(lambda: (peers[0].read(), peers[0].ended)[1], 60)
        self.response(peers[1])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.factory.fetch_preparer = lambda context, request: 1 / 0  # type: ignore[assignment,return-value]
        for offset in range(48, 600, 12):
            peers[1].sock.sendall(self.requests.request(offset))
            self.loop.until(lambda: (peers[1].read(), peers[1].ended or peers[1].frames())[1], 60)
            if peers[1].ended:
                break
        self.assertTrue(peers[1].ended)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertFalse(self.factory._connections)

    def test_no_descriptors(self) -> None:
        """Without a descriptor for the thread, the reactor goes on."""

        def refuse(fetches: NativeFetches, *given: Any) -> int:
            raise OSError("too many open files")

        self.patch(NativeFetches, "submit", refuse)
        peer = self.connect()
        for offset in range(0, 1200, 12):
            self.read(peer, offset)
        self.assertEqual(len(self.served), 100)
        # Each time it is tried later.
        self.assertLess(len(self.prepared), 6)
