"""Memory that connections use in turn."""

from __future__ import annotations

from pickle import PickleBuffer

from twisted.trial.unittest import SynchronousTestCase

from logbus.wire.buffer_pool import MOST, SIZE, BufferPool
from logbus.wire.frame_buffer import FLOOR, FrameBuffer
from tests.wire.test_frame_buffer import framed


class BufferPoolTests(SynchronousTestCase):
    def test_the_last_one_is_used_first(self) -> None:
        """
        The buffer that came back last is lent first: it is in the caches.
        """
        pool = BufferPool()
        one, two = pool.take(1), pool.take(SIZE)
        pool.give_back(one)
        pool.give_back(two)
        self.assertIs(pool.take(300_000), two)
        self.assertIs(pool.take(300_000), one)
        self.assertFalse(pool.fits(1))

    def test_memory_that_is_looked_at_is_not_lent(self) -> None:
        """
        A buffer with a view of it, however small, is not used again, and the view stays what it is.
        """
        pool = BufferPool()
        buffer = pool.take(1)
        buffer[:4] = b"kept"
        view = memoryview(buffer)[1:3]
        self.assertFalse(pool.give_back(buffer))
        self.assertFalse(pool.fits(1))
        self.assertEqual(bytes(view), b"ep")

    def test_it_is_bounded(self) -> None:
        """
        Few buffers are kept, and none of other sizes.
        """
        pool = BufferPool()
        for buffer in [pool.take(1) for _ in range(MOST + 3)]:
            self.assertTrue(pool.give_back(buffer))
        self.assertFalse(pool.give_back(pool.take(SIZE + 1)))
        self.assertFalse(pool.fits(SIZE + 1))
        lent = 0
        while pool.fits(SIZE):
            pool.take(SIZE)
            lent += 1
        self.assertEqual(lent, MOST)

    def test_what_is_not_needed_is_released(self) -> None:
        """
        After a while only those buffers are kept of which all were in use at some time in it.
        """
        pool = BufferPool()
        for count, left in ((5, 5), (2, 2), (0, 0)):
            for buffer in [pool.take(1) for _ in range(count)]:
                pool.give_back(buffer)
            pool.trim()
            self.assertEqual(len(pool._free), left)


class FrameBufferTests(SynchronousTestCase):
    def receive(self, buffer: FrameBuffer, stream: bytes) -> int:
        """Have a buffer receive a stream, growing as its owner lets it; how often it grew."""
        at = grown = 0
        while at < len(stream):
            if buffer.shortage:
                grown += 1
                buffer.grow()
            room = buffer.room()
            count = min(len(room), len(stream) - at)
            room[:count] = stream[at : at + count]
            buffer.filled(count)
            at += count
        return grown

    def test_a_large_frame_gets_its_memory_at_once(self) -> None:
        """
        With a free buffer in the pool a frame's memory is there in one step, and goes back when the buffer shrinks.
        """
        pool = BufferPool()
        buffer = FrameBuffer(1 << 24, pool=pool)
        payloads = [bytes([n]) * 1_000_000 for n in range(3)]
        steps = []
        for payload in payloads:
            steps.append(self.receive(buffer, framed(payload)))
            frame = buffer.next_frame()
            self.assertEqual(frame, payload)
            self.assertEqual(buffer.give_back(), 0)
            del frame
            whole = PickleBuffer(buffer.contents[1])
            self.assertEqual(buffer.give_back(), 0)
            whole.release()
            self.assertGreater(buffer.give_back(), 1_000_000)
            self.assertEqual(buffer.capacity, FLOOR)
            self.assertTrue(pool.fits(SIZE))
        self.assertEqual(steps[1:], [1, 1])
        self.assertGreater(steps[0], 1)

    def test_an_announcement_gets_no_buffer(self) -> None:
        """
        The pool's memory is for frames whose first bytes fill the first memory of a connection.
        """
        pool = BufferPool()
        pool.give_back(pool.take(1))
        buffer = FrameBuffer(1 << 24, pool=pool)
        self.receive(buffer, framed(bytes(1_000_000))[: FLOOR - 1])
        self.assertEqual((buffer.capacity, buffer.shortage, pool.fits(1)), (FLOOR, 0, True))

    def test_only_an_empty_buffer_is_given_back(self) -> None:
        """
        A buffer with a part of the next frame stays with its connection, and so does one that is not the pool's.
        """
        buffer = FrameBuffer(1 << 24, pool=BufferPool())
        self.receive(buffer, framed(bytes(500_000), b"next")[:-1])
        buffer.next_frame()
        self.assertEqual((buffer.give_back(), buffer.held), (0, 7))
        alone = FrameBuffer(1 << 24)
        self.receive(alone, framed(bytes(500_000)))
        alone.next_frame()
        self.assertEqual(alone.give_back(), 0)
        self.assertEqual(self.receive(alone, framed(b"more")), 0)

    def test_a_frame_outlives_its_buffer(self) -> None:
        """
        A frame that is still used keeps its memory, whatever other connections receive.
        """
        pool = BufferPool()
        one, other = (FrameBuffer(1 << 24, pool=pool) for _ in range(2))
        self.receive(one, framed(b"1" * 500_000))
        frame = one.next_frame()
        one.give_back()
        one.shrink()
        self.receive(other, framed(b"2" * 500_000))
        self.assertEqual(frame, b"1" * 500_000)
