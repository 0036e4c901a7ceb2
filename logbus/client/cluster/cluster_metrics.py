"""Counts of a cluster's connections and requests: plain numbers, to be read at any time."""

from __future__ import annotations

from attrs import define, field

from logbus.metrics import HistogramValue

LATENCY_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the buckets of latencies, in seconds."""


@define(eq=False)
class ClusterMetrics:
    """
    The counts of one client's ``Cluster``.

    :ivar connections: open now, to all brokers.
    :ivar connects: connections that were made.
    :ivar failed_connects: connections that could not be made.
    :ivar latencies: the seconds from a request to its response, by API. Those of Fetch and JoinGroup include the time
        for which the broker waits for records or members.
    """

    connections: int = 0
    connects: int = 0
    failed_connects: int = 0
    latencies: dict[str, HistogramValue] = field(factory=dict)

    def answered(self, api: str, seconds: float) -> None:
        """Count a response."""
        found = self.latencies.get(api)
        if found is None:
            found = self.latencies[api] = HistogramValue(LATENCY_BOUNDS)
        found.observe(seconds)
