# cython: annotation_typing=False
"""
Encodes and decodes records: the code that runs once per record in a producer or consumer. The format is in
:mod:`logbus.records.record`.

The loops are written out flat, since a call costs as much as a field; lengths and deltas of up to two bytes are decoded
inline. This module is also compiled, as ``logbus.records._kernel``, if a C compiler is available at installation: the
types that make it fast are in ``_kernel.pxd``, and every index stays checked. :mod:`logbus.records.implementations`
chooses.
"""

from __future__ import annotations

from typing import Any

from logbus.errors import DecodeError
from logbus.records.header import MIN_RECORD_SIZE
from logbus.records.record import Headers, Record
from logbus.records.varint import SMALL, SMALL_VARINTS, decode_varint, decode_varlong, encode_varint

REVISION = 2
"""Incremented whenever the exported functions change: a compiled kernel of another revision is not used."""

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_FAR = 1 << 40
"""Larger deltas of timestamps, beyond 34 years, are added with overflow checks."""
_new_tuple = tuple.__new__
_SHORT, _FEW = SMALL_VARINTS, SMALL
_ZERO, _NULL = encode_varint(0), encode_varint(-1)


def encode_record(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Headers = ()
) -> bytes:
    """Encode one record, its length first."""
    timestamp = _SHORT[timestamp_delta] if -_FEW <= timestamp_delta < _FEW else encode_varint(timestamp_delta)
    offset = _SHORT[offset_delta] if 0 <= offset_delta < _FEW else encode_varint(offset_delta)
    if key is None:
        key, key_size = b"", _NULL
    else:
        size = len(key)
        key_size = _SHORT[size] if size < _FEW else encode_varint(size)
    if value is None:
        value, value_size = b"", _NULL
    else:
        size = len(value)
        value_size = _SHORT[size] if size < _FEW else encode_varint(size)
    encoded_headers = _encode_headers(headers) if headers else _ZERO
    body = b"".join((_ZERO, timestamp, offset, key_size, key, value_size, value, encoded_headers))
    size = len(body)
    return (_SHORT[size] if size < _FEW else encode_varint(size)) + body


def _encode_headers(headers: Headers) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, content in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        parts += (encode_varint(len(encoded)), encoded)
        if content is None:
            parts.append(_NULL)
        else:
            parts += (encode_varint(len(content)), content)
    return b"".join(parts)


