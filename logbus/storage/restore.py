"""
What a log remembers beside its records (leader epochs, producers), read back from disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twisted.logger import Logger

from logbus.errors import DecodeError
from logbus.records.batch import BatchHeader, Marker
from logbus.storage import names
from logbus.storage.aborted import AbortedTransaction
from logbus.storage.epochs import EpochHistory
from logbus.storage.istorage import IDisk
from logbus.storage.marking import marker_in
from logbus.storage.producers import Producers
from logbus.storage.segment import Segment
from logbus.storage.snapshots import SnapshotCorrupt, decode_snapshot, snapshot_offsets, snapshot_path

_log = Logger()


def load_epochs(disk: IDisk, directory: str, start_offset: int, end_offset: int) -> EpochHistory:
    """
    The epoch history on disk, as far as it concerns the offsets from ``start_offset`` to ``end_offset``.

    A damaged file counts as empty: the epochs of later batches are learnt from the batches.
    """
    path = f"{directory}/{names.EPOCHS}"
    try:
        epochs = EpochHistory.decode(disk.read(path))
    except FileNotFoundError:
        return EpochHistory()
    except ValueError as problem:
        _log.warn("{root}/{path} is damaged and ignored: {problem}", root=disk.root, path=path, problem=str(problem))
        return EpochHistory()
    epochs.truncate_end(end_offset)
    epochs.truncate_start(start_offset)
    return epochs


def relearn_epochs(segments: Sequence[Segment]) -> EpochHistory:
    """The epoch history as the batches have it: each header is looked at, which takes long in a large log."""
    epochs = EpochHistory()
    for segment in segments:
        for _, header in segment.batches(0):
            if header.leader_epoch != epochs.latest:
                epochs.assign(header.leader_epoch, header.base_offset)
    return epochs


def latest_snapshot(disk: IDisk, directory: str, first_offset: int, end_offset: int) -> Producers:
    """
    The latest valid snapshot at or below ``end_offset``; no producers, as of the log's first offset, if there is none.

    What is damaged, or lies above the end, is of no use to anybody and is removed.
    """
    for offset in reversed(snapshot_offsets(disk, directory)):
        path = snapshot_path(directory, offset)
        if offset <= end_offset:
            try:
                return decode_snapshot(disk.read(path), offset)
            except SnapshotCorrupt as problem:
                _log.warn("{root}/{path} is not used: {problem}", root=disk.root, path=path, problem=str(problem))
        disk.unlink(path)
    return Producers(first_offset)


def earlier_snapshot(disk: IDisk, directory: str, first_offset: int, end_offset: int) -> Producers:
    """As :func:`latest_snapshot`, for a look back: nothing is removed."""
    for offset in reversed(snapshot_offsets(disk, directory)):
        if offset <= end_offset:
            try:
                return decode_snapshot(disk.read(snapshot_path(directory, offset)), offset)
            except SnapshotCorrupt:
                continue
    return Producers(first_offset)


def load_producers(disk: IDisk, directory: str, segments: Sequence[Segment], end_offset: int) -> Producers:
    """
    The producers as of ``end_offset``: the latest snapshot, and the headers of the batches after it.
    """
    producers = latest_snapshot(disk, directory, segments[0].base_offset, end_offset)
    for _ in walk(segments, producers, end_offset):
        pass
    return producers


def walk(segments: Sequence[Segment], producers: Producers, end_offset: int) -> Iterator[AbortedTransaction]:
    """
    Bring producers up to date with the batches below an offset, and give the transactions that were aborted meanwhile.

    :raises StorageError: what is there is no batch.
    """
    for i, segment in enumerate(segments):
        after = segments[i + 1].base_offset if i + 1 < len(segments) else end_offset
        if after <= producers.end_offset:
            continue
        for position, header in segment.batches(segment.find(producers.end_offset)):
            aborted = producers.appended(header, header.base_offset, _marker_at(segment, position, header))
            producers.end_offset = header.next_offset
            if aborted is not None:
                yield aborted
            if header.next_offset >= after:
                break
    producers.end_offset = end_offset


def _marker_at(segment: Segment, position: int, header: BatchHeader) -> Marker | None:
    if not header.control:
        return None
    try:
        return marker_in(segment.log.get().pread(header.size, position), 0, header)
    except DecodeError as problem:
        raise segment.damaged(position, str(problem)) from problem
