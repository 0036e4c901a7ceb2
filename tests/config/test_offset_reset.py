"""Tests of :mod:`logbus.config.offset_reset`."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.config.offset_reset import BY_DURATION, EARLIEST, LATEST, OffsetReset, parse_offset_reset


class OffsetResetTests(SynchronousTestCase):
    """Where a share group begins."""

    def test_parsed(self) -> None:
        """What is valid, how it is shown again, and the durations in it."""
        for text, strategy, duration_ms in (
            ("earliest", EARLIEST, 0),
            ("latest", LATEST, 0),
            ("by_duration:P1D", BY_DURATION, 86_400_000),
            ("by_duration:PT1H30M", BY_DURATION, 5_400_000),
            ("by_duration:P1DT0.25S", BY_DURATION, 86_400_250),
            ("by_duration:pt5s", BY_DURATION, 5000),
            ("by_duration:PT0S", BY_DURATION, 0),
        ):
            parsed = parse_offset_reset(text)
            self.assertEqual((parsed.strategy, parsed.duration_ms, str(parsed)), (strategy, duration_ms, text))
        self.assertEqual(OffsetReset(LATEST), parse_offset_reset("latest"))

    def test_refused(self) -> None:
        """What Java's Duration does not parse, what is negative, and other words."""
        for text in (
            "",
            "none",
            "Latest",
            "latest:",
            "earliest:PT1H",
            "by_duration",
            "by_duration:",
            "by_duration:P",
            "by_duration:PT",
            "by_duration:P1DT",
            "by_duration:1h",
            "by_duration:-PT1H",
            "by_duration:PT-1H",
            "by_duration:P1Y",
        ):
            self.assertRaises(ValueError, parse_offset_reset, text)
