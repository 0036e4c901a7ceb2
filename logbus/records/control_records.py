"""
Control records: the transaction markers that brokers write into partitions (KIP-98).

A control batch holds one record, which takes an offset like any other and is never shown to applications::

    key    version int16 | type int16 (0 abort, 1 commit)
    value  version int16 | coordinator_epoch int32
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from logbus.errors import DecodeError
from logbus.records.record import Record

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_VERSION = 0


class ControlType(IntEnum):
    """The outcome of a transaction (Kafka: ControlRecordType)."""

    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    """A transaction marker, with the epoch of the coordinator that wrote it (Kafka: EndTransactionMarker)."""

    type: ControlType
    coordinator_epoch: int


def encode_control_key(type: ControlType) -> bytes:
    """The key of a control record."""
    return _KEY.pack(_VERSION, type)


def decode_control_key(key: bytes | None) -> ControlType | None:
    """
    The type in a control record's key.

    :returns: None for other control records (KRaft's leader changes and snapshots).
    :raises DecodeError: it is not the key of a control record.
    """
    if key is None or len(key) < _KEY.size:
        raise DecodeError(f"a control record cannot have the key {key!r}")
    # Later versions may append fields, never move these two.
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise DecodeError(f"a control record's key cannot have version {version}")
    return ControlType(number) if number in (0, 1) else None


def encode_marker(marker: Marker, offset: int, timestamp: int) -> Record:
    """The control record that ends a transaction."""
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return Record(offset, timestamp, encode_control_key(marker.type), value)


def decode_marker(record: Record) -> Marker | None:
    """
    The marker in a record of a control batch; None if it is another kind of control record.

    :raises DecodeError: it is not a control record.
    """
    type = decode_control_key(record.key)
    if type is None:
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise DecodeError(f"a transaction marker cannot have the value {record.value!r}")
    return Marker(type, _VALUE.unpack_from(record.value)[1])
