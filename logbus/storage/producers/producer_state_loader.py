"""Loads a log's producer state: a snapshot, and the batches after it (Kafka: UnifiedLog.rebuildProducerState)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twisted.logger import Logger

from logbus.errors import DecodeError
from logbus.records.batch import BatchHeader, Marker, read_marker
from logbus.storage.istorage import IDisk
from logbus.storage.producers.producer_snapshot import SnapshotCorrupt, decode_snapshot, snapshot_offsets, snapshot_path
from logbus.storage.producers.producer_state_manager import ProducerStateManager
from logbus.storage.segments.segment import Segment
from logbus.storage.segments.transaction_index import AbortedTransaction

_log = Logger()


def latest_snapshot(
    disk: IDisk, directory: str, first_offset: int, end_offset: int, *, keeps: bool = False
) -> ProducerStateManager:
    """
    The latest valid producer snapshot at or below ``end_offset``; without one, no producers as of ``first_offset``.

    :param keeps: for looking back: snapshots that are damaged or above the end are not removed, as they are otherwise.
    """
    for offset in reversed(snapshot_offsets(disk, directory)):
        path = snapshot_path(directory, offset)
        if offset <= end_offset:
            try:
                return decode_snapshot(disk.read(path), offset)
            except SnapshotCorrupt as problem:
                _log.warn("{root}/{path} is not used: {problem}", root=disk.root, path=path, problem=str(problem))
        if not keeps:
            disk.unlink(path)
    return ProducerStateManager(first_offset)


def load_producer_state(
    disk: IDisk, directory: str, segments: Sequence[Segment], end_offset: int
) -> ProducerStateManager:
    """
    The producer state as of ``end_offset``: the latest snapshot, brought up to date from the batch headers after it.
    """
    producers = latest_snapshot(disk, directory, segments[0].base_offset, end_offset)
    for _ in replay_batches(segments, producers, end_offset):
        pass
    return producers


def replay_batches(
    segments: Sequence[Segment], producers: ProducerStateManager, end_offset: int
) -> Iterator[AbortedTransaction]:
    """
    Apply the batch headers below ``end_offset`` to the producer state; yields the transactions that they abort.

    :raises StorageError: the log is damaged.
    """
    return (aborted for aborted in replay_each(segments, producers, end_offset) if aborted is not None)


def replay_each(
    segments: Sequence[Segment], producers: ProducerStateManager, end_offset: int
) -> Iterator[AbortedTransaction | None]:
    """
    As :func:`replay_batches`, but yields after each batch. Who stops then, or after :class:`.NotCached`, goes on with
    another call: what was applied is in ``producers.end_offset``.
    """
    for i, segment in enumerate(segments):
        # What is behind the end is not read, though there may be more segments.
        after = min(segments[i + 1].base_offset, end_offset) if i + 1 < len(segments) else end_offset
        if after <= producers.end_offset:
            continue
        for position, header in segment.batches(segment.find(producers.end_offset)):
            aborted = producers.appended(header, header.base_offset, _marker_at(segment, position, header))
            producers.end_offset = header.next_offset
            yield aborted
            if header.next_offset >= after:
                break
    producers.end_offset = end_offset


def _marker_at(segment: Segment, position: int, header: BatchHeader) -> Marker | None:
    if not header.control:
        return None
    try:
        return read_marker(segment.log.get().pread(header.size, position), 0, header)
    except DecodeError as problem:
        raise segment.damaged(position, str(problem)) from problem
