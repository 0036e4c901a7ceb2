"""
Recompresses batches for topics with a ``compression.type`` other than ``producer``.

A batch that already has the topic's codec is not touched; any other is decoded and rewritten with the same offsets and
producer fields. That takes a thread 10 ms for 100 KB or so, so batches that are not small are rewritten before they are
appended: see :mod:`logbus.storage.appends.large_appends`.
"""

from __future__ import annotations

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.records.batch import HEADER_SIZE, BatchHeader, decode_batch, read_header, rewrite_batch
from logbus.records.checksum import Buffer
from logbus.records.compression import Codec, codec_named
from logbus.storage.appends.log_validator import decompression_limit, validate_for_topic
from logbus.storage.segments.batch_ahead import RecompressedAhead

#: The value of ``compression.type`` that keeps what the producer sent.
PRODUCER = "producer"

LEAST_FOR_THREAD = 1 << 14
"""Bytes of a batch that is rewritten by a thread: as text in gzip, a smaller one takes a few milliseconds at most."""


def is_rewritten(data: Buffer, config: TopicConfig) -> bool:
    """Whether an append will rewrite a batch; of one that is damaged, the answer is of no use."""
    return (
        config.compression_type != PRODUCER
        and len(data) >= HEADER_SIZE
        and read_header(data).codec != codec_named(config.compression_type)
    )


def recompress_ahead(batch: Buffer, config: TopicConfig, now_ms: int) -> RecompressedAhead | None:
    """Rewrite a batch, in a thread; None: it is refused, which its append will say as well."""
    try:
        header = validate_for_topic(batch, config, now_ms)
        return RecompressedAhead(batch, config, *recompressed(batch, header, config))
    except ApiError:
        return None


def recompressed(data: Buffer, header: BatchHeader, config: TopicConfig) -> tuple[Buffer, BatchHeader]:
    """
    The batch, compressed with its topic's codec.

    :param data: one valid batch; not changed.
    :return: the batch and its header; the same objects if there is nothing to do.
    :raises ApiError: CORRUPT_MESSAGE if the records cannot be read, MESSAGE_TOO_LARGE if the batch is too large before
        or after, or has too many records.
    """
    wanted = codec_named(config.compression_type)
    if header.codec == wanted:
        return data, header
    try:
        records = decode_batch(data, header=header, limit=decompression_limit(header, config))
        rewritten = rewrite_batch(header, records, codec=wanted, level=compression_level(wanted, config))
    except DecodeError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the records cannot be read: {error}") from error
    if len(rewritten) > min(config.max_message_bytes, config.segment_bytes):
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"with compression.type = {config.compression_type} the record batch has {len(rewritten)} bytes; "
            f"max.message.bytes is {config.max_message_bytes}, segment.bytes {config.segment_bytes}",
        )
    return rewritten, read_header(rewritten)


def compression_level(codec: Codec, config: TopicConfig) -> int | None:
    """The topic's compression level (KIP-390); None where the codec has none."""
    if codec is Codec.GZIP:
        return config.compression_gzip_level
    if codec is Codec.LZ4:
        return config.compression_lz4_level
    if codec is Codec.ZSTD:
        return config.compression_zstd_level
    return None
