"""The client :mod:`logbus.client` while brokers are killed and cut off; see native_soak for longer runs."""

from __future__ import annotations

from logbus.testing.cluster import Cluster
from tests.faults.native_soak import soak
from tests.faults.soak import cut_both, expired, killed


def test_producer_and_group(cluster: Cluster) -> None:
    """Every acknowledged record is in the log once and in order, and is read by the group."""
    assert soak(cluster, 0.0, 7, (killed, cut_both, expired)) == []
