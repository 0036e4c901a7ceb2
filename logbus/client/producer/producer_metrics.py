"""Counters of a producer: plain integers, to be read at any time."""

from __future__ import annotations

from attrs import define


@define
class ProducerMetrics:
    """
    :ivar records: appended to batches.
    :ivar bytes: of batches as sent: compressed, and counted again with each attempt.
    :ivar batches: sent for the first time.
    :ivar requests: Produce requests.
    :ivar retries: batches sent again.
    :ivar splits: batches split because they were too large.
    :ivar errors: batches that failed, or whose outcome is unknown.
    :ivar failed_records: records in those.
    :ivar queue_us: microseconds from the first record of batches to their first request, summed.
    :ivar waits: sends that waited for room.
    """

    records: int = 0
    bytes: int = 0
    batches: int = 0
    requests: int = 0
    retries: int = 0
    splits: int = 0
    errors: int = 0
    failed_records: int = 0
    queue_us: int = 0
    waits: int = 0
