"""
Which partition a record goes to: by its key, as Java's clients do it, or, without a key, to one partition until its
batch is full and then to another (KIP-480).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from attrs import define, field

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 with Kafka's seed, unsigned."""
    length = len(data)
    h = 0x9747B28C ^ length
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, count: int) -> int:
    """The partition, out of ``count``, of every record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % count


@define(eq=False)
class StickyPartitions:
    """
    Where records without a key go.

    :ivar random: chooses.
    """

    random: Random
    _current: dict[str, int] = field(factory=dict, init=False)

    def partition(self, topic: str, candidates: Sequence[int]) -> int:
        """
        The topic's current partition.

        :param candidates: the partitions that can be written to; not empty.
        """
        current = self._current.get(topic, -1)
        if current not in candidates:
            current = self._current[topic] = self.random.choice(candidates)
        return current

    def next(self, topic: str, candidates: Sequence[int]) -> None:
        """A batch for the current partition is complete: go to another one, if there is one."""
        current = self._current.get(topic, -1)
        others = [each for each in candidates if each != current]
        if others:
            self._current[topic] = self.random.choice(others)
