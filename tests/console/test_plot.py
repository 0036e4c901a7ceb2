"""Tests of plots."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.template import Tag, flattenString

from logbus.admin.metric_history import SAMPLES
from logbus.console.figures import number
from logbus.console.plot import HEIGHT, WIDTH, ceiling, plot

points = st.lists(st.none() | st.floats(0, 1e15), max_size=SAMPLES - 1)


class PlotTests(SynchronousTestCase):
    """Time series as SVG."""

    def drawn(self, tag: Tag) -> str:
        text: bytes = self.successResultOf(flattenString(None, tag))
        return text.decode()

    @given(st.floats(1e-6, 1e18))
    def test_ceiling(self, value: float) -> None:
        """The top of the axis is not below the highest value, and not far above it."""
        self.assertLessEqual(value, ceiling(value) * (1 + 1e-9))
        self.assertLessEqual(ceiling(value), value * 2.5 * (1 + 1e-9))

    @given(points, points)
    def test_within(self, first: list[float | None], second: list[float | None]) -> None:
        """All of it is within the picture."""
        text = self.drawn(plot("Throughput", [("in", first), ("out", second)], number))
        for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", " ".join(re.findall(r'points="([^"]*)"', text))):
            self.assertTrue(-2 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT, (x, y))

    def test_words(self) -> None:
        """Who cannot see the lines is told the newest and the highest values."""
        text = self.drawn(plot("Throughput", [("in", [1, 5, 3])], number))
        self.assertIn("Throughput, last hour. in: now 3; highest 5.", text)

    def test_gaps(self) -> None:
        """A line is interrupted where nothing is known."""
        self.assertEqual(self.drawn(plot("T", [("in", [1, 2, None, 3, 4])], number)).count("<polyline"), 2)

    def test_nothing_yet(self) -> None:
        """Without values there is a sentence instead of an empty frame."""
        text = self.drawn(plot("T", [("in", [])], number))
        self.assertIn("No values yet", text)
        self.assertNotIn("<svg", text)
