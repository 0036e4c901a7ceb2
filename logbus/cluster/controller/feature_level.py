"""
The cluster's feature level: the highest that all brokers support. Pure.

Each registration has its broker's level. The cluster's level is stored and never falls: data on disk and in messages
may depend on it already, so older brokers are refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from logbus.cluster.controller.controller_context import ControllerContext
from logbus.cluster.images import BrokerImage


def next_feature_level(state: ControllerContext) -> int | None:
    """
    The level to raise the cluster to, if any.

    A broker that holds replicas and is away may come back with its old version: the level is not raised without it.
    """
    level = min((broker.feature_level for broker in state.brokers.values()), default=0)
    if level <= state.feature_level:
        return None
    return level if state.holders() <= state.brokers.keys() and not state.unreadable else None


def compatible_brokers(brokers: Mapping[int, BrokerImage], level: int) -> dict[int, BrokerImage]:
    """The brokers that support the cluster's level."""
    return {number: broker for number, broker in brokers.items() if broker.feature_level >= level}
