"""When the target assignment of a group may be computed anew (KIP-1263). Pure."""

from __future__ import annotations


def may_assign(members: int, last_ms: int, interval_ms: int, now_ms: int) -> bool:
    """
    Whether a group may get a new target assignment now, or must wait so that several changes make one.

    A lone member, which may have come back after a restart, need not wait: nobody else gives up anything for it. A last
    assignment in the future, by another broker's clock, does not hold a group up either.

    :param members: how many members the group has.
    :param last_ms: when its last target assignment was computed, in ms since 1970; 0: never.
    :param interval_ms: the least time between two of them.
    """
    return members <= 1 or not last_ms or not 0 <= now_ms - last_ms < interval_ms
