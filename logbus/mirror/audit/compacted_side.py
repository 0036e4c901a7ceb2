"""The last record of each key of a compacted partition, since the sides are compacted at different times. Pure."""

from __future__ import annotations

from typing import NamedTuple

from attrs import define, field

from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.mirror.audit.record_digest import key_digest, record_digest


class LastRecord(NamedTuple):
    """The last record of a key; ``digest`` is None for a tombstone, which compaction removes, too."""

    digest: int | None
    offset: int
    timestamp: int


@define
class CompactedSide:
    """
    One side.

    :ivar last: by what stands for the key.
    """

    last: dict[bytes, LastRecord] = field(factory=dict, init=False)

    def add(self, record: ConsumerRecord) -> None:
        """Note a record behind the others. One without a key does not count: compaction removes it."""
        if record.key is None:
            return
        digest = None if record.value is None else record_digest(record)
        self.last[key_digest(record.key)] = LastRecord(digest, record.offset, record.timestamp)

    def forget(self, record: ConsumerRecord) -> None:
        """Leave a key out, since its last record is not copied yet, and may have had those before it removed."""
        self.last.pop(key_digest(record.key or b""), None)
