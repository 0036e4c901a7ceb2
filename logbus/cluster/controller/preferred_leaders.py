"""
Finds partitions that are not led by their preferred leader: pure.

The first replica of each partition is the preferred one. Preferred leaders are placed evenly, so a cluster where all of
them lead is balanced. After failures others lead, until leadership is handed back.
"""

from __future__ import annotations

from logbus.cluster.controller.controller_context import ControllerContext
from logbus.cluster.controller.topic_rules import ReplicaAvailability
from logbus.model import TopicPartition


def not_led_by_preferred(state: ControllerContext, percentage: int) -> list[TopicPartition]:
    """
    Partitions to be handed back to their preferred leaders, which are able to take them.

    :param percentage: of the partitions that a broker is preferred for: while no more are led elsewhere, it is let be.
    """
    preferred: dict[int, int] = {}
    elsewhere: dict[int, list[TopicPartition]] = {}
    for name in state.partitions():
        record = state.partition(name)
        first = record.replicas[0]
        preferred[first] = preferred.get(first, 0) + 1
        if record.state is not None and record.state.leader != first:
            elsewhere.setdefault(first, []).append(name)
    return [
        name
        for first, names in elsewhere.items()
        if 100 * len(names) > percentage * preferred[first]
        for name in names
        if _able(state, name, first)
    ]


def _able(state: ControllerContext, name: TopicPartition, first: int) -> bool:
    record = state.partition(name)
    assert record.state is not None
    in_sync = first in record.state.isr
    return not record.reassigning and in_sync and state.availability(first, name) is ReplicaAvailability.UP
