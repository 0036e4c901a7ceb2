"""
The marker of a clean shutdown, by which the next start opens logs without reading them.

It lists every log with its segments and leader epochs, so that 10,000 logs are opened in a fraction of a second. It is
used log by log, if file names and sizes still match, and is removed before anything is written.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from twisted.logger import Logger

from logbus.model import NO_EPOCH
from logbus.storage import checkpoints
from logbus.storage.istorage import IDisk, IOPool
from logbus.storage.leader_epoch_cache import LeaderEpochCache
from logbus.storage.leader_epoch_loader import load_leader_epochs
from logbus.storage.log import Log
from logbus.storage.segments.segment import Segment

_log = Logger()


def entry_of(log: Log) -> dict[str, Any]:
    """Return what the marker says of a log that is synced and closed."""
    producers = log.producers_in_memory
    return {
        "id": log.topic_id.hex if log.topic_id else None,
        "start": log.log_start_offset,
        "end": log.log_end_offset,
        "producers": log.has_producers if producers is None else len(producers) > 0,
        "epochs": list(log.epochs),
        "epochs_saved": log.epochs.saved,
        "modified": log.disk.modified_ns(log.directory),
        "segments": [
            [s.base_offset, s.size, s.created_ms, s.first_timestamp, s.max_timestamp, s.max_timestamp_offset]
            for s in log.segments
        ],
    }


async def take_marker(disk: IDisk) -> dict[str, Any] | None:
    """Read and durably remove the marker. Returns its entries; None without a marker."""
    try:
        data = disk.read(checkpoints.CLEAN_SHUTDOWN)
    except FileNotFoundError:
        return None
    await disk.submit(IOPool.BACKGROUND, _remove_for_good, disk, checkpoints.CLEAN_SHUTDOWN)
    try:
        return checkpoints.decode_marker(data)
    except (ValueError, KeyError, TypeError) as problem:
        _log.warn("{root}: marker of a clean shutdown ignored: {problem}", root=disk.root, problem=str(problem))
        return None


def restore(log: Log, entry: Mapping[str, Any], checkpointed_start: int | None) -> bool:
    """
    Open a log as its entry describes it; False if the disk does not match.

    :param checkpointed_start: the log's start offset in the checkpoint, if it has one.
    """
    disk, directory = log.disk, log.directory
    if disk.modified_ns(directory) != entry["modified"]:
        return False
    segments = []
    for base, size, created, first, latest, latest_offset in entry["segments"]:
        segment = Segment(disk, log.files, directory, base, created)
        try:
            if disk.size(segment.log.path) != size:
                return False
        except FileNotFoundError:
            return False
        segment.size = size
        segment.first_timestamp = first
        segment.max_timestamp, segment.max_timestamp_offset = latest, latest_offset
        segments.append(segment)
    start, end = entry["start"], entry["end"]
    if "epochs" in entry:
        log.epochs = LeaderEpochCache(entry["epochs"])
        log.epochs.saved = entry["epochs_saved"]
    else:
        # An older release wrote the marker.
        first = start if checkpointed_start is None else min(start, checkpointed_start)
        log.epochs = load_leader_epochs(disk, directory, first, end)
        if log.epochs.latest == NO_EPOCH and end > start:
            # Where this log and another replica's diverge can only be found by leader epochs; recovery finds these.
            return False
    log.topic_id = uuid.UUID(entry["id"]) if entry["id"] else None
    log.has_producers = entry["producers"]
    log.restored(tuple(segments), start, end, end)
    return True


def _remove_for_good(disk: IDisk, path: str) -> None:
    """Runs in an I/O thread."""
    disk.unlink(path)
    disk.sync_directory("")
