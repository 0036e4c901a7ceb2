"""
The part of a query's filters that the source applies itself: which partitions, and which of their offsets. Pure.

Filters of ``pyspark.sql.datasource`` are known by the names of their classes, so that nothing of Spark is imported.

Offsets are bounded on both sides. A timestamp bounds them from below only, by the first record at or after it
(ListOffsets): timestamps of a partition need not ascend, so there may be an early one behind any late one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from attrs import evolve, frozen

from logbus.model import TopicPartition
from logbus.pipeline.source.offsets_json import PartitionOffsets

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "StringStartsWith": lambda value, part: value.startswith(part),
    "StringEndsWith": lambda value, part: value.endswith(part),
    "StringContains": lambda value, part: part in value,
}
_TEXT_ONLY = frozenset({"StringStartsWith", "StringEndsWith", "StringContains"})
_KINDS: Mapping[str, type] = {"topic": str, "partition": int, "offset": int, "timestamp": datetime}
"""The columns that filters can be pushed down for, none of which is ever null."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND, _MILLISECOND = timedelta(microseconds=1), timedelta(milliseconds=1)


@frozen
class PartitionFilter:
    """
    A condition on a topic's name or a partition's number; can be pickled.

    :ivar column: ``topic`` or ``partition``.
    :ivar test: the name of Spark's filter.
    :ivar negated: whether it must be false.
    """

    column: str
    test: str
    values: tuple[Any, ...]
    negated: bool = False

    def holds(self, partition: TopicPartition) -> bool:
        """Whether a partition meets it."""
        value = partition.topic if self.column == "topic" else partition.partition
        if self.test == "In":
            return (value in self.values) is not self.negated
        return _COMPARE[self.test](value, self.values[0]) is not self.negated


@frozen
class PushedFilters:
    """
    The filters that the source applies to its partitions; can be pickled.

    :ivar first: the lowest offset; ``end``: the one behind the highest.
    :ivar since: milliseconds since 1970, which no record that is wanted is before; None: any time.
    :ivar nothing: no row can meet the filters.
    """

    partitions: tuple[PartitionFilter, ...] = ()
    first: int = 0
    end: int = 2**63 - 1
    since: int | None = None
    nothing: bool = False

    def wanted(self, partition: TopicPartition) -> bool:
        """Whether a partition has rows that are wanted, for all that is known before it is read."""
        return not self.nothing and all(each.holds(partition) for each in self.partitions)

    def bounded(
        self, start: PartitionOffsets, end: PartitionOffsets
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """
        The start and end offsets of the partitions that are wanted, within the bounds.

        :param start: resolved offsets of all partitions; ``end``: of the same.
        """
        mine = [each for each in start if self.wanted(each)]
        ends = {each: min(end[each], self.end) for each in mine}
        return {each: min(max(start[each], self.first), max(start[each], ends[each])) for each in mine}, ends


def push(filters: Iterable[Any]) -> tuple[PushedFilters, list[Any]]:
    """
    Divide filters, all of which must hold, between the source and Spark.

    :param filters: Spark's.
    :returns: what the source applies, and the filters that Spark has to apply as well.
    """
    pushed, left = PushedFilters(), list[Any]()
    for each in filters:
        found, is_exact = _pushed(each, pushed)
        pushed = found or pushed
        if found is None or not is_exact:
            left.append(each)
    return pushed, left


def _pushed(given: Any, so_far: PushedFilters) -> tuple[PushedFilters | None, bool]:
    """The filters with one more, and whether it needs no second look by Spark; None: nothing can be done with it."""
    negated = type(given).__name__ == "Not"
    inner = given.child if negated else given
    test = type(inner).__name__
    path = tuple(getattr(inner, "attribute", ()))
    column = path[0] if len(path) == 1 else ""
    kind = _KINDS.get(column)
    if kind is None:
        return None, False
    if test in ("IsNull", "IsNotNull"):
        return (so_far if (test == "IsNotNull") is not negated else evolve(so_far, nothing=True)), True
    if test not in _COMPARE and test != "In":
        return None, False
    values = tuple(inner.value) if test == "In" else (inner.value,)
    if not values or any(type(each) is not kind for each in values) or (test in _TEXT_ONLY and kind is not str):
        return None, False
    if column in ("topic", "partition"):
        return evolve(so_far, partitions=(*so_far.partitions, PartitionFilter(column, test, values, negated))), True
    if negated:
        return None, False
    return _offsets(so_far, test, values) if column == "offset" else (_since(so_far, test, values), False)


def _offsets(so_far: PushedFilters, test: str, values: tuple[int, ...]) -> tuple[PushedFilters, bool]:
    first, end = so_far.first, so_far.end
    if test in ("EqualTo", "EqualNullSafe", "In", "GreaterThanOrEqual"):
        first = max(first, min(values))
    elif test == "GreaterThan":
        first = max(first, values[0] + 1)
    if test in ("EqualTo", "EqualNullSafe", "In", "LessThanOrEqual"):
        end = min(end, max(values) + 1)
    elif test == "LessThan":
        end = min(end, values[0])
    return evolve(so_far, first=first, end=end), test != "In"


def _since(so_far: PushedFilters, test: str, values: tuple[datetime, ...]) -> PushedFilters | None:
    if test in ("LessThan", "LessThanOrEqual") or any(each.tzinfo is None for each in values):
        return None
    after = min(values) - _EPOCH + (_MICROSECOND if test == "GreaterThan" else timedelta(0))
    # Records have whole milliseconds: the first one at or after that.
    time = -(-after // _MILLISECOND)
    return evolve(so_far, since=max(time, so_far.since or 0)) if time > 0 else None
