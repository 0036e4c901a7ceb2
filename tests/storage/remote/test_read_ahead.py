"""How far is read ahead of readers of remote storage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.storage.remote.read_ahead import FIRST_BYTES, IDLE_SECONDS, MOST_BYTES, MOST_READERS, ReadAhead

WIDE = 100 * MOST_BYTES


class ReadAheadTests(SynchronousTestCase):
    """Readers that read on, and those that do not."""

    def setUp(self) -> None:
        self.now = 0.0

    def ahead(self, limit: int = WIDE) -> ReadAhead:
        """With a clock of this test."""
        return ReadAhead(limit, lambda: self.now)

    def test_one_that_reads_on(self) -> None:
        """It gets more with each read, up to a limit; one that begins elsewhere gets little."""
        ahead = self.ahead()
        found = [ahead.advance("t-0", offset, offset + 10) for offset in range(0, 50, 10)]
        self.assertEqual(found, [FIRST_BYTES, 4 * FIRST_BYTES, MOST_BYTES, MOST_BYTES, MOST_BYTES])
        self.assertEqual(ahead.of_reader("t-0", 50), MOST_BYTES)
        self.assertEqual((ahead.of_reader("t-0", 40), ahead.of_reader("t-1", 50)), (0, 0))
        self.assertEqual(ahead.advance("t-0", 30, 40), FIRST_BYTES)
        self.assertEqual(ahead.advance("t-1", 50, 60), FIRST_BYTES)

    def test_several(self) -> None:
        """They share what there is; those that are gone do not count."""
        ahead = self.ahead(2 * MOST_BYTES)
        for offset in range(4):
            shares = [ahead.advance(log, offset, offset + 1) for log in range(4)]
        self.assertEqual(shares, [MOST_BYTES // 2] * 4)
        self.now = IDLE_SECONDS + 1
        ahead.advance(0, 4, 5)
        self.assertEqual(ahead.advance(0, 5, 6), 4 * FIRST_BYTES)
        self.assertEqual(ahead.advance(0, 6, 7), MOST_BYTES)
        self.assertEqual(ahead.of_reader(1, 4), 0)

    def test_many(self) -> None:
        """Of very many readers the last are known."""
        ahead = self.ahead()
        for log in range(MOST_READERS + 5):
            ahead.advance(log, 0, 1)
        self.assertEqual((ahead.of_reader(4, 1), ahead.of_reader(5, 1)), (0, FIRST_BYTES))

    @given(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(1, 2), st.sampled_from([0.0, 1.0, 40.0]))),
        st.integers(1, 40),
    )
    def test_bounded(self, reads: list[tuple[int, int, int, float]], windows: int) -> None:
        """All that read on get no more than there is, or one window each; what is counted is what is known."""
        ahead = self.ahead(windows * FIRST_BYTES)
        for log, offset, size, seconds in reads:
            self.now += seconds
            ahead.advance(log, offset, offset + size)
            on = [key for key, (size, _) in ahead._readers.items() if size > FIRST_BYTES]
            self.assertEqual(ahead._reading_on, len(on))
            shares = [ahead.of_reader(*key) for key in on]  # type: ignore[misc]
            self.assertLessEqual(sum(shares), max(ahead.limit, len(on) * FIRST_BYTES))
