"""
Keeps the last hour of a few metrics in memory, a sample every ten seconds, for the plots of the console.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf

from attrs import define, field, frozen
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from logbus.metrics import Family

INTERVAL_SECONDS = 10
SAMPLES = 3600 // INTERVAL_SECONDS + 1

RECEIVED, SENT = "logbus_received_bytes_total", "logbus_sent_bytes_total"
REQUESTS, PRODUCED = "logbus_requests_total", "logbus_produced_records_total"
LATENESS, LATENCY = "logbus_reactor_late_seconds", "logbus_request_seconds"
# A Fetch waits for records as long as its client wants.
PRODUCE_TIME, FETCH_TIME = "produce", "fetch"
REQUEST_TIMES = {("Produce", "total"): PRODUCE_TIME, ("Fetch", "local"): FETCH_TIME}
FREE, SIZE = "logbus_log_directory_free_bytes", "logbus_log_directory_size_bytes"
SUMS = (RECEIVED, SENT, REQUESTS, PRODUCED)
GAUGES = (FREE, SIZE)

Points = Sequence[float | None]


@frozen
class Sampled:
    """
    The metrics at one time.

    :ivar sums: counters, over all their labels.
    :ivar buckets: cumulative counts by upper bound of ``LATENESS``, ``PRODUCE_TIME`` and ``FETCH_TIME``.
    """

    sums: Mapping[str, float]
    buckets: Mapping[str, Mapping[float, float]]


@define(eq=False)
class MetricHistory:
    """
    The last hour.

    :ivar families: returns the current metrics.
    """

    families: Callable[[], Iterable[Family]]
    clock: IReactorTime
    latest: Mapping[str, Mapping[str, float]] = field(factory=dict, init=False)
    _samples: deque[Sampled] = field(factory=lambda: deque(maxlen=SAMPLES), init=False)
    _timer: LoopingCall | None = field(default=None, init=False)
    _log = Logger()

    def start(self) -> None:
        """Take a sample now, and then at each interval."""
        if self._timer is None:
            self._timer = LoopingCall(self.sample)
            self._timer.clock = self.clock
            self._timer.start(INTERVAL_SECONDS)

    def stop(self) -> None:
        """Take no more samples."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def sample(self) -> None:
        """Take a sample; an error is logged, and the sample left out."""
        try:
            self._take()
        except Exception:
            self._log.failure("a sample of the metrics for the console failed")

    def _take(self) -> None:
        sums: dict[str, float] = {}
        buckets: dict[str, dict[float, float]] = {}
        latest: dict[str, dict[str, float]] = {}
        for family in self.families():
            if family.name in SUMS:
                sums[family.name] = sum(sample.value for sample in family.samples if sample is not None)
            elif family.name == LATENESS:
                buckets[LATENESS] = _buckets(family)
            elif family.name == LATENCY:
                buckets |= _request_times(family)
            elif family.name in GAUGES:
                latest[family.name] = {
                    sample.labels[0][1]: sample.value for sample in family.samples if sample is not None
                }
        self._samples.append(Sampled(sums, buckets))
        self.latest = latest

    def rates(self, name: str) -> Points:
        """Return the increase per second of a counter, an interval each; None where it is unknown."""
        return [
            None
            if name not in before.sums or name not in after.sums
            else max(after.sums[name] - before.sums[name], 0.0) / INTERVAL_SECONDS
            for before, after in self._pairs()
        ]

    def quantiles(self, name: str, share: float) -> Points:
        """
        Return a quantile for each interval: the upper bound of its bucket; None: nothing happened.

        :param name: of :attr:`Sampled.buckets`.
        """
        return [
            _quantile(before.buckets.get(name, {}), after.buckets.get(name, {}), share)
            for before, after in self._pairs()
        ]

    def _pairs(self) -> Iterable[tuple[Sampled, Sampled]]:
        samples = list(self._samples)
        return pairwise(samples)


def _buckets(family: Family) -> dict[float, float]:
    return {
        float(dict(sample.labels)["le"]): sample.value
        for sample in family.samples
        if sample is not None and sample.name.endswith("_bucket")
    }


def _request_times(family: Family) -> dict[str, dict[float, float]]:
    times: dict[str, dict[float, float]] = {}
    for sample in family.samples:
        if sample is not None and sample.name.endswith("_bucket"):
            labels = dict(sample.labels)
            kind = REQUEST_TIMES.get((labels["api"], labels["phase"]))
            if kind is not None:
                times.setdefault(kind, {})[float(labels["le"])] = sample.value
    return times


def _quantile(before: Mapping[float, float], after: Mapping[float, float], share: float) -> float | None:
    grown = {bound: count - before.get(bound, 0.0) for bound, count in after.items()}
    whole = grown.get(inf, 0.0)
    if whole <= 0:
        return None
    bounds = sorted(grown)
    for bound in bounds:
        if grown[bound] >= share * whole:
            return bound if bound < inf else (bounds[-2] if len(bounds) > 1 else None)
    return None
