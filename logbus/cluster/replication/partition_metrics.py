"""
Metrics of single partitions: seven or eight series each, so they are off by default (``admin.metrics.per.partition``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from logbus.cluster.replication.replica import Replica
from logbus.metrics import Family, Sample


def _last_stable_offset(replica: Replica) -> int | None:
    """Return None if the log's producer state is not in memory: a scrape must not read ten thousand files."""
    log = replica.log
    return None if log.has_producers and log.producers_in_memory is None else replica.last_stable_offset


SERIES: tuple[tuple[str, str, Callable[[Replica], int | None]], ...] = (
    ("log_start_offset", "First offset of the log.", lambda replica: replica.log.log_start_offset),
    ("log_end_offset", "Offset of the next record.", lambda replica: replica.log.log_end_offset),
    ("high_watermark", "First offset that readers do not see.", lambda replica: replica.high_watermark),
    (
        "last_stable_offset",
        "First offset that readers of committed records do not see.",
        _last_stable_offset,
    ),
    ("size_bytes", "Bytes of the log.", lambda replica: replica.log.size),
    (
        "cleaned_end_offset",
        "Offset up to which a compacted log was cleaned.",
        lambda replica: replica.log.cleaned_end_offset if replica.log.config.compacted else None,
    ),
    ("leader", "1 where this broker leads the partition.", lambda replica: int(replica.partition.is_leader)),
    (
        "in_sync_replicas",
        "Replicas in sync, as this broker was last told.",
        lambda replica: len(replica.partition.leader_and_isr.isr),
    ),
)


def partition_families(replicas: Callable[[], Iterable[Replica]]) -> Iterator[Family]:
    """
    Yield the families of the partitions on this broker.

    Samples are made from the current values while they are consumed: 10,000 partitions take many reactor turns.
    """
    for name, documentation, value in SERIES:
        full = f"logbus_partition_{name}"
        yield Family(full, documentation, "gauge", _samples(full, replicas(), value))


def _samples(name: str, replicas: Iterable[Replica], value: Callable[[Replica], int | None]) -> Iterator[Sample | None]:
    for replica in replicas:
        topic, partition = replica.topic_partition
        known = value(replica)
        yield None if known is None else Sample(name, (("topic", topic), ("partition", str(partition))), known)
