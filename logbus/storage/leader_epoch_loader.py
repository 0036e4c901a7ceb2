"""Loads a log's leader epochs, from their checkpoint or from the batch headers (Kafka: LogLoader)."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.logger import Logger

from logbus.storage import file_names
from logbus.storage.istorage import IDisk
from logbus.storage.leader_epoch_cache import LeaderEpochCache
from logbus.storage.segments.segment import Segment

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


def rebuild_epochs(segments: Sequence[Segment]) -> LeaderEpochCache:
    """Rebuild the leader epochs from the batch headers. Slow for a large log."""
    epochs = LeaderEpochCache()
    for segment in segments:
        for _, header in segment.batches(0):
            if header.leader_epoch != epochs.latest:
                epochs.assign(header.leader_epoch, header.base_offset)
    return epochs
