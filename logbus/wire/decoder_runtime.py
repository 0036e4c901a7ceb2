"""Helpers that generated decoders call: long lengths, unknown tags, and all errors."""

from __future__ import annotations

from struct import Struct

from logbus.errors import BudgetExceeded, DecodeError
from logbus.wire.wire_types import FORMAT_SIZES

Buffer = bytes | bytearray | memoryview

MAX_STRING_LENGTH = 32767
_SHORT_LISTS = 32

UNPACKERS = {
    code: [Struct(f">{n}{code}").unpack_from for n in range(_SHORT_LISTS)] for code in FORMAT_SIZES if code != "16s"
}


def read_rest(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    """
    Read the rest of an unsigned varint of at most five bytes and 32 bits, after its first byte.

    :returns: the number, and the position after it.
    """
    value = first & 127
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                break
            return value, pos
    raise DecodeError(f"the varint that ends at byte {pos} is longer than 32 bits")


def read_string_length(buf: Buffer, pos: int, first: int, field: str) -> tuple[int, int]:
    """Read the rest of the compact length (one more than the bytes) of a string that must not be null."""
    if first == 0:
        raise unexpected_null(field)
    size, pos = read_rest(buf, pos, first)
    if size > MAX_STRING_LENGTH + 1:
        raise string_too_long(field, size - 1)
    if size == 0:
        raise unexpected_null(field)
    return size, pos


def read_numbers(buf: Buffer, pos: int, count: int, code: str) -> tuple[list[int], int]:
    """Read ``count`` numbers of one format."""
    if count < _SHORT_LISTS:
        return list(UNPACKERS[code][count](buf, pos)), pos + count * FORMAT_SIZES[code]
    many = Struct(f">{count}{code}")
    return list(many.unpack_from(buf, pos)), pos + many.size


def skip_tags(buf: Buffer, pos: int, count: int, budget: int, struct: str) -> tuple[int, int]:
    """
    Skip a tag section without known tags.

    :param count: the first byte of the number of tags.
    :returns: the position after the section, and the rest of the budget.
    """
    if count > 127:
        count, pos = read_rest(buf, pos, count)
    if count > budget:
        raise over_budget(struct, count, budget)
    last = -1
    for _ in range(count):
        tag = buf[pos]
        pos += 1
        if tag > 127:
            tag, pos = read_rest(buf, pos, tag)
        size = buf[pos]
        pos += 1
        if size > 127:
            size, pos = read_rest(buf, pos, size)
        if tag <= last:
            raise tag_order(struct, tag, last)
        last = tag
        pos += size
    return pos, budget - count


def unexpected_null(field: str) -> DecodeError:
    """A field is null in a version that does not allow it."""
    return DecodeError(f"{field} is null")


def negative_length(field: str, length: int) -> DecodeError:
    """A length is negative, where null is not allowed."""
    return unexpected_null(field) if length == -1 else DecodeError(f"{field} has the length {length}")


def string_too_long(field: str, length: int) -> DecodeError:
    """A compact string is longer than Kafka's strings can be."""
    return DecodeError(f"{field} has {length} bytes; a string has at most {MAX_STRING_LENGTH}")


def over_budget(field: str, count: int, budget: int) -> BudgetExceeded:
    """The message has more array elements than its budget allows."""
    return BudgetExceeded(f"{field} announces {count} elements; a message of this size may have {budget} more")


def tag_order(struct: str, tag: int, last: int) -> DecodeError:
    """Tags must ascend, without duplicates (KIP-482)."""
    return DecodeError(f"a {struct} has tag {tag} after tag {last}")


def tag_size(field: str, pos: int, end: int) -> DecodeError:
    """The value of a tagged field does not have the announced size."""
    return DecodeError(f"the tagged {field} ends at byte {pos}; its size says {end}")


def cut_short(title: str, size: int) -> DecodeError:
    """The bytes end within the message."""
    return DecodeError(f"{title} does not end within the {size} bytes there are")


def not_utf8(title: str, error: UnicodeDecodeError) -> DecodeError:
    """A string is not UTF-8."""
    return DecodeError(f"{title} has a string that is not UTF-8: {error.reason} at its byte {error.start}")
