"""Memory beyond the total."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.net.memory_overdraft import BEYOND_SHARE, MemoryOverdraft
from logbus.net.request_budget import RequestBudget
from tests.net.memory_holders import Connection


class OverdraftTests(SynchronousTestCase):
    def test_little_together_and_one_large(self) -> None:
        """
        Frames may lack a sixteenth of the total together, and one of them any number of bytes; each has its place until
        it ends.
        """
        overdraft, total = MemoryOverdraft(), 100 * BEYOND_SHARE
        first, second, large, other = (Connection(RequestBudget(total)) for _ in range(4))
        self.assertTrue(overdraft.admit(first, 60, total) and overdraft.admit(second, 40, total))
        self.assertTrue(overdraft.admit(large, 10_000, total))
        self.assertFalse(overdraft.admit(other, 1, total))
        overdraft.take(first, 30)
        overdraft.take(large, 500)
        self.assertEqual((overdraft.used, overdraft.end(first), overdraft.used), (530, 30, 500))
        self.assertTrue(overdraft.admit(other, 60, total))
        self.assertFalse(overdraft.admit(first, 1, total))
        self.assertEqual((overdraft.end(large), overdraft.end(large)), (500, 0))
        self.assertTrue(overdraft.admit(first, 1, total))
        self.assertNotIn(large, overdraft)
