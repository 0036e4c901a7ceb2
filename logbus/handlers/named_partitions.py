"""
The partitions that a request names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from logbus.model import TopicPartition
from logbus.net.time_slices import TimeSlice


async def named_partitions(topics: Iterable[tuple[str, Sequence[int]]], time_slice: TimeSlice) -> list[TopicPartition]:
    """
    The partitions in a request, each once.

    :param topics: each topic's name, and the numbers of its partitions.
    """
    found: dict[TopicPartition, None] = {}
    async for topic, numbers in time_slice.over(topics):
        async for number in time_slice.over(numbers):
            found[TopicPartition(topic, number)] = None
    return list(found)
