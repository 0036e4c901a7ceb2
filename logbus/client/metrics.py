"""Counters of a producer: plain integers, to be read at any time."""

from __future__ import annotations

from attrs import define


@define
class ProducerMetrics:
    """
    :ivar records: that were put into batches.
    :ivar bytes: of batches that were sent, as sent: compressed, and again with each attempt.
    :ivar batches: that were sent for the first time.
    :ivar requests: Produce requests.
    :ivar retries: batches that were sent again.
    :ivar splits: batches that were too large, and were made two.
    :ivar errors: batches that were not written, or of which nobody knows.
    :ivar failed_records: records in those.
    :ivar queue_us: microseconds that batches waited, from their first record to their first request, all together.
    :ivar waits: sends that had to wait for room.
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
