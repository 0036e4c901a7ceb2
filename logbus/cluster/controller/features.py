"""
What all brokers of the cluster can do: pure.

Each registration says what its broker can do; the cluster's *feature level* is what all of them can. It is written
down and never falls: what it stands for may be on disk and in messages already, so older brokers are refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from logbus.cluster.controller.state import ControllerState
from logbus.cluster.images import BrokerImage


def raised_level(state: ControllerState) -> int | None:
    """
    The level that the cluster can be raised to, if any.

    A broker that holds replicas and is away may come back as old as it was: it is waited for.
    """
    level = min((broker.feature_level for broker in state.brokers.values()), default=0)
    if level <= state.feature_level:
        return None
    holders = {replica for topic in state.topics.values() for record in topic.partitions for replica in record.replicas}
    return level if holders <= state.brokers.keys() and not state.unreadable else None


def admitted(brokers: Mapping[int, BrokerImage], level: int) -> dict[int, BrokerImage]:
    """Those that can do what the cluster does."""
    return {number: broker for number, broker in brokers.items() if broker.feature_level >= level}
