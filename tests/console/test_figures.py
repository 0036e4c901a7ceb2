"""Tests of numbers as text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.console.figures import count, iso_time, moment, number, printable, rate, seconds, shortened, size


class FigureTests(SynchronousTestCase):
    """What people read of numbers."""

    def test_numbers(self) -> None:
        """Thousands are set apart by thin spaces; small fractions show."""
        self.assertEqual(
            [number(0), number(1234567), number(2.5), number(2.0)], ["0", "1\u2009234\u2009567", "2.5", "2"]
        )

    def test_sizes(self) -> None:
        """Sizes have binary units and about three digits."""
        told = [size(value) for value in (0, 1023, 1024, 1536, 150 * 1024, 1023.97 * 1024, 5 * 2**40)]
        self.assertEqual(told, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "150 KiB", "1.0 MiB", "5.0 TiB"])
        self.assertEqual(rate(2048), "2.0 KiB/s")

    def test_durations(self) -> None:
        """Durations have the unit that suits them."""
        told = [seconds(value) for value in (0.0012, 0.25, 3.44, 60, 7380, 7200, 363_600)]
        self.assertEqual(told, ["1.2 ms", "250 ms", "3.4 s", "1 min", "2 h 3 min", "2 h", "4 d 5 h"])

    def test_moments(self) -> None:
        """Times are in UTC; one that no calendar has is told as it is."""
        self.assertEqual(moment(1_700_000_000_000), "2023-11-14 22:13:20 UTC")
        self.assertEqual(moment(2**62), f"{2**62} ms since 1970")
        self.assertEqual(iso_time(1_700_000_000_007), "2023-11-14T22:13:20.007+00:00")
        self.assertEqual(iso_time(2**62), str(2**62))

    def test_counts(self) -> None:
        """Nouns agree with their numbers."""
        self.assertEqual(
            [count(1, "topic"), count(2, "topic"), count(2, "entry", "entries")], ["1 topic", "2 topics", "2 entries"]
        )

    @given(st.text(st.characters(exclude_categories=()), max_size=300))
    def test_any_text(self, text: str) -> None:
        """Any text can be shown: short, in UTF-8, and without what is not seen."""
        told = shortened(text)
        self.assertLessEqual(len(told), 120)
        self.assertEqual(printable(told), told)
        told.encode("utf-8")
