"""
Loads a shard: reads its log and restores its groups, in slices between which the reactor runs (Kafka:
CoordinatorLoader).
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from logbus.coordination.group_replay import GroupMaker, GroupReplay
from logbus.coordination.group_shard import GroupShard
from logbus.metrics import metric
from logbus.net.time_slices import TimeSlice

GROUPS_A_TURN = 100
"""Number of groups handled before the reactor gets a turn."""

_log = Logger()


@define
class GroupCoordinatorMetrics:
    """
    Counters of the group coordinator.

    :ivar commits: offsets committed.
    :ivar expired: offsets that have expired.
    :ivar loads: partitions loaded, in ``load_seconds`` in all; ``damaged`` places were skipped.
    """

    commits: int = metric("logbus_offset_commits_total", "Offsets committed.")
    expired: int = metric("logbus_offsets_expired_total", "Expired committed offsets.")
    loads: int = metric("logbus_group_loads_total", "Loaded partitions of __consumer_offsets.")
    load_seconds: float = metric(
        "logbus_group_load_seconds_total", "Time spent loading partitions of __consumer_offsets."
    )
    damaged: int = metric(
        "logbus_group_records_damaged_total", "Damaged records skipped while loading __consumer_offsets."
    )


async def load(
    shard: GroupShard,
    maker: GroupMaker,
    slice_bytes: int,
    clock: IReactorTime,
    metrics: GroupCoordinatorMetrics,
    wanted: Callable[[], bool],
) -> bool:
    """
    Load a shard.

    :param slice_bytes: how much is read at a time.
    :param wanted: called at every turn; False cancels the load.
    :return: whether the load is complete.
    """
    began = clock.seconds()
    replay, end = GroupReplay(shard, maker), shard.log.end_offset
    loaded = await shard.log.load(replay.replay, slice_bytes, wanted, replay)
    metrics.damaged += loaded.skipped
    if not wanted():
        return False
    for producer_id in shard.drop_orphaned(end):
        _log.error(
            "{partition}: the marker of a transaction of producer {producer} is lost; its committed offsets are "
            "dropped, and the records that it read will be read again",
            partition=shard.log.replica.topic_partition,
            producer=producer_id,
        )
    for made, _ in enumerate(replay.finish(), 1):
        if made % GROUPS_A_TURN == 0:
            await TimeSlice(shard.log.slices).next()
            if not wanted():
                return False
    seconds = clock.seconds() - began
    metrics.loads += 1
    metrics.load_seconds += seconds
    if loaded.records or loaded.skipped:
        _log.info(
            "{partition}: loaded {groups} groups with {offsets} offsets from {records} records in {seconds:.3f} s",
            partition=shard.log.replica.topic_partition,
            groups=len(shard.groups),
            offsets=sum(map(len, shard.offsets.values())),
            records=loaded.records,
            seconds=seconds,
        )
    if replay.skipped:
        _log.info(
            "{partition}: records with unknown key versions were skipped: {kinds}",
            partition=shard.log.replica.topic_partition,
            kinds=replay.skipped,
        )
    return True
