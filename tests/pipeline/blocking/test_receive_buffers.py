"""Tests the reuse of receive buffers."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.pipeline.blocking import receive_buffers
from logbus.pipeline.blocking.receive_buffers import MAX_BUFFERS, MAX_KEPT_BYTES, ReceiveBuffers


class ReceiveBuffersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.buffers = ReceiveBuffers()

    def test_buffers_are_reused(self) -> None:
        """What nobody looks at any more is taken again, for less as well; one that is too small goes."""
        first = self.buffers.take(200_000)
        buffer = first.obj
        part = first[10:20]
        first.release()
        self.assertIsNot(self.buffers.take(200_000).obj, buffer)
        part.release()
        self.assertIs(self.buffers.take(100_000).obj, buffer)
        self.buffers.take(300_000)
        self.assertEqual(sorted(len(each) // 100_000 for each in self.buffers._buffers), [2, 3])

    def test_bounded(self) -> None:
        """However many are taken at once: only some are kept, and no enormous one."""
        self.patch(receive_buffers, "_STEP", 16)
        taken = [self.buffers.take(100) for _ in range(MAX_BUFFERS + 3)]
        self.assertEqual(len({id(each.obj) for each in taken}), len(taken))
        self.assertEqual(len(self.buffers._buffers), MAX_BUFFERS)
        self.assertEqual(len(self.buffers.take(MAX_KEPT_BYTES + 1)), MAX_KEPT_BYTES + 1)
        self.assertEqual(len(self.buffers._buffers), MAX_BUFFERS)

    @given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 8)), max_size=40))
    def test_buffers_do_not_overlap(self, steps: list[tuple[int, int]]) -> None:
        """What is held stays as it is, whatever is taken and let go meanwhile."""
        self.patch(receive_buffers, "_STEP", 16)
        buffers, held = ReceiveBuffers(), list[tuple[Any, bytes]]()
        for number, (size, let_go) in enumerate(steps):
            taken = buffers.take(size)
            self.assertEqual(len(taken), size)
            content = bytes([number]) * size
            taken[:] = content
            held.append((taken, content))
            del taken
            for view, said in held:
                self.assertEqual(view, said)
            if let_go < len(held):
                del held[let_go]
