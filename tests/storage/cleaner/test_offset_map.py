"""The offset map of a cleaning."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.storage.cleaner import implementations
from logbus.storage.cleaner.offset_map import ENTRY_SIZE, OffsetMap

KEYS = st.binary(max_size=3)


class OffsetMapTests(SynchronousTestCase):
    """A dictionary of bounded size."""

    @given(st.lists(KEYS), KEYS, st.integers(0, 3000))
    def test_as_a_dictionary(self, keys: list[bytes], other: bytes, size: int) -> None:
        """It knows the last offset of each key it took, and refuses only new keys, and only when it is full."""
        found, expected = OffsetMap(size), dict[bytes, int]()
        for offset, key in enumerate(keys):
            taken = found.put(key, offset)
            self.assertEqual(taken, key in expected or len(expected) < found.capacity)
            if taken:
                expected[key] = offset
        self.assertEqual(len(found), len(expected))
        for key in [*keys, other]:
            self.assertEqual(found.get(key), expected.get(key, -1))

    def test_memory(self) -> None:
        """A key takes 24 bytes, of which three fourths can be used."""
        self.assertEqual(OffsetMap(24 * 1000).capacity, 750)
        self.assertEqual(ENTRY_SIZE, 24)

    def test_the_smallest(self) -> None:
        """One key fits into the smallest map, or a cleaning would never come to an end."""
        found = OffsetMap(0)
        self.assertTrue(found.put(b"a", 1))
        self.assertFalse(found.put(b"b", 2))
        self.assertTrue(found.put(b"a", 3))
        self.assertEqual((found.get(b"a"), found.get(b"b")), (3, -1))

    def test_clear(self) -> None:
        """A map without its memory knows no key, and can still be asked."""
        for maps in (OffsetMap, implementations.OffsetMap):
            found = maps(1000)
            found.put(b"a", 1)
            found.clear()
            self.assertEqual((len(found), found.get(b"a"), found.capacity), (0, -1, 1))
            self.assertTrue(found.put(b"b", 2))
            self.assertFalse(found.put(b"c", 3))
