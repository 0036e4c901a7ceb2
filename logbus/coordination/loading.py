"""
How a shard comes back: its log is read, its groups are made, with turns for the reactor in between.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from logbus.coordination.replay import GroupMaker, Replay
from logbus.coordination.shard import Shard

GROUPS_A_TURN = 100
"""How many groups are dealt with before the reactor gets a turn."""

_log = Logger()


@define
class CoordinatorMetrics:
    """
    What happened so far.

    :ivar commits: offsets committed.
    :ivar expired: offsets forgotten for their age.
    :ivar loads: partitions read back; ``load_seconds`` is what that took, ``damaged`` how much was passed over.
    """

    commits: int = 0
    expired: int = 0
    loads: int = 0
    load_seconds: float = 0.0
    damaged: int = 0


async def load(
    shard: Shard,
    maker: GroupMaker,
    slice_bytes: int,
    clock: IReactorTime,
    metrics: CoordinatorMetrics,
    wanted: Callable[[], bool],
) -> bool:
    """
    Read a shard back.

    :param slice_bytes: how much is read at a time.
    :param wanted: asked at every turn; False calls it off.
    :return: whether it is all there.
    """
    began = clock.seconds()
    replay, end = Replay(shard, maker), shard.log.end_offset
    loaded = await shard.log.load(replay.take_in, slice_bytes, wanted, replay)
    metrics.damaged += loaded.skipped
    if not wanted():
        return False
    for producer_id in shard.drop_unended(end):
        _log.error(
            "{partition}: nothing is left to say how a transaction of producer {producer} ended; the offsets that it "
            "committed are dropped, and what was read in it will be read again",
            partition=shard.log.replica.topic_partition,
            producer=producer_id,
        )
    for made, _ in enumerate(replay.finish(), 1):
        if made % GROUPS_A_TURN == 0:
            await deferLater(clock, 0)
            if not wanted():
                return False
    seconds = clock.seconds() - began
    metrics.loads += 1
    metrics.load_seconds += seconds
    if loaded.records or loaded.skipped:
        _log.info(
            "{partition}: {groups} groups with {offsets} offsets are back, of {records} records, after {seconds:.3f} s",
            partition=shard.log.replica.topic_partition,
            groups=len(shard.groups),
            offsets=sum(map(len, shard.offsets.values())),
            records=loaded.records,
            seconds=seconds,
        )
    if replay.passed_over:
        _log.info(
            "{partition}: records of kinds that are not known here were passed over: {kinds}",
            partition=shard.log.replica.topic_partition,
            kinds=replay.passed_over,
        )
    return True
