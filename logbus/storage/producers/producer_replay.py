"""
Finds a log's producers as of an offset while the log is in use: a snapshot is read in a thread, and the batches behind
it a few milliseconds at a time: of a large segment that takes a part of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from twisted.internet.interfaces import IReactorTime

from logbus.coroutines import sleep
from logbus.storage.filesystem.cached_only import CachedOnly
from logbus.storage.istorage import IDisk, IOPool, NotCached
from logbus.storage.producers.producer_state_loader import latest_snapshot, replay_each
from logbus.storage.producers.producer_state_manager import ProducerStateManager
from logbus.storage.segments.segment import Segment
from logbus.storage.throttler import SLICE_SECONDS

_LOADED_BYTES = 1 << 20
"""Of a segment, when headers of its batches are not in the page cache."""


async def producers_as_of(
    disk: IDisk,
    directory: str,
    segments: Callable[[], Sequence[Segment]],
    end_offset: int,
    clock: IReactorTime,
    *,
    keeps: bool = False,
    is_wanted: Callable[[], bool] = lambda: True,
) -> ProducerStateManager:
    """
    The producers as of an offset.

    :param segments: the log's, asked again for each slice.
    :param clock: ends slices of work.
    :param keeps: as of :func:`.latest_snapshot`.
    :param is_wanted: asked before each slice; once it is not, what there is so far is returned.
    :raise StorageError: the disk failed, or the log is damaged.
    """
    begun = clock.seconds()
    first = segments()[0].base_offset
    producers: ProducerStateManager = await disk.submit(
        IOPool.BACKGROUND, partial(latest_snapshot, disk, directory, first, end_offset, keeps=keeps)
    )
    while producers.end_offset < end_offset and is_wanted():
        cold: NotCached | None = None
        try:
            with CachedOnly(disk):
                for _ in replay_each(segments(), producers, end_offset):
                    if clock.seconds() - begun > SLICE_SECONDS:
                        break
        except NotCached as missing:
            cold = missing
        if cold is not None:
            await cold.file.load(cold.position, max(cold.length, _LOADED_BYTES))
        elif producers.end_offset < end_offset:
            await sleep(clock, 0)
        begun = clock.seconds()
    return producers
