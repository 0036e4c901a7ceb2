"""Frames out of a stream."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import FrameTooLarge
from logbus.wire.buffer_pool import SIZE, BufferPool
from logbus.wire.frame_buffer import FLOOR, FrameBuffer, describe_bad_length


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def receive(buffer: FrameBuffer, data: bytes) -> int:
    """Put as much of ``data`` as there is room for, as ``recv_into`` does."""
    room = buffer.room()
    count = min(len(room), len(data))
    room[:count] = data[:count]
    buffer.filled(count)
    return count


def feed(buffer: FrameBuffer, data: bytes) -> Iterator[memoryview]:
    """Add ``data``, and yield every frame it completes, oldest first."""
    buffer.append(data)
    while (frame := buffer.next_frame()) is not None:
        yield frame


def drain(buffer: FrameBuffer) -> list[bytes]:
    frames = []
    while (frame := buffer.next_frame()) is not None:
        frames.append(bytes(frame))
    return frames


class FeedTests(SynchronousTestCase):
    @given(st.lists(st.binary(max_size=40)), st.integers(min_value=1, max_value=9))
    def test_chunking_is_invisible(self, payloads: list[bytes], step: int) -> None:
        """
        The same frames come out however the stream was cut up.
        """
        buffer = FrameBuffer(100, floor=16)
        stream = framed(*payloads)
        out = [bytes(frame) for at in range(0, len(stream), step) for frame in feed(buffer, stream[at : at + step])]
        self.assertEqual(out, payloads)
        self.assertEqual(buffer.held, 0)

    def test_grows_and_shrinks(self) -> None:
        """
        What does not fit makes the buffer grow; once it is empty it goes back to its floor.
        """
        buffer = FrameBuffer(1 << 20)
        [frame] = feed(buffer, framed(bytes(100_000)))
        self.assertEqual(len(frame), 100_000)
        self.assertGreater(buffer.capacity, 100_000)
        before = buffer.capacity
        self.assertEqual(buffer.shrink(), before - FLOOR)
        self.assertEqual(buffer.capacity, FLOOR)

    def test_views_survive_resizing(self) -> None:
        """
        The memory of a frame still looked at is not pulled away, and no BufferError arises.
        """
        buffer = FrameBuffer(1 << 20)
        [frame] = feed(buffer, framed(b"kept"))
        list(feed(buffer, framed(bytes(500_000))))
        buffer.shrink()
        self.assertEqual(bytes(frame), b"kept")

    def test_incomplete_frame_is_not_moved(self) -> None:
        """
        The content of a large buffer is not moved.
        """
        buffer = FrameBuffer(1 << 20)
        list(feed(buffer, framed(bytes(150_000))[:-1]))
        self.assertEqual(buffer.shrink(), 0)
        self.assertEqual([len(frame) for frame in feed(buffer, b"\0")], [150_000])

    def test_a_small_rest_moves_out_of_a_large_buffer(self) -> None:
        """
        The few bytes that followed a large frame do not keep its memory, and lose nothing by moving.
        """
        buffer = FrameBuffer(1 << 20)
        stream = framed(bytes(500_000), b"x" * 5000)
        self.assertEqual(len(list(feed(buffer, stream[:-4000]))), 1)
        self.assertGreater(buffer.shrink(), 400_000)
        self.assertLessEqual(buffer.capacity, 2 * FLOOR)
        self.assertEqual(len(buffer.room()) + buffer.held, buffer.capacity)
        self.assertEqual([bytes(frame) for frame in feed(buffer, stream[-4000:])], [b"x" * 5000])

    def test_cleared(self) -> None:
        """Its memory is free at once, or with the last frame of it; a pool has it back if there is none."""
        for takes in (False, True):
            pool = BufferPool()
            buffer = FrameBuffer(1 << 20, pool=pool)
            buffer.append(framed(b"x" * 300_000, b"y" * 300_000)[:-1])
            taken = buffer.next_frame() if takes else None
            buffer.clear()
            self.assertEqual((buffer.capacity, buffer.held, buffer.next_frame()), (0, 0, None))
            self.assertEqual(pool.fits(SIZE), not takes)
            self.assertEqual(taken, b"x" * 300_000 if takes else None)

    def test_free_space_after_shrinking(self) -> None:
        """
        However many bytes are held, a smaller buffer has room for one more: a full one would be read no more.
        """
        for held in (1, FLOOR - 1, FLOOR, 2 * FLOOR, 65_536):
            buffer = FrameBuffer(1 << 20)
            list(feed(buffer, framed(bytes(900_000))))
            list(feed(buffer, framed(bytes(200_000))[:held]))
            buffer.shrink()
            self.assertGreater(len(buffer.room()), 0, held)


class ReceiveTests(SynchronousTestCase):
    @settings(max_examples=200)
    @given(
        st.lists(st.binary(max_size=60), max_size=30),
        st.lists(st.integers(min_value=1, max_value=50), min_size=1),
    )
    def test_receive_into(self, payloads: list[bytes], sizes: list[int]) -> None:
        """
        Frames come out whole when the stream arrives in the room offered, with growth only where it is asked for.
        """
        buffer = FrameBuffer(100, floor=16)
        stream, out, at, turn = framed(*payloads), [], 0, 0
        while at < len(stream):
            at += receive(buffer, stream[at : at + sizes[turn % len(sizes)]])
            out += drain(buffer)
            if buffer.shortage:
                before, shortage = buffer.capacity, buffer.shortage
                self.assertEqual(buffer.grow(), shortage)
                self.assertEqual(buffer.capacity, before + shortage)
            turn += 1
        self.assertEqual(out, payloads)

    def test_missing_bytes(self) -> None:
        """
        How much of a frame has not come yet is known once its length is.
        """
        buffer = FrameBuffer(100)
        self.assertEqual(buffer.missing, 0)
        receive(buffer, framed(b"abc")[:3])
        self.assertEqual(buffer.missing, 0)
        receive(buffer, framed(b"abc")[3:5])
        self.assertEqual(buffer.missing, 2)
        receive(buffer, framed(b"abc")[5:])
        self.assertEqual(buffer.missing, 0)

    def test_frames_are_writable_in_place(self) -> None:
        """
        A frame is a view of the buffer, so that offsets can be patched where they are.
        """
        buffer = FrameBuffer(100)
        receive(buffer, framed(b"abc"))
        frame = buffer.next_frame()
        assert frame is not None
        frame[0] = ord("x")
        self.assertEqual(bytes(frame), b"xbc")

    def test_large_frame_limits_receiving(self) -> None:
        """
        The room ends with a large frame, so that what follows need not be moved to the front.
        """
        buffer = FrameBuffer(1 << 20)
        stream = framed(bytes(200_000), b"next")
        at = receive(buffer, stream)
        while buffer.partial:
            buffer.grow()
            at += receive(buffer, stream[at:])
        self.assertEqual(at, 4 + 200_000)

    def test_full_buffer(self) -> None:
        """
        While whole frames wait nothing more is taken in; when one is consumed there is room again.
        """
        buffer = FrameBuffer(100, floor=16)
        receive(buffer, framed(b"1234", b"5678") + b"x")
        self.assertEqual(len(buffer.room()), 0)
        buffer.next_frame()
        self.assertEqual(len(buffer.room()), 8)

    def test_partial_tells_a_beginning_from_a_whole_frame(self) -> None:
        """
        Only a frame that was begun and not ended counts as partial.
        """
        buffer = FrameBuffer(100)
        self.assertFalse(buffer.partial)
        receive(buffer, b"\0")
        self.assertTrue(buffer.partial)
        receive(buffer, b"\0\0\1")
        self.assertTrue(buffer.partial)
        receive(buffer, b"!")
        self.assertFalse(buffer.partial)

    def test_memory_follows_the_bytes(self) -> None:
        """
        A frame's announcement takes no memory. What has come may be followed by four times as much, or by a megabyte,
        and in the end a frame has at most an eighth more than it needs, beyond the smallest step.
        """
        for size in (70_000, 1_000_000, 1_048_576, 20_000_000):
            buffer = FrameBuffer(1 << 30)
            receive(buffer, struct.pack(">i", size))
            self.assertEqual((buffer.grow(), buffer.capacity), (0, FLOOR))
            received = 4
            while buffer.partial:
                received += receive(buffer, bytes(1 << 20))
                if buffer.partial:
                    buffer.grow()
                    self.assertLessEqual(buffer.capacity, max(4 * received, received + (1 << 20)))
            self.assertLessEqual(buffer.capacity, (size + 4) * 9 // 8 + FLOOR)
            self.assertEqual([len(frame) for frame in drain(buffer)], [size])

    def test_large_frames_are_rarely_copied(self) -> None:
        """
        From a quarter of a megabyte on, growing takes more of the same address range.
        """
        buffer = FrameBuffer(1 << 30)
        receive(buffer, struct.pack(">i", 20_000_000))
        places = set()
        while buffer.partial:
            receive(buffer, bytes(1 << 20))
            buffer.grow()
            places.add(id(buffer.contents[0]))
        self.assertLess(len(places), 5)


class RefusalTests(SynchronousTestCase):
    def test_hostile_lengths(self) -> None:
        """
        Negative and oversized lengths are refused on their announcement, without growing by a byte.
        """
        for length in (-1, -(2**31), 101, 2**31 - 1):
            buffer = FrameBuffer(100)
            receive(buffer, struct.pack(">i", length))
            self.assertEqual(buffer.shortage, 0)
            self.assertRaises(FrameTooLarge, buffer.next_frame)
            self.assertEqual(buffer.capacity, FLOOR)

    def test_the_limit_itself_is_accepted(self) -> None:
        """
        A frame as long as the limit passes.
        """
        [frame] = feed(FrameBuffer(100), framed(bytes(100)))
        self.assertEqual(len(frame), 100)

    def test_foreign_protocols_are_named(self) -> None:
        """
        TLS and HTTP are called what they are, by a server and by a client.
        """
        cases = {
            b"\x16\x03\x01\x02": "TLS handshake: the other side speaks TLS, and this one plaintext",
            b"\x15\x03\x03\x00": "TLS alert: the other side speaks TLS",
            b"GET ": "HTTP",
            b"POST": "the other side speaks HTTP",
            b"HTTP": "the other side speaks HTTP",
            b"<!DO": "the other side speaks HTTP",
            b"<htm": "the other side speaks HTTP",
            b"<!\xff\xff": "the other side speaks HTTP",
            b"\xff\xff\xff\xff": "negative length -1",
            b"\x7f\xff\xff\xff": "announces 2147483647 bytes; at most 100",
        }
        for raw, words in cases.items():
            self.assertIn(words, describe_bad_length(struct.unpack(">i", raw)[0], 100))
