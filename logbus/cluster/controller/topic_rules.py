"""
The settings of a topic that elections depend on, and the replicas that hold every committed record (KIP-966). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from attrs import frozen


class ReplicaAvailability(Enum):
    """
    Whether a broker's replica of a partition can lead.

    UP: it can. LEAVING: its broker is in controlled shutdown: it goes on serving, but becomes leader of nothing.
    INCOMPLETE: it was reported to lack committed records, or to hold damaged ones: it leads only while no other replica
    can. GONE: its broker is not alive, or its log directory failed.
    """

    UP = "up"
    LEAVING = "leaving"
    INCOMPLETE = "incomplete"
    GONE = "gone"


@frozen
class TopicRules:
    """
    The settings of a topic that elections depend on.

    :ivar unclean_allowed: a replica that may lack committed records may lead when no other can.
    :ivar min_insync: how many replicas, the leader included, an acknowledged record is on.
    :ivar flushes: records are synced before they are acknowledged: a broker that lost its page cache lost none of them.
    """

    unclean_allowed: bool = False
    min_insync: int = 1
    flushes: bool = True

    def enough(self, replicas: int) -> int:
        """The number of in-sync replicas that a partition of so many replicas needs."""
        return min(self.min_insync, replicas)


RulesFor = Callable[[Mapping[str, str]], TopicRules]
"""The rules of a topic, from its overrides and the defaults."""


def still_eligible(
    before: Iterable[int], left: Iterable[int], isr: tuple[int, ...], replicas: tuple[int, ...], rules: TopicRules
) -> tuple[int, ...]:
    """
    The eligible leader replicas (KIP-966): outside the in-sync replicas, but with every committed record.

    Nothing is committed while fewer than the minimum are in sync. A replica that leaves during that time lacks nothing,
    until enough replicas are in sync again.

    :param before: the eligible ones so far; ``left``: those leaving the ISR now; ``isr``: those in sync from now on.
    """
    if len(isr) >= rules.enough(len(replicas)):
        return ()
    having = {*before, *left} - set(isr)
    return tuple(replica for replica in replicas if replica in having)
