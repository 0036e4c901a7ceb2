"""The result of an append, for the response to the producer. Pure."""

from __future__ import annotations

from typing import NamedTuple


class LogAppendInfo(NamedTuple):
    """
    The result of an append (Kafka: LogAppendInfo).

    :ivar log_append_time: the broker's timestamp set on the records, ms since 1970; −1 if the topic keeps the
        producer's.
    :ivar size: bytes written.
    :ivar duplicate: the batch was in the log already, at these offsets; nothing was written.
    """

    base_offset: int
    last_offset: int
    log_append_time: int
    log_start_offset: int
    size: int
    duplicate: bool = False
