"""
Checks a produced batch by its header and CRC, before it is appended (Kafka: LogValidator).

The cost does not grow with the number of records. Records are decoded only where their content matters (compacted
topics; :mod:`logbus.storage.appends.log_validator`).
"""

from __future__ import annotations

from logbus.errors import ApiError, ErrorCode
from logbus.records.checksum import Buffer, crc32c
from logbus.records.compression import MAX_DECOMPRESSED, Codec
from logbus.records.header import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    KNOWN_BITS,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    MIN_LENGTH,
    MIN_RECORD_SIZE,
    NO_PRODUCER_ID,
    TRANSACTIONAL_BIT,
    HeaderFields,
    read_fields,
)

_FROM_A_CLIENT = CODEC_MASK | TRANSACTIONAL_BIT
_LAST_CODEC = max(Codec)
_MAX_COMPRESSED_COUNT = MAX_DECOMPRESSED // MIN_RECORD_SIZE
NO_TIMESTAMP = -1


def validate_produced(data: Buffer, zstd_allowed: bool = True, sequenced: bool = True) -> HeaderFields:
    """
    Check a producer's data for one partition: exactly one whole batch of magic 2 that can be stored unchanged.

    ``base_offset`` and ``leader_epoch`` may be anything, since the broker overwrites both; so may the producer's epoch
    and sequence when there is no producer id, since some clients leave zeros there. The caller compares the batch's
    size with the topic's ``max.message.bytes``, and its timestamps with the topic's limits.

    :param data: the whole records field of a Produce request.
    :param zstd_allowed: False below Produce version 7, whose readers do not support zstd (KIP-110).
    :param sequenced: a producer's batch needs a sequence number; False for a batch that a coordinator writes for a
        producer, which has none.
    :returns: the fields of the header, which has the size of ``data``; :func:`.header_of` makes one of them.
    :raises ApiError: CORRUPT_MESSAGE, UNSUPPORTED_FOR_MESSAGE_FORMAT (magic 0 and 1), INVALID_RECORD, INVALID_TIMESTAMP
        or UNSUPPORTED_COMPRESSION_TYPE.
    """
    size = len(data)
    if size < HEADER_SIZE or data[MAGIC_AT] != MAGIC:
        raise _not_a_batch(data)
    # All fields at once: attribute access to each takes longer than the checks.
    fields = read_fields(data)
    _, length, _, _, crc, attributes, delta, base_timestamp, max_timestamp, producer_id, epoch, sequence, count = fields
    if length != size - LENGTH_OVERHEAD:
        raise _wrong_length(length, size)
    # Another view of what is one already would cost as much as all the checks below.
    view = data if isinstance(data, memoryview) else memoryview(data)
    if crc32c(view[ATTRIBUTES_AT:]) != crc:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the CRC of the record batch does not match ({crc:#010x})")

    if attributes & ~_FROM_A_CLIENT:
        raise _bad_attributes(attributes)
    codec = attributes & CODEC_MASK
    if codec:
        if codec > _LAST_CODEC:
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {codec}")
        if codec == Codec.ZSTD and not zstd_allowed:
            raise ApiError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later; this request is older"
            )

    if count < 1 or count != delta + 1:
        raise ApiError(ErrorCode.INVALID_RECORD, f"a batch of {count} records cannot have last offset delta {delta}")
    if (count > _MAX_COMPRESSED_COUNT) if codec else (count * MIN_RECORD_SIZE > length - MIN_LENGTH):
        raise ApiError(ErrorCode.INVALID_RECORD, f"{count} records do not fit a batch of {size} bytes")
    if base_timestamp < NO_TIMESTAMP or max_timestamp < NO_TIMESTAMP:
        raise ApiError(
            ErrorCode.INVALID_TIMESTAMP, f"timestamps {base_timestamp} and {max_timestamp} must not be negative"
        )

    if producer_id != NO_PRODUCER_ID:
        if producer_id < 0 or epoch < 0 or (sequence < 0 and sequenced):
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                f"producer id {producer_id}, epoch {epoch} and sequence {sequence} do not go together",
            )
    elif attributes & TRANSACTIONAL_BIT:
        raise ApiError(ErrorCode.INVALID_RECORD, "a transactional batch needs a producer id")
    return fields


def _not_a_batch(data: Buffer) -> ApiError:
    """The error for data too short for a header, or with another magic."""
    size = len(data)
    if size == 0:
        return ApiError(ErrorCode.INVALID_RECORD, "one record batch per partition is required; there is none")
    # Magic has the same position in every format.
    if size > MAGIC_AT and data[MAGIC_AT] in (0, 1):
        return ApiError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"message format {data[MAGIC_AT]} is not supported; record batches of magic {MAGIC} are",
        )
    # Not CORRUPT_MESSAGE, which would have the producer send the same bytes again.
    if size < HEADER_SIZE:
        return ApiError(ErrorCode.INVALID_RECORD, f"{size} bytes are too few for a record batch")
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"a record batch cannot have magic {data[MAGIC_AT]}")


def _wrong_length(length: int, size: int) -> ApiError:
    """The error for a batch that does not end where the data does."""
    if length < MIN_LENGTH:
        return ApiError(
            ErrorCode.CORRUPT_MESSAGE, f"a record batch cannot have length {length}; {MIN_LENGTH} is the least"
        )
    if length > size - LENGTH_OVERHEAD:
        return ApiError(
            ErrorCode.INVALID_RECORD,
            f"the record batch announces {length + LENGTH_OVERHEAD} bytes, {size} are there",
        )
    return ApiError(
        ErrorCode.INVALID_RECORD,
        f"exactly one record batch per partition is allowed; {size - length - LENGTH_OVERHEAD} bytes follow the first",
    )


def _bad_attributes(attributes: int) -> ApiError:
    """The error for attribute bits that a producer must not set."""
    if attributes & CONTROL_BIT:
        return ApiError(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if attributes & DELETE_HORIZON_BIT:
        return ApiError(ErrorCode.INVALID_RECORD, "clients may not set the delete horizon of a batch")
    if attributes & ~KNOWN_BITS:
        return ApiError(ErrorCode.INVALID_RECORD, f"reserved bits are set in the attributes {attributes & 0xFFFF:#06x}")
    assert attributes & LOG_APPEND_TIME_BIT
    return ApiError(ErrorCode.INVALID_TIMESTAMP, "clients may not set the timestamp type to LogAppendTime")
