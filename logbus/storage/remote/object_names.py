"""
Names of objects in remote storage. Pure.

``<topic>-<partition>-<topic id>/<start offset>-<segment id><suffix>``, with the suffixes of the local files. The object
of the records is written last, so that listing shows no segment without its indexes.
"""

from __future__ import annotations

from uuid import UUID

from logbus.model import TopicPartition
from logbus.storage.remote.remote_log_segment import RemoteLogSegment

LOG, CHUNKS = ".log", ".chunks"
OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX = ".index", ".timeindex", ".txnindex"
SNAPSHOT, LEADER_EPOCHS = ".snapshot", ".leader-epochs"

ALL = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT, LEADER_EPOCHS, CHUNKS, LOG)
"""The suffixes of a segment's objects, in the order in which they are written."""


def directory(partition: TopicPartition, topic_id: UUID) -> str:
    """The directory of a partition's objects."""
    return f"{partition}-{topic_id}"


def name_of(segment: RemoteLogSegment, suffix: str) -> str:
    """The name of one of a segment's objects."""
    where = directory(segment.partition, segment.topic_id)
    return f"{where}/{segment.start_offset:020}-{segment.segment_id}{suffix}"


def segment_id_of(name: str) -> UUID | None:
    """The segment whose object has a name, without its directory; None: it is no segment's."""
    stem = name.partition(".")[0]
    start, _, segment_id = stem.partition("-")
    try:
        return UUID(segment_id) if start.isdigit() else None
    except ValueError:
        return None
