"""Plans the offset ranges of a batch: rate limits, and splits into tasks (Spark: KafkaOffsetRangeCalculator). Pure."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from attrs import evolve, frozen

from logbus.model import TopicPartition
from logbus.pipeline.source.offsets_json import PartitionOffsets

NO_ID = uuid.UUID(int=0)


@frozen
class OffsetRange:
    """
    The offsets that one task reads: from ``start`` on and below ``end``.

    :ivar topic_id: of the topic when this was planned, to recognize a recreated topic; zero: not known.
    """

    partition: TopicPartition
    start: int
    end: int
    topic_id: uuid.UUID = NO_ID

    @property
    def size(self) -> int:
        """The number of offsets; there may be fewer records."""
        return self.end - self.start


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """
    Split ranges into tasks. Empty ranges are left out.

    :param min_partitions: the approximate number of tasks: large ranges are split in proportion to their size.
    :param max_records: offsets that one task has at most.
    :returns: in the order of ``ranges``, with the same offsets.
    """
    some = [each for each in ranges if each.size > 0]
    if max_records is not None:
        some = [part for each in some for part in _cut(each, -(-each.size // max_records))]
    if min_partitions is None or len(some) >= min_partitions:
        return some
    total = sum(each.size for each in some)
    # Ranges that stay whole do not count when the others are split.
    whole = [each for each in some if _share(each.size, total, min_partitions) == 1]
    left = total - sum(each.size for each in whole)
    wanted = max(min_partitions - len(whole), 1)
    kept = set(map(id, whole))
    return [part for each in some for part in _cut(each, 1 if id(each) in kept else _share(each.size, left, wanted))]


def rate_limited(start: PartitionOffsets, end: PartitionOffsets, limit: int) -> dict[TopicPartition, int]:
    """
    The end offsets of a batch of at most ``limit`` offsets (``maxOffsetsPerTrigger``). The limit is divided among the
    partitions in proportion to their available offsets, with at least one for each that has any.

    :param start: of every partition in ``end``.
    :param limit: at least 1.
    :returns: end offsets, between ``start`` and ``end``. The batch has ``limit`` offsets; fewer if fewer are available;
        more if there are more partitions than ``limit``.
    """
    sizes = {each: offset - start[each] for each, offset in end.items() if offset > start[each]}
    total = sum(sizes.values())
    if total <= limit:
        return dict(end)
    shares = {each: max(1, limit * size // total) for each, size in sizes.items()}
    over = sum(shares.values()) - limit
    # Offsets left by rounding go to the largest remainders; too many are taken from the largest shares.
    for each in sorted(shares, key=lambda each: (limit * sizes[each] % total, each), reverse=True):
        if over < 0 and shares[each] < sizes[each]:
            shares[each] += 1
            over += 1
    for each in sorted(shares, key=lambda each: (shares[each], each), reverse=True):
        taken = max(0, min(over, shares[each] - 1))
        shares[each] -= taken
        over -= taken
    return {each: start[each] + shares[each] if each in shares else offset for each, offset in end.items()}


def available(start: PartitionOffsets, end: PartitionOffsets) -> int:
    """The number of offsets to read."""
    return sum(max(0, offset - start.get(each, 0)) for each, offset in end.items())


def should_delay(start: PartitionOffsets, end: PartitionOffsets, at_least: int, since: float, delay: float) -> bool:
    """
    Whether to delay the next batch, since it has too few offsets (``minOffsetsPerTrigger``).

    :param since: seconds since the last batch.
    :param delay: the longest delay, in seconds.
    """
    return since < delay and available(start, end) < at_least


def ranges_between(start: PartitionOffsets, end: PartitionOffsets, ids: Mapping[str, uuid.UUID]) -> list[OffsetRange]:
    """The ranges between two sets of offsets of the same partitions, in order."""
    return [OffsetRange(each, start[each], offset, ids.get(each.topic, NO_ID)) for each, offset in sorted(end.items())]


def _share(size: int, total: int, parts: int) -> int:
    """Parts for a range of ``size`` out of ``total``: its share rounded, and at least one."""
    return max(1, (2 * size * parts + total) // (2 * total))


def _cut(whole: OffsetRange, parts: int) -> Sequence[OffsetRange]:
    parts = min(parts, whole.size)
    ends = [whole.start + whole.size * number // parts for number in range(parts + 1)]
    return [evolve(whole, start=start, end=end) for start, end in pairwise(ends)]
