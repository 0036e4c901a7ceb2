"""
Where a share group begins in a partition (``share.auto.offset.reset``).
"""

from __future__ import annotations

from logbus.cluster.replication.replica import Replica
from logbus.config.offset_reset import EARLIEST, LATEST, OffsetReset
from logbus.net.time_slices import TimeSlice
from logbus.storage.offset_lookup import UNITS_PER_STEP, offset_for_timestamp


async def initial_offset(replica: Replica, reset: OffsetReset, now_ms: int, time_slice: TimeSlice) -> int:
    """
    The first offset that a group reads of a partition, which this broker leads.

    :raise ApiError: OFFSET_NOT_AVAILABLE: a new leader does not know yet how far former ones had committed.
    """
    if reset.strategy == EARLIEST:
        return replica.log.log_start_offset
    end = replica.high_watermark
    if reset.strategy != LATEST:
        search = offset_for_timestamp(replica.log, now_ms - reset.duration_ms)
        found = await time_slice.finish(search, UNITS_PER_STEP)
        if found is not None and found.offset < end:
            return found.offset
    replica.partition.check_caught_up()
    return end
