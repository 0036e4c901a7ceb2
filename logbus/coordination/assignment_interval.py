"""When the target assignment of a group may be computed anew (KIP-1263). Pure."""

from __future__ import annotations


def ms_until_assignment(members: int, last_ms: int, interval_ms: int, now_ms: int) -> int:
    """
    How long a group must wait for a new target assignment, so that several changes make one; 0: it may get it now.

    A lone member, which may have come back after a restart, need not wait: nobody else gives up anything for it. A last
    assignment in the future, by another broker's clock, does not hold a group up either.

    :param members: how many members the group has.
    :param last_ms: when its last target assignment was computed, in ms since 1970; 0: never.
    :param interval_ms: the least time between two of them.
    """
    passed_ms = now_ms - last_ms
    return 0 if members <= 1 or not last_ms or passed_ms < 0 else max(0, interval_ms - passed_ms)


def may_assign(members: int, last_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Whether a group may get a new target assignment now: see :func:`ms_until_assignment`."""
    return not ms_until_assignment(members, last_ms, interval_ms, now_ms)
