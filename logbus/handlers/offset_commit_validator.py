"""
Validates the partitions and metadata of offset commits, and resolves topic names and ids.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from attrs import define

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.config import ConfigView, keys
from logbus.errors import ErrorCode
from logbus.model import TopicPartition
from logbus.wire.schema import ZERO_UUID

#: Limit of the metadata in the record of a committed offset, in bytes.
MAX_METADATA = 32767
#: The first version of OffsetCommit, and of OffsetFetch, that names topics by their ids (KIP-848).
TOPIC_ID_VERSION = 10


class RequestedTopic(Protocol):
    """A topic in a request, by name or, from :data:`TOPIC_ID_VERSION` on, by id."""

    @property
    def name(self) -> str:
        """Empty if it is by id."""

    @property
    def topic_id(self) -> bytes:
        """Zeros if it is by name."""


@define(eq=False)
class OffsetCommitValidator:
    """Checks commits against the cluster's topics and the broker's limits."""

    _metadata: ClusterMetadata
    _config: ConfigView

    def problem(self, partition: TopicPartition, metadata: str | None) -> ErrorCode:
        """The error of a commit: NONE, UNKNOWN_TOPIC_OR_PARTITION or OFFSET_METADATA_TOO_LARGE."""
        if not self.exists(partition):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        most = min(self._config.get(keys.OFFSET_METADATA_MAX_BYTES), MAX_METADATA)
        return ErrorCode.OFFSET_METADATA_TOO_LARGE if len((metadata or "").encode()) > most else ErrorCode.NONE

    def exists(self, partition: TopicPartition) -> bool:
        """Whether a partition exists."""
        return self._metadata.partition(partition) is not None

    def name_of(self, topic: RequestedTopic, version: int) -> str | None:
        """The name of a topic in a request of that version; None: its id is unknown."""
        if version < TOPIC_ID_VERSION:
            return topic.name
        found = self._metadata.topic_by_id(UUID(bytes=bytes(topic.topic_id)))
        return None if found is None else found.name

    def id_of(self, name: str) -> bytes:
        """The id of a topic; zeros if it does not exist."""
        found = self._metadata.topic(name)
        return ZERO_UUID if found is None else found.topic_id.bytes
