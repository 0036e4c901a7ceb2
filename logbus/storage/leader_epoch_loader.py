"""Loads a log's leader epochs, from their checkpoint or from the batch headers (Kafka: LogLoader)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias

from twisted.logger import Logger

from logbus.errors import StorageError
from logbus.storage import file_names
from logbus.storage.istorage import IDisk, IOPool
from logbus.storage.leader_epoch_cache import LeaderEpochCache
from logbus.storage.segments.header_scan import CanPread, scan_headers
from logbus.storage.segments.segment import Segment

EpochEntry: TypeAlias = tuple[int, int]
"""A leader epoch, and its first offset."""

_log = Logger()


def load_leader_epochs(disk: IDisk, directory: str, start_offset: int, end_offset: int) -> LeaderEpochCache:
    """
    Read the leader epoch checkpoint, limited to the offsets from ``start_offset`` to ``end_offset``.

    A damaged file counts as empty: later batches add their epochs again.
    """
    path = f"{directory}/{file_names.EPOCHS}"
    try:
        epochs = LeaderEpochCache.decode(disk.read(path))
    except FileNotFoundError:
        return LeaderEpochCache()
    except ValueError as problem:
        _log.warn("{root}/{path} is damaged and ignored: {problem}", root=disk.root, path=path, problem=str(problem))
        return LeaderEpochCache()
    epochs.truncate_end(end_offset)
    epochs.truncate_start(start_offset)
    return epochs


async def rebuild_epochs(disk: IDisk, segments: Sequence[Segment]) -> LeaderEpochCache:
    """
    Rebuild the leader epochs from the batch headers, in a thread: slow for a large log. Of a damaged segment the epochs
    before the damage count.

    :raises StorageError: the disk cannot be read; it is offline.
    """
    epochs = LeaderEpochCache()
    for segment in segments:
        found: list[EpochEntry] = []
        await disk.submit(IOPool.READ, _find_epochs, segment.log.get(), segment.size, found)
        for epoch, offset in found:
            if epoch != epochs.latest:
                epochs.assign(epoch, offset)
    return epochs


class _Damaged(StorageError):
    """There is no batch. It ends in the thread: a disk whose threads raise StorageError is offline."""


def _find_epochs(file: CanPread, size: int, found: list[EpochEntry]) -> None:
    """
    Find each batch of a segment whose epoch differs from that of the batch before: its epoch, and its offset. Ends at
    the first damage.
    """
    latest = None
    with suppress(_Damaged):
        for _, header in scan_headers(file, 0, size, lambda position, problem: _Damaged(problem)):
            if header.leader_epoch != latest:
                latest = header.leader_epoch
                found.append((latest, header.base_offset))
