"""
Where the last record of each key is: the memory of a cleaning.

A table of fixed size with open addressing, 24 bytes an entry as in Kafka's cleaner: a digest of the key and an offset.
Nothing else is kept of a key, so the bound in bytes is a bound on memory, however long keys are.
"""

from __future__ import annotations

from hashlib import blake2b
from mmap import mmap
from struct import Struct

DIGEST_SIZE = 16
"""Bytes. Two of a billion keys have the same digest with a probability below 10**-20."""

_ENTRY = Struct("<16sq")
ENTRY_SIZE = _ENTRY.size
LOAD_FACTOR = 0.75
"""Share of the table that may be used: beyond it searches for keys that are not there get long."""

_FREE = bytes(DIGEST_SIZE)
_OFFSET = Struct("<q")


class KeyMap:
    """
    Keys and offsets.

    :ivar capacity: keys that fit.
    """

    __slots__ = ("_count", "_slots", "_table", "capacity")

    def __init__(self, size: int) -> None:
        """
        Make an empty map.

        :param size: bytes of memory it may take; at least one key fits, whatever it is.
        """
        self._slots = max(2, size // ENTRY_SIZE)
        self.capacity = max(1, int(self._slots * LOAD_FACTOR))
        # Pages count as used only when they are: a few keys in a large table cost little.
        self._table = mmap(-1, self._slots * ENTRY_SIZE)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, key: bytes, offset: int) -> bool:
        """
        Take note that the record at ``offset`` is the last of its key so far.

        :returns: False if the key is new and there is no room for it; the map is as it was then.
        """
        digest, at = self._find(key)
        if self._table[at : at + DIGEST_SIZE] != digest:
            if self._count >= self.capacity:
                return False
            self._count += 1
        _ENTRY.pack_into(self._table, at, digest, offset)
        return True

    def get(self, key: bytes) -> int:
        """The offset of the key's last record; −1 if the key is not here."""
        digest, at = self._find(key)
        if self._table[at : at + DIGEST_SIZE] != digest:
            return -1
        offset: int = _OFFSET.unpack_from(self._table, at + DIGEST_SIZE)[0]
        return offset

    def _find(self, key: bytes) -> tuple[bytes, int]:
        """The key's digest, and where in the table it is, or belongs."""
        digest = blake2b(key, digest_size=DIGEST_SIZE).digest()
        table = self._table
        at = int.from_bytes(digest[:8], "little") % self._slots * ENTRY_SIZE
        while (found := table[at : at + DIGEST_SIZE]) != digest and found != _FREE:
            at += ENTRY_SIZE
            if at == len(table):
                at = 0
        return digest, at
