"""
Checks a produced batch against its topic's settings (Kafka: LogValidator), in addition to
:mod:`logbus.records.batch_validation`. Pure.

Records are decoded only for compacted topics, where each must have a key, and to name those whose timestamps the topic
does not allow.
"""

from __future__ import annotations

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, DecodeError, ErrorCode, RecordsRefused
from logbus.model import NO_TIMESTAMP
from logbus.records.batch import BatchHeader, decode_batch
from logbus.records.batch_validation import validate_produced
from logbus.records.checksum import Buffer
from logbus.records.compression import MAX_DECOMPRESSED
from logbus.records.header import HeaderFields, header_of

LOG_APPEND_TIME = "LogAppendTime"

#: A batch of a few bytes can hold a million records; no response names them all.
MAX_RECORD_ERRORS = 1000

MAX_RECORDS_READ = 50_000
"""Upper bound of records of a batch decoded before an append: some 40 ms of work."""

MAX_BYTES_DECOMPRESSED = 16 * 1024 * 1024
"""Upper bound of a batch's decompressed bytes then, unless ``max.message.bytes`` is more than a quarter of it."""


def validate_for_topic(
    data: Buffer, config: TopicConfig, now_ms: int, zstd_allowed: bool = True, from_coordinator: bool = False
) -> BatchHeader:
    """
    Check the bytes a producer sent for one partition.

    :param data: exactly one batch.
    :param now_ms: the broker's time, ms since 1970.
    :param from_coordinator: a coordinator of this broker wrote the batch (Kafka: AppendOrigin): each record has a key,
        and a producer's batch has no sequence number.
    :raises ApiError: MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP, INVALID_RECORD, CORRUPT_MESSAGE,
        UNSUPPORTED_COMPRESSION_TYPE, UNSUPPORTED_FOR_MESSAGE_FORMAT.
    """
    return header_of(validated_for_topic(data, config, now_ms, zstd_allowed, from_coordinator))


def validated_for_topic(
    data: Buffer, config: TopicConfig, now_ms: int, zstd_allowed: bool, from_coordinator: bool
) -> HeaderFields:
    """Check as :func:`validate_for_topic`, and return the header's fields alone."""
    # The size first: it is cheap to check, while the CRC reads all the bytes.
    size = len(data)
    if size > config.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the record batch has {size} bytes, more than max.message.bytes = {config.max_message_bytes}",
        )
    if size > config.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the record batch has {size} bytes, more than segment.bytes = {config.segment_bytes}",
        )
    fields = validate_produced(data, zstd_allowed, not from_coordinator)
    _, _, _, _, _, _, _, base_timestamp, max_timestamp, _, _, _, _ = fields
    if (
        max_timestamp - now_ms > config.message_timestamp_after_max_ms
        or now_ms - base_timestamp > config.message_timestamp_before_max_ms
    ) and config.message_timestamp_type != LOG_APPEND_TIME:
        check_times(data, header_of(fields), config, now_ms)
    if "compact" in config.cleanup_policy and not from_coordinator:
        check_keys(data, header_of(fields), config)
    return fields


def check_times(data: Buffer, header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    """
    Check a batch's timestamps against the topic's limits; records without a timestamp pass.

    :raises RecordsRefused: INVALID_TIMESTAMP, naming the records beyond the limits.
    :raises ApiError: INVALID_TIMESTAMP if no record can be named: they cannot be read, or are too many.
    """
    problem = _time_problem(header.base_timestamp, config, now_ms) or _time_problem(
        header.max_timestamp, config, now_ms
    )
    if problem is None:
        return
    try:
        records = decode_batch(data, header=header, limit=decompression_limit(header, config))
    except (ApiError, DecodeError):
        records = []
    # A producer sends the others again, or gives up no more than these (KIP-467).
    refused = [
        (index, why)
        for index, record in enumerate(records)
        if (why := _time_problem(record.timestamp, config, now_ms)) is not None
    ]
    if refused:
        raise RecordsRefused(ErrorCode.INVALID_TIMESTAMP, refused[0][1], refused[:MAX_RECORD_ERRORS])
    raise ApiError(ErrorCode.INVALID_TIMESTAMP, problem)


def _time_problem(timestamp: int, config: TopicConfig, now_ms: int) -> str | None:
    """Why a timestamp is beyond the topic's limits; None: it is within them."""
    if timestamp == NO_TIMESTAMP:
        return None
    if timestamp - now_ms > config.message_timestamp_after_max_ms:
        return (
            f"timestamp {timestamp} is more than message.timestamp.after.max.ms = "
            f"{config.message_timestamp_after_max_ms} after the broker's time {now_ms}"
        )
    if now_ms - timestamp > config.message_timestamp_before_max_ms:
        return (
            f"timestamp {timestamp} is more than message.timestamp.before.max.ms = "
            f"{config.message_timestamp_before_max_ms} before the broker's time {now_ms}"
        )
    return None


def decompression_limit(header: BatchHeader, config: TopicConfig) -> int:
    """
    Limit the work on a batch whose records must be decoded before an append, since the reactor is blocked meanwhile.

    :returns: upper bound of the records' bytes, decompressed.
    :raises ApiError: MESSAGE_TOO_LARGE: there are too many records. Kafka's producer splits the batch then.
    """
    if header.record_count > MAX_RECORDS_READ:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {header.record_count} records; on topics that are compacted, or compress in another way "
            f"than the producer, at most {MAX_RECORDS_READ} are taken in one batch",
        )
    return min(MAX_DECOMPRESSED, max(MAX_BYTES_DECOMPRESSED, 4 * config.max_message_bytes))


def check_keys(data: Buffer, header: BatchHeader, config: TopicConfig) -> None:
    """
    Check that every record has a key: compaction keeps the last record of each key.

    :raises RecordsRefused: INVALID_RECORD, naming the records without a key.
    :raises ApiError: CORRUPT_MESSAGE or MESSAGE_TOO_LARGE if the records cannot be read, or are too many.
    """
    try:
        records = decode_batch(data, header=header, limit=decompression_limit(header, config))
    except DecodeError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the records cannot be read: {error}") from error
    keyless = [index for index, record in enumerate(records) if record.key is None]
    if keyless:
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            f"record {keyless[0]} has no key; compacted topics require one ({len(keyless)} records are without)",
            [(index, "the record has no key; compacted topics require one") for index in keyless[:MAX_RECORD_ERRORS]],
        )
