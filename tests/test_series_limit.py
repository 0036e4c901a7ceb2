"""Tests of :mod:`logbus.series_limit`."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.metrics import Family, Registry, Sample
from logbus.series_limit import FOLDED, OTHER, PAUSE_SAMPLES, limit_series


def limited(families: list[Family], limit: int) -> dict[str, list[Sample]]:
    """Return the samples that are left, without pauses, by the family's name."""
    return {family.name: [each for each in family.samples if each] for family in limit_series(families, limit)}


def gauge(values: list[float], **more: object) -> Family:
    samples = iter([Sample("logbus_lag", (("group", str(number)),), value) for number, value in enumerate(values)])
    return Family("logbus_lag", "Lag.", "gauge", samples, **more)  # type: ignore[arg-type]


class SeriesLimitTests(SynchronousTestCase):
    """Series past the limit become one."""

    @given(st.lists(st.integers(0, 1000), max_size=30), st.integers(1, 20))
    def test_nothing_is_lost_from_a_sum(self, values: list[int], limit: int) -> None:
        """The sum of what is shown is that of all series, and the first ones are shown as they are."""
        found = limited([gauge(list(map(float, values)))], limit)
        shown = found["logbus_lag"]
        self.assertEqual(sum(each.value for each in shown), sum(values))
        self.assertEqual([each.value for each in shown[:limit]], values[:limit])
        folded = max(len(values) - limit, 0)
        self.assertEqual(len(shown), min(len(values), limit) + bool(folded))
        if folded:
            self.assertEqual(shown[-1].labels, (("group", OTHER),))
            self.assertEqual(found[FOLDED], [Sample(FOLDED, (("metric", "logbus_lag"),), folded)])
        else:
            self.assertEqual(found[FOLDED], [])

    def test_a_maximum_stays_one(self) -> None:
        """The others of a family of maxima have the largest value."""
        self.assertEqual(limited([gauge([1, 9, 7, 8], combine=max)], 1)["logbus_lag"][-1].value, 9)

    def test_histograms(self) -> None:
        """Buckets, sums and counts of the others are added up each for itself: a histogram again."""
        registry = Registry()
        latency = registry.histogram("logbus_latency_seconds", "How long.", ("api",), buckets=(1.0, 2.0))
        for api, seconds in (("a", 0.5), ("b", 0.5), ("c", 1.5), ("d", 9.0)):
            latency.labels(api=api).observe(seconds)
        shown = limited(list(registry.collect()), 1)["logbus_latency_seconds"]
        self.assertEqual([each.labels[0][1] for each in shown], ["a"] * 5 + [OTHER] * 5)
        others = {(each.name.removeprefix("logbus_latency_seconds"), each.labels[1:]): each.value for each in shown[5:]}
        self.assertEqual(
            others,
            {
                ("_bucket", (("le", "1.0"),)): 1,
                ("_bucket", (("le", "2.0"),)): 2,
                ("_bucket", (("le", "+Inf"),)): 3,
                ("_sum", ()): 11.0,
                ("_count", ()): 3,
            },
        )

    def test_a_single_series_without_labels(self) -> None:
        """A metric without labels is never folded."""
        registry = Registry()
        registry.counter("logbus_crashes_total", "Crashes.")
        self.assertEqual(
            limited(list(registry.collect()), 1)["logbus_crashes_total"], [("logbus_crashes_total", (), 0)]
        )

    def test_pauses(self) -> None:
        """What folds many series pauses now and then, and keeps the pauses of what makes them."""
        [first, _] = limit_series([gauge([1.0] * (1 + 5 * PAUSE_SAMPLES))], 1)
        self.assertEqual(list(first.samples).count(None), 5)
        paused = Family("logbus_lag", "Lag.", "gauge", chain([None], gauge([1.0]).samples, [None]))
        [first, _] = limit_series([paused], 1)
        self.assertEqual(list(first.samples).count(None), 2)
