"""
A future log: the copy of a log in another directory, which follows it until it takes its place.

It stands to the current log as a follower's does to its leader's.
"""

from __future__ import annotations

from attrs import evolve

from logbus.model import NO_EPOCH
from logbus.storage.auxiliary_state import begin_with, state_of, write_files
from logbus.storage.istorage import IDisk
from logbus.storage.log import Log
from logbus.storage.log_directory import plugin_files
from logbus.storage.segments.segment import Segment
from logbus.storage.truncation import truncate_to


def future_of(current: Log, disk: IDisk, directory: str) -> Log:
    """
    Create the future log of a log, which begins where the other's local part does.

    :param directory: of the copy, on ``disk``.
    :raise StorageError: the disk failed.
    """
    future = Log(
        current.partition,
        disk,
        directory,
        config=current.config,
        settings=current.settings,
        files=current.files,
        wall_clock=current.wall_clock,
        jitter=current.jitter,
        topic_id=current.topic_id,
    )
    # Of a log with remote storage only what is on the disk is copied: the store has the rest.
    future.create(current.local_start_offset)
    _begin(current, future)
    return future


def align(current: Log, future: Log) -> bool:
    """
    Truncate a future log to what the current one has, as a follower does with its leader's, and move its start.

    :return: whether something was truncated.
    """
    if future.log_end_offset < current.local_start_offset:
        # Retention was faster than the copy.
        _begin(current, future)
        return True
    future.advance_start(current.log_start_offset)
    common = min(future.log_end_offset, current.log_end_offset)
    epoch = future.epochs.latest
    if epoch != NO_EPOCH:
        there = current.end_offset_for_epoch(epoch)
        common = min(common, max(there.offset, 0))
        if there.epoch != epoch:
            common = min(common, max(future.epochs.end_offset_for(there.epoch, future.log_end_offset).offset, 0))
    if common >= future.log_end_offset:
        return False
    if common < future.segments[0].base_offset:
        _begin(current, future)
    else:
        truncate_to(future, common)
    return True


def copy_small_files(current: Log, future: Log) -> None:
    """Runs in an I/O thread: copies plugins' files, and syncs what the future log began with."""
    write_files(future.disk, future.directory, evolve(state_of(future), epochs=()), is_synced=True)
    for name, data in plugin_files(current).items():
        future.disk.replace(f"{future.directory}/{name}", data)


def take_over(log: Log, current: Log, future: Log) -> None:
    """
    Give a new log the segments and the state of a future log, which is complete and closed, and all that only the
    current one has.

    :param log: of the partition, in the directory that the future log's was renamed to.
    """
    segments = []
    for old in future.segments:
        segment = Segment(future.disk, future.files, log.directory, old.base_offset, old.created_ms)
        segment.size, segment.first_timestamp = old.size, old.first_timestamp
        segment.max_timestamp, segment.max_timestamp_offset = old.max_timestamp, old.max_timestamp_offset
        segments.append(segment)
    log.config, log.topic_id, log.topic_id_saved = current.config, future.topic_id, future.topic_id_saved
    log.restored(tuple(segments), future.log_start_offset, future.log_end_offset, future.flushed_end_offset)
    if current.config.remote_storage_enable:
        # It begins in remote storage, which has been checkpointed.
        log.log_start_offset, log.is_start_saved, log.remote = future.log_start_offset, True, current.remote
    log.saved_start_offset = current.saved_start_offset
    log.epochs, log.producers = future.epochs, future.producers
    log.high_watermark, log.leader_epoch = current.high_watermark, current.leader_epoch


def _begin(current: Log, future: Log) -> None:
    """Begin a future log where the local part of the current one does."""
    state = state_of(current)
    write_files(future.disk, future.directory, state, is_synced=False)
    begin_with(future, state)
