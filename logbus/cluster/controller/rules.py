"""
What a topic's configuration says to those who elect leaders, and which replicas hold every committed record. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from attrs import frozen


class Standing(Enum):
    """
    What a broker can be to one of its partitions.

    UP: it could lead. LEAVING: it is shutting down: it serves on, but is given nothing new. INCOMPLETE: its replica was
    reported to lack committed records, or to hold damaged ones: it leads only while nobody else can. GONE: it is not
    alive, or its log directory failed.
    """

    UP = "up"
    LEAVING = "leaving"
    INCOMPLETE = "incomplete"
    GONE = "gone"


@frozen
class TopicRules:
    """
    The settings of a topic that the controller decides by.

    :ivar unclean_allowed: a replica that may lack committed records may lead when no other can.
    :ivar min_insync: how many replicas an acknowledged record is on, leader included.
    :ivar flushes: records are synced before they are acknowledged: a broker that lost its page cache lost none of them.
    """

    unclean_allowed: bool = False
    min_insync: int = 1
    flushes: bool = True

    def enough(self, replicas: int) -> int:
        """How many in-sync replicas a partition of so many replicas needs."""
        return min(self.min_insync, replicas)


RulesFor = Callable[[Mapping[str, str]], TopicRules]
"""From a topic's overrides, over the defaults."""


def still_eligible(
    before: Iterable[int], left: Iterable[int], isr: tuple[int, ...], replicas: tuple[int, ...], rules: TopicRules
) -> tuple[int, ...]:
    """
    Who outside the in-sync replicas has every committed record all the same (KIP-966).

    Nothing is committed while fewer than the minimum are in sync; so those that leave then lack nothing, until enough
    are in sync again.

    :param before: who was eligible; ``left``: who leaves the in-sync replicas now; ``isr``: those in sync from now on.
    """
    if len(isr) >= rules.enough(len(replicas)):
        return ()
    having = {*before, *left} - set(isr)
    return tuple(replica for replica in replicas if replica in having)
