"""Ranges of versions."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.wire.version_range import ALL_VERSIONS, LAST_VERSION, NO_VERSIONS, VersionRange


class VersionRangeTests(SynchronousTestCase):
    """Reading and asking."""

    def test_spellings(self) -> None:
        """All of Kafka's spellings are read, and written back."""
        for text, low, high in (("4-18", 4, 18), ("9+", 9, LAST_VERSION), ("0", 0, 0), ("none", 0, -1)):
            self.assertEqual(VersionRange.parse(text), (low, high))
            self.assertEqual(str(VersionRange.parse(text)), text)

    def test_includes(self) -> None:
        """Both ends belong to a range."""
        versions = VersionRange(4, 18)
        self.assertEqual([v for v in range(30) if versions.includes(v)], list(range(4, 19)))
        self.assertFalse(NO_VERSIONS.includes(0))
        self.assertTrue(ALL_VERSIONS.includes(0) and ALL_VERSIONS.includes(LAST_VERSION))

    def test_nonsense(self) -> None:
        """Anything else is refused, saying what to write."""
        for text in ("", "x", "1-", "-1", "3-1", "1+2", "1 - 2", "+"):
            with self.assertRaisesRegex(ValueError, "range"):
                VersionRange.parse(text)
