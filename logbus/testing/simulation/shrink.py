"""Shrinks a failing schedule by delta debugging. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrink(things: Sequence[T], fails: Callable[[list[T]], bool], tries: int = 200) -> list[T]:
    """
    Leave out as many things as possible (Zeller's ddmin): the rest fails, and without any single one of it does not,
    unless ``tries`` was used up before.

    :param things: the full list, which fails.
    :param fails: whether a sublist fails.
    """
    left = list(things)
    parts = 2
    while len(left) > 1 and tries > 0:
        size = -(-len(left) // parts)
        for start in range(0, len(left), size):
            without = left[:start] + left[start + size :]
            tries -= 1
            if fails(without):
                left = without
                parts = max(parts - 1, 2)
                break
            if tries <= 0:
                break
        else:
            if parts >= len(left):
                break
            parts = min(2 * parts, len(left))
    if len(left) == 1 and tries > 0 and fails([]):
        return []
    return left
