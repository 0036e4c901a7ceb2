"""
Encodes and decodes the records of ``__consumer_offsets`` (Kafka: GroupCoordinatorRecordHelpers). Pure.

The versions are those of Kafka 3.9, so that each can load the other's log. A record with an unknown key version comes
from a newer broker; it is not treated as damage.
"""

from __future__ import annotations

import struct
from typing import Any

from attrs import frozen

from logbus.coordination.group import Change
from logbus.errors import DecodeError
from logbus.records.checksum import Buffer
from logbus.wire.messages.group_log import KEYS, VALUES, GroupMetadataValue, OffsetCommitValue
from logbus.wire.schema import decode_versioned, encode_versioned

_VERSION = struct.Struct(">h")
# The newest version of each kind of key; only that of offsets has an older one.
_KEY_VERSIONS = {kind: version for version, kind in sorted(KEYS.items())}

OFFSET_VERSION = 3
#: The one version of a committed offset that can say when it expires.
EXPIRING_OFFSET_VERSION = 1
GROUP_VERSION = 3


@frozen
class UnknownKey:
    """A record with an unknown key version."""

    version: int


def encode_change(change: Change) -> tuple[bytes, bytes | None]:
    """
    Key and value of the record of a change.

    :raise EncodeError: a text is longer than a record can hold.
    """
    key, value = change
    encoded = encode_versioned(key, _KEY_VERSIONS[type(key)])
    return encoded, None if value is None else encode_versioned(value, _value_version(value))


def _value_version(value: Any) -> int:
    if isinstance(value, OffsetCommitValue):
        return OFFSET_VERSION if value.expire_timestamp == -1 else EXPIRING_OFFSET_VERSION
    return GROUP_VERSION if isinstance(value, GroupMetadataValue) else 0


def decode_change(key: Buffer | None, value: Buffer | None) -> Change | UnknownKey:
    """
    The change in a record.

    :raise DecodeError: it is damaged, or its value has an unknown version.
    """
    if key is None or len(key) < _VERSION.size:
        raise DecodeError("the record has no key" if key is None else f"the key has {len(key)} bytes: no version")
    (version,) = _VERSION.unpack_from(key)
    kind = KEYS.get(version)
    if kind is None:
        return UnknownKey(version)
    read, _ = decode_versioned(kind, key)
    return read, None if value is None else decode_versioned(VALUES[kind], value)[0]
