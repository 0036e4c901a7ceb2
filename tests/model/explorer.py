"""Searches all states that a model can reach, breadth first: a violation is found by a shortest path."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from attrs import frozen

S = TypeVar("S", bound=Hashable)


class Violation(Exception):
    """A step breaks a property; the text says which."""


@frozen
class Found:
    """
    What a search found.

    :ivar states: how many different states it saw.
    :ivar problem: what is wrong, or "" when nothing is; ``trace``: the steps that lead there, as few as there can be.
    """

    states: int
    problem: str = ""
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        steps = "".join(f"\n  {number:2}. {step}" for number, step in enumerate(self.trace, 1))
        return f"{self.problem or 'nothing wrong'} ({self.states:,} states){steps}"


def explore(
    start: S,
    steps: Callable[[S], Iterable[tuple[str, S | Violation]]],
    canonical: Callable[[S], Hashable] = lambda state: state,
    limit: int = 2_000_000,
) -> Found:
    """
    See every state that can be reached from ``start``.

    :param steps: what can happen in a state: the name of each step, and the state after it or what it breaks.
    :param canonical: one value for all states that differ only in which replica is which: one of them is looked at.
    :raise RuntimeError: there are more than ``limit`` states: a search that ends early proves nothing.
    """
    seen = {canonical(start)}
    # Each state with the number of the one before it, and the step between them.
    reached: list[tuple[S, int, str]] = [(start, -1, "")]
    for number, (state, _, _) in enumerate(reached):  # grows while it is read
        for name, after in steps(state):
            if isinstance(after, Violation):
                return Found(len(seen), str(after), (*_way_to(number, reached), name))
            key = canonical(after)
            if key not in seen:
                seen.add(key)
                reached.append((after, number, name))
        if len(seen) > limit:
            raise RuntimeError(f"more than {limit:,} states")
    return Found(len(seen))


def _way_to(number: int, reached: list[tuple[S, int, str]]) -> list[str]:
    way: list[str] = []
    while number:
        _, number_before, name = reached[number]
        way.insert(0, name)
        number = number_before
    return way
