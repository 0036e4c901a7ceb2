"""
The state of a log about the records below its first local one, which only remote storage has: their leader epochs, and
the state of their producers (KIP-405; Kafka: TierStateMachine).
"""

from __future__ import annotations

from attrs import frozen

from logbus.storage import file_names
from logbus.storage.istorage import IDisk
from logbus.storage.leader_epoch_cache import LeaderEpochCache
from logbus.storage.log import Log
from logbus.storage.producers.producer_snapshot import decode_snapshot, snapshot_path
from logbus.storage.remote.remote_log_segment import EpochStarts, epochs_between
from logbus.storage.truncation import truncate_fully


@frozen
class AuxiliaryState:
    """
    The state of a log below an offset.

    :ivar offset: the local part of the log begins here.
    :ivar log_start_offset: the log begins here.
    :ivar epochs: the leader epochs below ``offset``.
    :ivar snapshot: of the producers, as in ``<offset>.snapshot``; None: there were none, or they are not known.
    """

    offset: int
    log_start_offset: int
    epochs: EpochStarts
    snapshot: bytes | None = None


def state_of(log: Log) -> AuxiliaryState:
    """The state of a log below its first local record. Reads a small file."""
    offset, snapshot = log.local_start_offset, None
    if log.segments[0].base_offset == offset:
        try:
            snapshot = log.disk.read(snapshot_path(log.directory, offset))
        except FileNotFoundError:
            pass
    epochs = epochs_between(log.epochs, log.log_start_offset, offset)
    return AuxiliaryState(offset, log.log_start_offset, epochs, snapshot)


def write_files(disk: IDisk, directory: str, state: AuxiliaryState, *, is_synced: bool) -> None:
    """Write the small files of a state into a log's directory. Blocks."""
    if state.epochs:
        disk.replace(f"{directory}/{file_names.EPOCHS}", LeaderEpochCache(state.epochs).encode(), is_synced)
    if state.snapshot is not None:
        disk.replace(snapshot_path(directory, state.offset), state.snapshot, is_synced)


def begin_with(log: Log, state: AuxiliaryState) -> None:
    """
    Drop all local records of a log, and continue behind ``state``, whose files are there. The next flush makes that
    durable, except for the log start offset, which is in a checkpoint of the log's directory.

    :raise SnapshotCorrupt: the producers' state is damaged; the log is as it was.
    :raise ApiError: there is no space for a new file.
    """
    producers = None if state.snapshot is None else decode_snapshot(state.snapshot, state.offset)
    if log.log_end_offset != state.offset or log.segments[0].base_offset != state.offset or log.size:
        truncate_fully(log, state.offset)
    if producers is not None:
        log.producers = producers
    log.log_start_offset = state.log_start_offset
    log.epochs = LeaderEpochCache(state.epochs)
    log.epochs.saved = not state.epochs
