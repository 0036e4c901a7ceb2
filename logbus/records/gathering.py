"""
Encodes the records of a growing batch: the code that runs once per record in a producer.

The compiled implementation is ``_gathering.pyx``, which writes records straight into growing memory;
:mod:`logbus.records.implementations` chooses.
"""

from __future__ import annotations

from logbus.records.header import HEADER_SIZE
from logbus.records.kernel import encode_record
from logbus.records.record import Headers

REVISION = 3
"""Incremented whenever the exported functions change: a compiled module of another revision is not used."""

NO_TIMESTAMP = -1
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


class RecordBuffer:
    """
    Encoded records of a growing batch.

    :ivar count: records so far.
    :ivar size: their bytes, with the batch's header.
    :ivar base_timestamp: of the first; −1 before there is one.
    :ivar max_timestamp: the highest.
    """

    __slots__ = ("_encoded", "base_timestamp", "count", "max_timestamp", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = HEADER_SIZE
        self.base_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self._encoded: list[bytes] = []

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> int:
        """
        Add a record.

        :param timestamp: milliseconds since 1970, or −1.
        :returns: the record's offset within the batch.
        :raises ValueError: a number is out of range, or a header's name cannot be encoded as UTF-8.
        """
        return self.append_within(_INT64_MAX, timestamp, key, value, headers)

    def append_within(
        self, limit: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> int:
        """
        Add a record if the batch stays within ``limit`` bytes, uncompressed; an empty batch takes any.

        :returns: the record's offset within the batch; −1 if it has no room.
        :raises ValueError: as :meth:`append`.
        """
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise ValueError(f"{timestamp} is not a signed 64-bit number")
        count = self.count
        base = self.base_timestamp if count else timestamp
        encoded = encode_record(timestamp - base, count, key, value, headers)
        size = self.size + len(encoded)
        if size > limit and count:
            return -1
        self._encoded.append(encoded)
        self.size = size
        self.base_timestamp = base
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count = count + 1
        return count

    def contents(self) -> bytes:
        """The bytes of all records."""
        if len(self._encoded) > 1:
            self._encoded = [b"".join(self._encoded)]
        return self._encoded[0] if self._encoded else b""
