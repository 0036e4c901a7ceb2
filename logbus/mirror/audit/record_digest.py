"""A number that stands for a record: for its time, key, value and headers. Pure."""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct

from logbus.client.consumer.consumer_record import ConsumerRecord

BITS = 128

_HEAD = Struct(">qii")
_SIZE = Struct(">i")


def record_digest(record: ConsumerRecord) -> int:
    """The digest of a record: of :data:`BITS` bits; offset and partition do not count."""
    key, value = record.key, record.value
    # With the lengths before them, no two records have the same bytes; null is not empty.
    made = blake2b(
        _HEAD.pack(record.timestamp, -1 if key is None else len(key), -1 if value is None else len(value)),
        digest_size=BITS // 8,
    )
    if key:
        made.update(key)
    if value:
        made.update(value)
    for name, content in record.headers:
        encoded = name.encode()
        made.update(_SIZE.pack(len(encoded)) + encoded)
        made.update(_SIZE.pack(-1) if content is None else _SIZE.pack(len(content)) + content)
    return int.from_bytes(made.digest())


def key_digest(key: bytes) -> bytes:
    """The digest of a key."""
    return blake2b(key, digest_size=BITS // 8).digest()
