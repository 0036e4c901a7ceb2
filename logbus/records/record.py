"""
The record class, and the format of records in a batch (magic 2; Kafka: DefaultRecord).

::

    length varint | attributes int8 | timestamp_delta varlong | offset_delta varint
    key_length varint | key | value_length varint | value
    header_count varint | (key_length varint | key | value_length varint | value) ...

``length`` counts the bytes after it; a length of -1 is null. Deltas are from the batch's base timestamp and base
offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
"""A record's headers in order; names may repeat."""

MAX_OVERHEAD = 21
"""Upper bound in bytes of length, attributes and both deltas."""


class Record(NamedTuple):
    """
    One record.

    :ivar offset: in the partition.
    :ivar timestamp: milliseconds since 1970; -1 is none.
    :ivar key: None is no key.
    :ivar value: None is a tombstone: compaction removes the key.
    :ivar headers: pairs of name and value, in order. Bytes of a name that are not UTF-8 are kept as surrogates (the
        ``surrogateescape`` of PEP 383).
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def readable_name(name: str) -> str:
    """A header's name, in which what is not UTF-8 is replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def max_record_size(key: bytes | None, value: bytes | None, headers: Headers = ()) -> int:
    """Upper bound of :func:`encode_record`'s result for these, whatever the deltas are."""
    size = MAX_OVERHEAD + 15
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, content in headers:
        size += 10 + 4 * len(name) + (0 if content is None else len(content))
    return size
