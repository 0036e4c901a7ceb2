"""Tests of the last hour of metrics."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.metric_history import (
    FETCH_TIME,
    LATENCY,
    LATENESS,
    PRODUCE_TIME,
    RECEIVED,
    SAMPLES,
    MetricHistory,
)
from logbus.metrics import Registry


class HistoryTests(SynchronousTestCase):
    """Samples over time."""

    def setUp(self) -> None:
        self.registry, self.clock = Registry(), Clock()
        self.history = MetricHistory(self.registry.collect, self.clock)

    def test_rates(self) -> None:
        """A counter's increase per second is known from the second sample on; one that begins again is not negative."""
        received = self.registry.counter(RECEIVED, "Bytes.").labels()
        self.history.start()
        self.addCleanup(self.history.stop)
        for value in (100, 300, 0):
            received.value = value
            self.clock.advance(10)
        self.assertEqual(self.history.rates(RECEIVED), [10.0, 20.0, 0.0])
        self.assertEqual(self.history.rates("logbus_unknown_total"), [None, None, None])

    def test_bounded(self) -> None:
        """What is older than an hour is forgotten."""
        self.registry.counter(RECEIVED, "Bytes.")
        for _ in range(SAMPLES + 50):
            self.history.sample()
        self.assertEqual(len(self.history.rates(RECEIVED)), SAMPLES - 1)

    def test_quantiles(self) -> None:
        """A quantile is of what was observed between two samples: the whole of a Produce, the local part of a Fetch."""
        histogram = self.registry.histogram(LATENCY, "Seconds.", ("api", "phase"), (0.1, 1.0, 10.0))
        self.history.sample()
        for api, phase, seconds in (
            ("Produce", "total", 0.5),
            ("Produce", "local", 0.05),
            ("Fetch", "total", 9),
            ("Fetch", "local", 0.05),
            ("Metadata", "total", 9),
        ):
            histogram.labels(api=api, phase=phase).observe(seconds)
        self.history.sample()
        self.history.sample()
        self.assertEqual(self.history.quantiles(PRODUCE_TIME, 0.99), [1.0, None])
        self.assertEqual(self.history.quantiles(FETCH_TIME, 0.99), [0.1, None])

    def test_above_all_buckets(self) -> None:
        """What is above the last bound is told as that bound."""
        histogram = self.registry.histogram(LATENESS, "Seconds.", (), (0.1, 1.0)).labels()
        self.history.sample()
        histogram.observe(99)
        self.history.sample()
        self.assertEqual(self.history.quantiles(LATENESS, 0.99), [1.0])

    def test_failing_metrics(self) -> None:
        """Metrics that fail cost a sample, and are logged; the next one is taken."""
        failing = MetricHistory(lambda: 1 // 0, self.clock)  # type: ignore[arg-type, return-value]
        failing.start()
        self.clock.advance(10)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)
        failing.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
