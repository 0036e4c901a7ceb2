"""Tests of :mod:`logbus.coordination.streams.status`."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.streams.status import some_of


class SomeOfTests(SynchronousTestCase):
    """A client may name any number of topics, and gets the detail with each heartbeat."""

    def test_a_few(self) -> None:
        """All are named, in order."""
        self.assertEqual(some_of([]), "")
        self.assertEqual(some_of(["b", "a", "c"]), "a, b, c")

    def test_many(self) -> None:
        """The first are named, and the others counted."""
        self.assertEqual(some_of(f"t{number}" for number in range(9)), "t0, t1, t2 and 6 more")
