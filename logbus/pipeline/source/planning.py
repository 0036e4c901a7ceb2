"""What to read next, and by how many tasks: limits and splits. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from attrs import evolve, frozen

from logbus.model import TopicPartition
from logbus.pipeline.source.spelling import Offsets

NO_ID = uuid.UUID(int=0)


@frozen
class OffsetRange:
    """
    What one task reads: offsets from ``start`` on and below ``end``.

    :ivar topic_id: of the topic when this was planned: one of that name made later is another; zero: not known.
    """

    partition: TopicPartition
    start: int
    end: int
    topic_id: uuid.UUID = NO_ID

    @property
    def size(self) -> int:
        """Offsets in it; fewer may have records."""
        return self.end - self.start


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """
    Cut ranges into as many as there are to be tasks. Empty ones are left out.

    :param min_partitions: of about so many tasks: large ranges are cut in proportion to their size.
    :param max_records: offsets that one task has at most.
    :returns: in the order of ``ranges``; together they are what ``ranges`` are.
    """
    some = [each for each in ranges if each.size > 0]
    if max_records is not None:
        some = [part for each in some for part in _cut(each, -(-each.size // max_records))]
    if min_partitions is None or len(some) >= min_partitions:
        return some
    total = sum(each.size for each in some)
    # Those that stay whole do not count where the others are cut.
    whole = [each for each in some if _share(each.size, total, min_partitions) == 1]
    left = total - sum(each.size for each in whole)
    wanted = max(min_partitions - len(whole), 1)
    kept = set(map(id, whole))
    return [part for each in some for part in _cut(each, 1 if id(each) in kept else _share(each.size, left, wanted))]


def limited(start: Offsets, end: Offsets, limit: int) -> dict[TopicPartition, int]:
    """
    How far to go if only so many offsets are to be read: each partition gets its share of the limit, in proportion to
    what there is, and none that has something gets nothing.

    :param start: of every partition in ``end``.
    :param limit: at least 1.
    :returns: ends, none before its start or beyond ``end``; their distances add up to the limit, to what there is if
        that is less, or to one for each partition if that is more.
    """
    sizes = {each: offset - start[each] for each, offset in end.items() if offset > start[each]}
    total = sum(sizes.values())
    if total <= limit:
        return dict(end)
    shares = {each: max(1, limit * size // total) for each, size in sizes.items()}
    over = sum(shares.values()) - limit
    # What rounding left is for those that have most beyond their share; what was too much is taken from the largest.
    for each in sorted(shares, key=lambda each: (limit * sizes[each] % total, each), reverse=True):
        if over < 0 and shares[each] < sizes[each]:
            shares[each] += 1
            over += 1
    for each in sorted(shares, key=lambda each: (shares[each], each), reverse=True):
        taken = max(0, min(over, shares[each] - 1))
        shares[each] -= taken
        over -= taken
    return {each: start[each] + shares[each] if each in shares else offset for each, offset in end.items()}


def available(start: Offsets, end: Offsets) -> int:
    """Offsets there are to read."""
    return sum(max(0, offset - start.get(each, 0)) for each, offset in end.items())


def waits(start: Offsets, end: Offsets, at_least: int, since: float, delay: float) -> bool:
    """
    Whether to wait for more, since there is too little to be worth a batch.

    :param since: seconds since the last batch.
    :param delay: seconds after which it is not waited any more.
    """
    return since < delay and available(start, end) < at_least


def ranges_of(start: Offsets, end: Offsets, ids: Mapping[str, uuid.UUID]) -> list[OffsetRange]:
    """The ranges between two sets of offsets of the same partitions, in order."""
    return [OffsetRange(each, start[each], offset, ids.get(each.topic, NO_ID)) for each, offset in sorted(end.items())]


def _share(size: int, total: int, parts: int) -> int:
    """Parts for a range of ``size`` out of ``total``: its share rounded, and at least one."""
    return max(1, (2 * size * parts + total) // (2 * total))


def _cut(whole: OffsetRange, parts: int) -> Sequence[OffsetRange]:
    parts = min(parts, whole.size)
    ends = [whole.start + whole.size * number // parts for number in range(parts + 1)]
    return [evolve(whole, start=start, end=end) for start, end in pairwise(ends)]
