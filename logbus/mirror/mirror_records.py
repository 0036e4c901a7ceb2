"""
The records of MirrorMaker 2's internal topics (KIP-382), in its formats, so that its clients can read them. Pure.

===============================  ==================================  ==========================================
topic                            key                                 value
===============================  ==================================  ==========================================
mm2-offset-syncs.A.internal      topic, partition int32              upstream offset int64, offset int64
A.checkpoints.internal           group, topic, partition int32       version int16, upstream offset int64,
                                                                     offset int64, metadata
heartbeats                       source alias, target alias          version int16, timestamp int64
===============================  ==================================  ==========================================

Texts have an int16 length before them. All numbers are big-endian. A checkpoint has a header besides, which other
readers ignore: the topic id of the copy that its offset is of.
"""

from __future__ import annotations

from struct import Struct, error
from uuid import UUID

from attrs import frozen

from logbus.errors import DecodeError
from logbus.model import TopicPartition
from logbus.records.record import Headers

VERSION = 0
COPY_ID = "logbus.mirror.copy"
"""The name of a checkpoint's header."""
_NO_ID = UUID(int=0)
_LONGEST = 0x7FFF
"""Bytes of the longest text."""

_LENGTH = Struct(">h")
_NUMBER = Struct(">i")
_OFFSETS = Struct(">qq")
_VERSIONED_OFFSETS = Struct(">hqq")
_BEAT = Struct(">hq")
_SHORT = Struct(">h")


@frozen
class OffsetSync:
    """
    A record's offsets on both sides.

    :ivar partition: of the source.
    :ivar upstream: the record's offset at the source.
    :ivar downstream: its offset at the target.
    """

    partition: TopicPartition
    upstream: int
    downstream: int

    @property
    def key(self) -> bytes:
        """The record's key."""
        return _text(self.partition.topic) + _NUMBER.pack(self.partition.partition)

    @property
    def value(self) -> bytes:
        """The record's value."""
        return _OFFSETS.pack(self.upstream, self.downstream)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> OffsetSync:
        """
        Of a record.

        :raises DecodeError: it is no offset sync.
        """
        try:
            topic, at = _read_text(key or b"", 0)
            (number,) = _NUMBER.unpack_from(key or b"", at)
            upstream, downstream = _OFFSETS.unpack_from(value or b"")
        except (error, UnicodeDecodeError) as e:
            raise DecodeError(f"no offset sync: {e}") from None
        return cls(TopicPartition(topic, number), upstream, downstream)


BEGUN = OffsetSync(TopicPartition("logbus/session", 0), 0, 0)
"""What a session writes between the offset syncs before it reads them. No topic can have this name, so that readers of
offset syncs pass it over."""


@frozen
class Checkpoint:
    """
    A group's committed offset of a partition, on both sides.

    :ivar partition: of the target.
    :ivar upstream: the offset at the source.
    :ivar downstream: the offset at the target that stands for it.
    :ivar metadata: what the group committed with it.
    :ivar copy_id: the topic id of the copy; zero: not known.
    """

    group: str
    partition: TopicPartition
    upstream: int
    downstream: int
    metadata: str = ""
    copy_id: UUID = _NO_ID

    @property
    def key(self) -> bytes:
        """The record's key."""
        return _text(self.group) + _text(self.partition.topic) + _NUMBER.pack(self.partition.partition)

    @property
    def value(self) -> bytes:
        """The record's value; metadata that are longer than the format allows are left out."""
        fits = len(self.metadata.encode()) <= _LONGEST
        packed = _VERSIONED_OFFSETS.pack(VERSION, self.upstream, self.downstream)
        return packed + _text(self.metadata if fits else "")

    @property
    def headers(self) -> Headers:
        """The record's headers."""
        return ((COPY_ID, self.copy_id.bytes),) if self.copy_id.int else ()

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Checkpoint:
        """
        Of a record.

        :raises DecodeError: it is no checkpoint.
        """
        try:
            group, at = _read_text(key or b"", 0)
            topic, at = _read_text(key or b"", at)
            (number,) = _NUMBER.unpack_from(key or b"", at)
            version, upstream, downstream = _VERSIONED_OFFSETS.unpack_from(value or b"")
            metadata, _ = _read_text(value or b"", _VERSIONED_OFFSETS.size)
        except (error, UnicodeDecodeError) as e:
            raise DecodeError(f"no checkpoint: {e}") from None
        if version != VERSION:
            raise DecodeError(f"a checkpoint of version {version}; {VERSION} is known")
        packed = next((content for name, content in headers if name == COPY_ID), None)
        copy_id = UUID(bytes=packed) if packed is not None and len(packed) == 16 else _NO_ID
        return cls(group, TopicPartition(topic, number), upstream, downstream, metadata, copy_id)


@frozen
class Heartbeat:
    """
    A sign of a mirror's life.

    :ivar timestamp: milliseconds since 1970.
    """

    source: str
    target: str
    timestamp: int

    @property
    def key(self) -> bytes:
        """The record's key."""
        return _text(self.source) + _text(self.target)

    @property
    def value(self) -> bytes:
        """The record's value."""
        return _BEAT.pack(VERSION, self.timestamp)


def _text(text: str) -> bytes:
    data = text.encode()
    return _LENGTH.pack(len(data)) + data


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = _LENGTH.unpack_from(data, at)
    at += _LENGTH.size
    if not 0 <= length <= len(data) - at:
        raise error(f"a text of {length} bytes, of which {len(data) - at} are there")
    return data[at : at + length].decode(), at + length
