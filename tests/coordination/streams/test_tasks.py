"""Tests of :mod:`logbus.coordination.streams.tasks`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logbus.coordination.streams import tasks
from logbus.coordination.streams.tasks import NO_TASK_SETS, TaskSets

sets = st.frozensets(st.tuples(st.sampled_from("abc"), st.integers(0, 3)))
triples = st.tuples(sets, sets, sets)


@given(sets, sets)
def test_sets(a: frozenset[tuple[str, int]], b: frozenset[tuple[str, int]]) -> None:
    """They are sets of pairs, and equal sets compare equal."""
    first, second = tasks.from_pairs(a), tasks.from_pairs(b)
    assert frozenset(tasks.pairs(first)) == a
    assert tasks.count(first) == len(a)
    assert tasks.union(first, second) == tasks.from_pairs(a | b)
    assert tasks.intersection(first, second) == tasks.from_pairs(a & b)
    assert tasks.difference(first, second) == tasks.from_pairs(a - b)
    assert tasks.is_subset(first, second) == (a <= b)


@given(triples, triples)
def test_roles(
    a: tuple[frozenset[tuple[str, int]], ...],
    b: tuple[frozenset[tuple[str, int]], ...],
) -> None:
    """Each role is a set for itself."""
    first, second = (TaskSets(*map(tasks.from_pairs, each)) for each in (a, b))
    assert first.union(second) == TaskSets(*(tasks.from_pairs(x | y) for x, y in zip(a, b, strict=True)))
    assert first.intersection(second) == TaskSets(*(tasks.from_pairs(x & y) for x, y in zip(a, b, strict=True)))
    assert first.difference(second) == TaskSets(*(tasks.from_pairs(x - y) for x, y in zip(a, b, strict=True)))
    assert first.is_subset(second) == all(x <= y for x, y in zip(a, b, strict=True))
    assert first.is_empty == (first == NO_TASK_SETS) == (not any(a))
