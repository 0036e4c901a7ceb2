"""
Loads a shard of share partitions from its log, and waits until everything read is durable (Kafka: CoordinatorLoader).
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.internet.task import deferLater
from twisted.logger import Logger

from logbus.coordination.share_state.share_state_records import decode_record
from logbus.coordination.share_state.share_state_shard import ShareStateShard
from logbus.errors import ApiError
from logbus.metrics import metric

RETRY_SECONDS = 0.5
"""Delay before durability is checked again."""

_log = Logger()


@define
class ShareCoordinatorMetrics:
    """
    Counters of the share coordinator.

    :ivar writes: records of states that were written, ``snapshots`` of them with the whole state.
    :ivar pruned: deletions of records that were not needed any more.
    :ivar loads: partitions loaded, in ``load_seconds`` in all; ``damaged`` places were skipped.
    """

    writes: int = metric("logbus_share_state_writes_total", "Records written to __share_group_state.")
    snapshots: int = metric("logbus_share_state_snapshots_total", "Of these, records with a whole state.")
    pruned: int = metric(
        "logbus_share_state_prunes_total", "Deletions of records in __share_group_state that were not needed any more."
    )
    loads: int = metric("logbus_share_state_loads_total", "Loaded partitions of __share_group_state.")
    load_seconds: float = metric(
        "logbus_share_state_load_seconds_total", "Time spent loading partitions of __share_group_state."
    )
    damaged: int = metric(
        "logbus_share_state_records_damaged_total", "Damaged records skipped while loading __share_group_state."
    )


async def load(
    shard: ShareStateShard, slice_bytes: int, metrics: ShareCoordinatorMetrics, wanted: Callable[[], bool]
) -> bool:
    """
    Load a shard.

    :param slice_bytes: how much is read at a time.
    :param wanted: called at every turn; False cancels the load.
    :return: whether the load is complete.
    """
    log = shard.log
    began = log.clock.seconds()
    # Offsets of records are not known here: nothing is pruned before a state has another snapshot.
    start = log.replica.log.log_start_offset

    def apply(key: bytes | None, value: bytes | None) -> None:
        share_partition, record = decode_record(key, value)
        if record is None:
            shard.entries.pop(share_partition, None)
        else:
            shard.apply(share_partition, record, start)

    loaded = await log.load(apply, slice_bytes, wanted)
    metrics.damaged += loaded.skipped
    # A former leader may have written records that are not on all in-sync replicas yet. A state that is lost later must
    # not be read.
    while wanted():
        try:
            await log.durable()
            break
        except ApiError as e:
            _log.warn("{partition}: the load waits for durability: {why}", partition=log.replica.topic_partition, why=e)
            await deferLater(log.clock, RETRY_SECONDS)
    if not wanted():
        return False
    seconds = log.clock.seconds() - began
    metrics.loads += 1
    metrics.load_seconds += seconds
    if loaded.records or loaded.skipped:
        _log.info(
            "{partition}: loaded the states of {count} share partitions from {records} records in {seconds:.3f} s",
            partition=log.replica.topic_partition,
            count=len(shard.entries),
            records=loaded.records,
            seconds=seconds,
        )
    return True
