"""
Values for some offsets of a partition. Pure.

Thousands of records may be left out of a partition, while a batch has few of its offsets: those are found by bisection.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

from attrs import define, field

T = TypeVar("T")


@define(eq=False)
class OffsetTable(Generic[T]):
    """A mapping from offsets that also knows their order."""

    _values: dict[int, T] = field(factory=dict, init=False)
    _offsets: list[int] = field(factory=list, init=False)

    def __bool__(self) -> bool:
        return bool(self._values)

    def set(self, offset: int, value: T) -> None:
        """Note a value; it replaces what is known of the offset."""
        if offset not in self._values:
            insort(self._offsets, offset)
        self._values[offset] = value

    def discard(self, offset: int) -> None:
        """Forget an offset, if something is known of it."""
        if self._values.pop(offset, None) is not None:
            del self._offsets[bisect_left(self._offsets, offset)]

    def get(self, offset: int) -> T | None:
        """The value of an offset."""
        return self._values.get(offset)

    def items(self) -> Iterator[tuple[int, T]]:
        """All, in the order in which they were noted first."""
        return iter(self._values.items())

    def between(self, first: int, last: int) -> Iterator[T]:
        """The values of the offsets of a range, both ends included."""
        low, high = bisect_left(self._offsets, first), bisect_right(self._offsets, last)
        return (self._values[offset] for offset in self._offsets[low:high])
