"""
Reads from remote storage with which state a follower begins behind a remote segment (Kafka: RemoteLogManager and
TierStateMachine.buildRemoteLogAuxState).
"""

from __future__ import annotations

from functools import partial

from logbus.cluster.remote_log.remote_log_task import RemoteTools
from logbus.cluster.replication.replica import Replica
from logbus.errors import ApiError, ErrorCode
from logbus.model import OffsetAndEpoch
from logbus.storage.auxiliary_state import AuxiliaryState
from logbus.storage.leader_epoch_cache import LeaderEpochCache
from logbus.storage.remote import object_names
from logbus.storage.remote.iremote_storage import ObjectCorrupt, ObjectMissing, RemoteStorage
from logbus.storage.remote.remote_log_segment import RemoteLogSegment, epochs_between


async def remote_state(
    tools: RemoteTools, replica: Replica, last: OffsetAndEpoch, log_start_offset: int
) -> AuxiliaryState:
    """
    The state behind the remote segment that has the record ``last``.

    :param log_start_offset: of the log.
    :raise RemoteStorageError: the store cannot be read.
    :raise ApiError: the metadata topic is not available, or knows no such segment.
    """
    number = replica.topic_partition.partition
    await tools.topic.loaded(replica.topic_id, number)
    segment = tools.topic.index(replica.topic_id, number).segment_at(last.offset, last.epoch)
    if segment is None:
        raise ApiError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"remote storage has no segment with offset {last.offset} in leader epoch {last.epoch}",
        )
    state: AuxiliaryState = await tools.run(partial(_read, tools.storage, segment, log_start_offset))
    return state


def _read(storage: RemoteStorage, segment: RemoteLogSegment, log_start_offset: int) -> AuxiliaryState:
    """Runs in a thread."""
    name = object_names.name_of(segment, object_names.LEADER_EPOCHS)
    try:
        epochs = LeaderEpochCache.decode(storage.read(name))
    except ValueError as problem:
        raise ObjectCorrupt(f"{storage.where}/{name} is damaged: {problem}") from problem
    try:
        snapshot = storage.read(object_names.name_of(segment, object_names.SNAPSHOT))
    except ObjectMissing:
        snapshot = None
    end = segment.end_offset
    return AuxiliaryState(end, log_start_offset, epochs_between(epochs, log_start_offset, end), snapshot)
