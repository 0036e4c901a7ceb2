"""
Merges changed batches into those of a share partition's state (Kafka: PersisterStateBatchCombiner). Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from attrs import evolve

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
    for batch in changed:
        # The neighbours of those that it overlaps may have become equal to it.
        start = max(0, bisect_left(merged, batch.first_offset, key=_last) - 1)
        end = bisect_right(merged, batch.last_offset, key=_first) + 1
        merged[start:end] = _joined(_pieces(merged[start:end], batch))
    kept = bisect_left(merged, start_offset, key=_last)
    if kept < len(merged) and merged[kept].first_offset < start_offset:
        merged[kept] = evolve(merged[kept], first_offset=start_offset)
    return tuple(merged[kept:])


def _pieces(batches: Sequence[StateBatch], changed: StateBatch) -> Iterator[StateBatch]:
    """Sorted batches and a changed one, in parts that do not overlap."""
    first, last = changed.first_offset, changed.last_offset
    at = first
    for batch in batches:
        if batch.last_offset < first:
            yield batch
            continue
        if batch.first_offset > last:
            if at <= last:
                yield evolve(changed, first_offset=at)
                at = last + 1
            yield batch
            continue
        if batch.first_offset < first:
            yield evolve(batch, last_offset=first - 1)
        elif at < batch.first_offset:
            yield evolve(changed, first_offset=at, last_offset=batch.first_offset - 1)
        start, end = max(batch.first_offset, first), min(batch.last_offset, last)
        yield evolve(max(batch, changed, key=_progress), first_offset=start, last_offset=end)
        at = end + 1
        if batch.last_offset > last:
            yield evolve(batch, first_offset=last + 1)
    if at <= last:
        yield evolve(changed, first_offset=at)


def _progress(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.delivery_state


def _joined(batches: Iterable[StateBatch]) -> Iterator[StateBatch]:
    """Sorted batches, in which neighbours in the same state are one."""
    last: StateBatch | None = None
    for batch in batches:
        if last is None:
            last = batch
        elif batch.first_offset == last.last_offset + 1 and _progress(batch) == _progress(last):
            last = evolve(last, last_offset=batch.last_offset)
        else:
            yield last
            last = batch
    if last is not None:
        yield last
