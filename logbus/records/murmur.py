"""MurmurHash2 as Kafka's clients use it to choose the partition of a key: all clients must agree on it."""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_M = 0x5BD1E995


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
    """
    The partition, out of ``count``, of every record with this key (Kafka: BuiltInPartitioner.partitionForKey).

    The Python implementation; :mod:`logbus.records.implementations` chooses.

    :raises ValueError: there are no partitions.
    """
    if count <= 0:
        raise ValueError(f"{count} partitions: a key goes to one of 1 or more")
    return (murmur2(key) & 0x7FFFFFFF) % count
