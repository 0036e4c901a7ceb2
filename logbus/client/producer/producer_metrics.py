"""Counters of a producer: plain integers, to be read at any time."""

from __future__ import annotations

from typing import Any

from attrs import define, field


def counter(help: str) -> Any:
    """A field that counts from 0, with the help text of its metric."""
    return field(default=0, metadata={"help": help})


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

    records: int = counter("Records that were added to batches.")
    bytes: int = counter("Bytes of batches as sent: compressed, and counted again with each attempt.")
    batches: int = counter("Batches that were sent for the first time.")
    requests: int = counter("Produce requests.")
    retries: int = counter("Batches that were sent again.")
    splits: int = counter("Batches that were split because they were too large.")
    errors: int = counter("Batches that failed, or whose outcome is unknown.")
    failed_records: int = counter("Records in failed batches.")
    queue_us: int = counter("Microseconds from the first record of batches to their first request, summed.")
    waits: int = counter("Sends that waited for room in the buffer.")
