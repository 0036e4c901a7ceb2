"""
Variable-length integers: seven bits a byte, the lowest first, the top bit set on all but the last byte.

Signed ones (``varint``, ``varlong``) are zigzag-encoded first, so that small negative numbers stay short; they are used
inside records. Unsigned ones (``uvarint``) are used by the flexible versions of the protocol. This is the encoding of
Protocol Buffers.
"""

from __future__ import annotations

from logbus.errors import DecodeError
from logbus.records.checksum import Buffer

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


def encode_uvarint(n: int) -> bytes:
    """
    Encode an unsigned number of at most 64 bits.

    :raises ValueError: it is negative or larger.
    """
    if 0 <= n < 0x80:
        return _ONE_BYTE[n]
    if not 0 <= n < 1 << 64:
        raise ValueError(f"{n} is not an unsigned 64-bit number")
    if n < 0x4000:
        return bytes((n & 0x7F | 0x80, n >> 7))
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def encode_varint(n: int) -> bytes:
    """
    Encode a signed number of at most 64 bits; varint and varlong have the same encoding.

    :raises ValueError: it is outside int64.
    """
    if -SMALL <= n < SMALL:
        return SMALL_VARINTS[n]
    if not -(1 << 63) <= n < 1 << 63:
        raise ValueError(f"{n} is not a signed 64-bit number")
    return encode_uvarint((n << 1) ^ (n >> 63))


def decode_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """
    Decode an unsigned number of at most 32 bits.

    :returns: the number, and the position after it.
    :raises DecodeError: the bytes end inside it, or it is larger.
    """
    return _decode(buf, pos, 32, MAX_VARINT_BYTES)


def decode_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Decode a signed number of at most 32 bits, like :func:`decode_uvarint`."""
    n, pos = _decode(buf, pos, 32, MAX_VARINT_BYTES)
    return (n >> 1) ^ -(n & 1), pos


def decode_varlong(buf: Buffer, pos: int) -> tuple[int, int]:
    """Decode a signed number of at most 64 bits, like :func:`decode_uvarint`."""
    n, pos = _decode(buf, pos, 64, MAX_VARLONG_BYTES)
    return (n >> 1) ^ -(n & 1), pos


def _decode(buf: Buffer, pos: int, bits: int, max_bytes: int) -> tuple[int, int]:
    start = pos
    n = shift = 0
    try:
        while True:
            byte = buf[pos]
            pos += 1
            n |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if pos - start == max_bytes:
                raise DecodeError(f"the number at {start} has more than {max_bytes} bytes")
    except IndexError:
        raise DecodeError(f"the bytes end inside the number at {start}") from None
    if n >> bits:
        raise DecodeError(f"the number at {start} has more than {bits} bits")
    return n, pos


_ONE_BYTE = [bytes((n,)) for n in range(0x80)]

SMALL = 1024
SMALL_VARINTS = [encode_uvarint(2 * n) for n in range(SMALL)] + [encode_uvarint(-2 * n - 1) for n in range(-SMALL, 0)]
"""
The encodings of -1024..1023, indexed by the number itself: negative ones count from the end of the list. For loops that
cannot afford a call per field.
"""