def decode_records(
    data: bytes,
    count: int,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    append_time: int | None = None,
    kind: type = Record,
    prefix: tuple[object, ...] = (),
) -> list[Any]:
    """
    Decode the records of a batch.

    :param data: the records section, decompressed; ``count`` records must fill it exactly.
    :param append_time: the timestamp of every record, if the topic uses LogAppendTime.
    :param kind: the record class: a named tuple of its fields, with ``prefix`` before them.
    :raises DecodeError: the bytes are not ``count`` records with ascending offsets up to ``last_offset_delta``.
    """
    end = len(data)
    if not 0 <= count * MIN_RECORD_SIZE <= end:
        raise DecodeError(f"{count} records cannot lie in {end} bytes")
    records: list[Any] = []
    pos = 0
    last_delta = -1
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    if base_offset > _INT64_MAX - last_offset_delta:
        raise DecodeError(f"offset {base_offset} and {last_offset_delta} are more than 64 bits can hold")
    # A small delta leaves int64 only where the base is at its edge.
    at_edge = not _INT64_MIN + _FAR <= base_timestamp <= _INT64_MAX - _FAR
    try:
        for _ in range(count):
            n = data[pos]
            pos += 1
            if n > 0x7F:
                if (byte := data[pos]) < 0x80:
                    n += (byte << 7) - 0x80
                    pos += 1
                    length = -1 if n & 1 else n >> 1
                else:
                    length, pos = decode_varint(data, pos - 1)
            else:
                length = -1 if n & 1 else n >> 1
            record_end = pos + length
            if length < 0 or record_end > end:
                raise DecodeError(f"a record of {length} bytes at {pos} does not fit into {end}")

            pos += 1  # its attributes, of which none is defined
            n = data[pos]
            pos += 1
            if n > 0x7F:
                if (byte := data[pos]) < 0x80:
                    n += (byte << 7) - 0x80
                    pos += 1
                    delta = (n >> 1) ^ -(n & 1)
                else:
                    delta, pos = decode_varlong(data, pos - 1)
            else:
                delta = (n >> 1) ^ -(n & 1)
            is_far = at_edge or not -_FAR <= delta <= _FAR
            timestamp = _sum(base_timestamp, delta) if is_far else base_timestamp + delta

            n = data[pos]
            pos += 1
            if n > 0x7F:
                if (byte := data[pos]) < 0x80:
                    n += (byte << 7) - 0x80
                    pos += 1
                    delta = -1 if n & 1 else n >> 1
                else:
                    delta, pos = decode_varint(data, pos - 1)
            else:
                delta = -1 if n & 1 else n >> 1
            if delta <= last_delta:
                raise DecodeError(f"offset delta {delta} at {pos} does not rise")
            last_delta = delta

            n = data[pos]
            pos += 1
            if n == 1:
                key = None
            else:
                if n > 0x7F:
                    n, pos = decode_varint(data, pos - 1)
                elif n & 1:
                    n = -1
                else:
                    n >>= 1
                if n < 0:
                    raise DecodeError(f"the key at {pos} has a negative length")
                key = data[pos : pos + n]
                pos += n

            n = data[pos]
            pos += 1
            if n == 1:
                value = None
            else:
                if n > 0x7F:
                    if (byte := data[pos]) < 0x80 and not n & 1:
                        n = (n + (byte << 7) - 0x80) >> 1
                        pos += 1
                    else:
                        n, pos = decode_varint(data, pos - 1)
                elif n & 1:
                    n = -1
                else:
                    n >>= 1
                if n < 0:
                    raise DecodeError(f"the value at {pos} has a negative length")
                value = data[pos : pos + n]
                pos += n

            if data[pos]:
                headers, pos = _decode_headers(data, pos, record_end)
            else:
                headers = ()
                pos += 1
            # Detects fields that run past the end of the record.
            if pos != record_end:
                raise DecodeError(f"a record's fields end at {pos}, the record at {record_end}")
            fields = (base_offset + delta, timestamp if append_time is None else append_time, key, value, headers)
            records.append(_new_tuple(kind, prefix + fields if prefix else fields))
    except IndexError:
        raise DecodeError(f"the bytes end inside record {len(records)}") from None
    if pos != end:
        raise DecodeError(f"{end - pos} bytes follow the last of {count} records")
    if last_delta > last_offset_delta:
        raise DecodeError(f"offset delta {last_delta} is beyond the batch's last, {last_offset_delta}")
    return records


def _sum(base: int, delta: int) -> int:
    """A timestamp with a large delta."""
    timestamp = base + delta
    if not _INT64_MIN <= timestamp <= _INT64_MAX:
        raise DecodeError(f"a record's timestamp, {base} and {delta}, is outside 64 bits")
    return timestamp


def _decode_headers(data: bytes, pos: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    """
    Decode the headers of a record, their count first.

    :returns: the headers, and the position after them.
    """
    count, pos = decode_varint(data, pos)
    # A header has at least two bytes, so the record's length bounds the loop.
    if not 0 <= 2 * count <= end - pos:
        raise DecodeError(f"{count} headers cannot lie in the {end - pos} bytes left of a record")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size = data[pos]
        if size > 0x7F or size & 1:
            size, pos = decode_varint(data, pos)
        else:
            size >>= 1
            pos += 1
        if not 0 <= size <= end - pos:
            raise DecodeError(f"a header name of {size} bytes at {pos} does not fit into its record")
        name = data[pos : pos + size].decode("utf-8", "surrogateescape")
        pos += size
        size = data[pos]
        if size > 0x7F or size & 1:
            size, pos = decode_varint(data, pos)
            if size == -1:
                headers.append((name, None))
                continue
        else:
            size >>= 1
            pos += 1
        if not 0 <= size <= end - pos:
            raise DecodeError(f"a header value of {size} bytes at {pos} does not fit into its record")
        headers.append((name, data[pos : pos + size]))
        pos += size
    return tuple(headers), pos
