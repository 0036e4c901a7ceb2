"""
Encodes the most frequent Produce response, for one written batch of one topic, without building a message.

The bytes are those of :class:`~logbus.wire.messages.records.ProduceResponse` with these fields.
"""

from __future__ import annotations

from struct import Struct

from logbus.wire.encoder_runtime import string_length

FIRST_VERSION = 9
"""The first version at which the answer has this form: it is flexible."""

_TOPIC_ID_VERSION = 13

# Partitions (one, compact), index, no error, three numbers, no record errors; then no message, no tags of partition
# and topic, no throttling, no tags.
_pack = Struct(">Bi2xqqqB3x5x").pack


def encode_produce_response(
    topic: bytes, index: int, base_offset: int, log_append_time_ms: int, log_start_offset: int, version: int
) -> bytes:
    """
    The body of a Produce response for one written batch, from version :data:`FIRST_VERSION` on.

    :param topic: its name in UTF-8; from version 13 on its id.
    """
    head = b"\x02" + topic if version >= _TOPIC_ID_VERSION else b"\x02" + string_length(len(topic) + 1) + topic
    return head + _pack(2, index, base_offset, log_append_time_ms, log_start_offset, 1)
