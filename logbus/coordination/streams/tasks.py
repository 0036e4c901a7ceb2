"""
Immutable sets of tasks by subtopology. Subtopologies without tasks are left out, so equal sets compare equal. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from attrs import frozen

Tasks = Mapping[str, frozenset[int]]
"""Partition numbers by subtopology id; each is a task. Never changed in place."""

NO_TASKS: Tasks = {}


class WireTasks(Protocol):
    """The tasks of one subtopology in any message."""

    subtopology_id: str
    partitions: list[int]


def from_wire(subtopologies: Iterable[WireTasks]) -> Tasks:
    """The set in a message; entries of the same subtopology are merged."""
    return from_pairs((each.subtopology_id, number) for each in subtopologies for number in each.partitions)


def from_pairs(pairs: Iterable[tuple[str, int]]) -> Tasks:
    """A set from single tasks."""
    found: dict[str, set[int]] = {}
    for subtopology_id, number in pairs:
        found.setdefault(subtopology_id, set()).add(number)
    return {subtopology_id: frozenset(numbers) for subtopology_id, numbers in found.items()}


def pairs(tasks: Tasks) -> Iterator[tuple[str, int]]:
    """The tasks one by one."""
    for subtopology_id, numbers in tasks.items():
        for number in numbers:
            yield subtopology_id, number


def count(tasks: Tasks) -> int:
    """Number of tasks."""
    return sum(map(len, tasks.values()))


def union(a: Tasks, b: Tasks) -> Tasks:
    """The union of two sets."""
    if not b:
        return a
    if not a:
        return b
    return {each: a.get(each, frozenset()) | b.get(each, frozenset()) for each in a.keys() | b.keys()}


def intersection(a: Tasks, b: Tasks) -> Tasks:
    """The intersection of two sets."""
    return _kept((each, numbers & b[each]) for each, numbers in a.items() if each in b)


def difference(a: Tasks, b: Tasks) -> Tasks:
    """The tasks in ``a`` that are not in ``b``."""
    return _kept((each, numbers - b.get(each, frozenset())) for each, numbers in a.items())


def is_subset(a: Tasks, b: Tasks) -> bool:
    """Whether all of ``a`` is in ``b``."""
    return all(numbers <= b.get(each, frozenset()) for each, numbers in a.items())


def _kept(sets: Iterable[tuple[str, frozenset[int]]]) -> Tasks:
    return {each: numbers for each, numbers in sets if numbers}


@frozen
class TaskSets:
    """
    The tasks of a member, by role (Kafka: TasksTuple).

    :ivar active: those that it processes.
    :ivar standby: those whose state it keeps a copy of.
    :ivar warmup: those whose state it reads in order to process them later.
    """

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        """Whether there are no tasks in any role."""
        return not (self.active or self.standby or self.warmup)

    def union(self, other: TaskSets) -> TaskSets:
        """The union, role by role."""
        return TaskSets(
            union(self.active, other.active), union(self.standby, other.standby), union(self.warmup, other.warmup)
        )

    def intersection(self, other: TaskSets) -> TaskSets:
        """The intersection, role by role."""
        return TaskSets(
            intersection(self.active, other.active),
            intersection(self.standby, other.standby),
            intersection(self.warmup, other.warmup),
        )

    def difference(self, other: TaskSets) -> TaskSets:
        """What is not in ``other``, role by role."""
        return TaskSets(
            difference(self.active, other.active),
            difference(self.standby, other.standby),
            difference(self.warmup, other.warmup),
        )

    def is_subset(self, other: TaskSets) -> bool:
        """Whether all of it is in ``other``, role by role."""
        return (
            is_subset(self.active, other.active)
            and is_subset(self.standby, other.standby)
            and is_subset(self.warmup, other.warmup)
        )


NO_TASK_SETS = TaskSets()
