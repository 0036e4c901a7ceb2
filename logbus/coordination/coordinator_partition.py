"""
Maps a group id or transactional id to its partition of an internal topic, whose leader is the coordinator. Pure.

The hash is Kafka's (``Utils.abs(id.hashCode()) % partitions``): tools compute it, and topics written by Kafka can be
read.
"""

from __future__ import annotations

import struct
from functools import lru_cache

_MIN_INT = -(1 << 31)


@lru_cache(maxsize=1000)
def java_hash(text: str) -> int:
    """The ``hashCode`` of a Java string: over its UTF-16 code units, in signed 32 bits."""
    data = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for (unit,) in struct.iter_unpack(">H", data):
        found = (found * 31 + unit) & 0xFFFFFFFF
    return found - (1 << 32) if found & 0x80000000 else found


def partition_for(key: str, partitions: int) -> int:
    """
    The partition that holds the state of a group (or of a transactional id).

    :param partitions: of the internal topic, at least 1.
    """
    found = java_hash(key)
    # The smallest integer has no counterpart; Kafka's Utils.abs makes it 0.
    return (0 if found == _MIN_INT else abs(found)) % partitions
