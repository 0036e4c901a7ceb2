"""
A range of copied records: where it lies on both sides. Pure.

The offset sync of its last record has the rest in a header, which other readers ignore.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from uuid import UUID

from attrs import frozen

from logbus.errors import DecodeError
from logbus.mirror.mirror_records import OffsetSync
from logbus.model import NO_EPOCH, TopicPartition
from logbus.records.record import Headers

HEADER = "logbus.mirror"
"""The name of the header."""
ORIGINS = "logbus.mirror.origins"
"""The name of another one, for topics with records of further clusters: their aliases, with commas between them."""
EPOCH = "logbus.mirror.epoch"
"""The name of a third one: the leader epoch of the last record at the source, which tells whether that was set back
since (KIP-320)."""
_VERSION = 1
_EPOCH = Struct(">i")
_LAYOUT = Struct(">Bqq16s16s")

NO_ID = UUID(int=0)


@frozen
class TopicIds:
    """
    Which topics are meant, should one be deleted and created anew under its name; zero: the brokers have no ids.
    """

    source: UUID = NO_ID
    target: UUID = NO_ID


@frozen
class CopiedRange:
    """
    Records that have consecutive offsets on both sides.

    :ivar partition: of the source.
    :ivar upstream: the first offset at the source.
    :ivar downstream: the first offset at the target.
    :ivar count: of records.
    :ivar next_offset: where the source's next records begin; behind the range there may be offsets without records.
    """

    partition: TopicPartition
    upstream: int
    downstream: int
    count: int
    next_offset: int

    @property
    def last_upstream(self) -> int:
        """The offset of the last record at the source."""
        return self.upstream + self.count - 1

    @property
    def last_downstream(self) -> int:
        """The offset of the last record at the target."""
        return self.downstream + self.count - 1

    def joined(self, later: CopiedRange) -> CopiedRange | None:
        """This and the range behind it as one, if both sides have them without a gap."""
        if later.upstream == self.last_upstream + 1 and later.downstream == self.last_downstream + 1:
            return CopiedRange(
                self.partition, self.upstream, self.downstream, self.count + later.count, later.next_offset
            )
        return None

    def sync(self) -> OffsetSync:
        """The offset sync of the last record."""
        return OffsetSync(self.partition, self.last_upstream, self.last_downstream)

    def headers(self, ids: TopicIds, origins: Iterable[str] = (), epoch: int = NO_EPOCH) -> Headers:
        """
        The headers of the offset sync.

        :param origins: aliases of clusters from which the source has the topic's records.
        :param epoch: the leader epoch of the last record, or of one behind it; −1: not known.
        """
        packed = _LAYOUT.pack(_VERSION, self.count, self.next_offset, ids.source.bytes, ids.target.bytes)
        made: list[tuple[str, bytes | None]] = [(HEADER, packed)]
        if further := ",".join(sorted(origins)):
            made.append((ORIGINS, further.encode()))
        if epoch != NO_EPOCH:
            made.append((EPOCH, _EPOCH.pack(epoch)))
        return tuple(made)


def decode_range(key: bytes | None, value: bytes | None, headers: Headers) -> tuple[CopiedRange, TopicIds]:
    """
    The range that an offset sync is about; that of another mirror, without the header, has one record.

    :raises DecodeError: the record is no offset sync.
    """
    sync = OffsetSync.decode(key, value)
    packed = next((content for name, content in headers if name == HEADER), None)
    if packed is None:
        one = CopiedRange(sync.partition, sync.upstream, sync.downstream, 1, sync.upstream + 1)
        return one, TopicIds()
    if len(packed) != _LAYOUT.size or packed[0] != _VERSION:
        raise DecodeError(f"the header {HEADER} of an offset sync is of another version")
    _, count, next_offset, source, target = _LAYOUT.unpack(packed)
    if count < 1 or next_offset <= sync.upstream:
        raise DecodeError(f"the header {HEADER} of an offset sync has {count} records up to {next_offset}")
    upstream, downstream = sync.upstream - count + 1, sync.downstream - count + 1
    found = CopiedRange(sync.partition, upstream, downstream, count, next_offset)
    return found, TopicIds(UUID(bytes=source), UUID(bytes=target))


def decode_epoch(headers: Headers) -> int:
    """The leader epoch in the header of that name; −1: none is known."""
    found = next((content for name, content in headers if name == EPOCH), None)
    return NO_EPOCH if found is None or len(found) != _EPOCH.size else int(_EPOCH.unpack(found)[0])


def decode_origins(headers: Headers) -> list[str]:
    """The aliases in the header of that name."""
    found = next((content for name, content in headers if name == ORIGINS), None)
    return found.decode(errors="replace").split(",") if found else []
