"""
Merges changed batches into those of a share partition's state (Kafka: PersisterStateBatchCombiner). Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from logbus.coordination.share_state.share_state import StateBatch

_first, _last = attrgetter("first_offset"), attrgetter("last_offset")


def merge_batches(
    batches: Sequence[StateBatch], changed: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """
    The batches after a change.

    Of each record the greater delivery count is kept, and of the same count the greater delivery state. So a record
    that is done stays done, and the order in which changes are merged does not matter.

    :param batches: sorted, without overlaps, as is the result; neighbours in the same state become one batch.
    :param changed: in any order, perhaps with overlaps.
    :param start_offset: records before it are left out.
    """
    merged = list(batches)
    for some in _ascending(sorted(changed, key=_first)):
        # The neighbours of those that they overlap may have become equal to them.
        start = max(0, bisect_left(merged, some[0].first_offset, key=_last) - 1)
        end = bisect_right(merged, some[-1].last_offset, key=_first) + 1
        merged[start:end] = _joined(_pieces(merged[start:end], some))
    kept = bisect_left(merged, start_offset, key=_last)
    if kept < len(merged) and merged[kept].first_offset < start_offset:
        merged[kept] = _part(merged[kept], start_offset, merged[kept].last_offset)
    return tuple(merged[kept:])


def _ascending(batches: Iterable[StateBatch]) -> Iterator[list[StateBatch]]:
    """Batches in parts without overlaps."""
    part: list[StateBatch] = []
    for batch in batches:
        if part and batch.first_offset <= part[-1].last_offset:
            yield part
            part = []
        part.append(batch)
    if part:
        yield part


def _pieces(batches: Iterable[StateBatch], others: Iterable[StateBatch]) -> Iterator[StateBatch]:
    """Batches of two sorted sequences without overlaps, in parts that do not overlap."""
    ones, twos = iter(batches), iter(others)
    one, two = next(ones, None), next(twos, None)
    while one is not None and two is not None:
        if one.first_offset == two.first_offset:
            last = min(one.last_offset, two.last_offset)
            yield _part(max(one, two, key=_progress), one.first_offset, last)
            one = _part(one, last + 1, one.last_offset) if one.last_offset > last else next(ones, None)
            two = _part(two, last + 1, two.last_offset) if two.last_offset > last else next(twos, None)
        elif one.first_offset < two.first_offset:
            yield _part(one, one.first_offset, min(one.last_offset, two.first_offset - 1))
            behind = one.last_offset >= two.first_offset
            one = _part(one, two.first_offset, one.last_offset) if behind else next(ones, None)
        else:
            yield _part(two, two.first_offset, min(two.last_offset, one.first_offset - 1))
            behind = two.last_offset >= one.first_offset
            two = _part(two, one.first_offset, two.last_offset) if behind else next(twos, None)
    if one is not None:
        yield one
    if two is not None:
        yield two
    yield from ones
    yield from twos


def _part(batch: StateBatch, first: int, last: int) -> StateBatch:
    if first == batch.first_offset and last == batch.last_offset:
        return batch
    return StateBatch(first, last, batch.delivery_state, batch.delivery_count)


def _progress(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.delivery_state


def _joined(batches: Iterable[StateBatch]) -> Iterator[StateBatch]:
    """Sorted batches, in which neighbours in the same state are one."""
    first: StateBatch | None = None
    last = 0
    for batch in batches:
        if first is not None:
            if batch.first_offset == last + 1 and _progress(batch) == _progress(first):
                last = batch.last_offset
                continue
            yield _part(first, first.first_offset, last)
        first, last = batch, batch.last_offset
    if first is not None:
        yield _part(first, first.first_offset, last)
