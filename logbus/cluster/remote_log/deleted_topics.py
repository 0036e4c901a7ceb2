"""
Deletes the remote segments of topics that are gone.

That is up to the leader of the partition of ``__remote_log_metadata`` that has their states: the leaders of the topic's
own partitions are gone with it. What a crash leaves behind is found again there.

A topic that this broker has not known since its start may be one that the metadata of an older backup lack: its
segments are kept for as long as its logs (:mod:`logbus.storage.stray_logs`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

from attrs import define, field
from twisted.logger import Logger

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.remote_log.metadata_topic import RemoteLogMetadataTopic
from logbus.storage.remote.remote_log_segment import RemoteLogSegment

GRACE_SECONDS = 60.0
"""A topic must be unknown for so long: this broker may learn of a new one later than the metadata topic does."""


@define(eq=False)
class DeletedTopics:
    """
    The topics with remote segments that this broker does not know.

    :ivar unreadable: the topics that the controller cannot read: they may well exist.
    :ivar stray_seconds: for how long a topic must be unknown that was not known since the start; ``grace_seconds``: one
        that was, see :data:`GRACE_SECONDS`.
    """

    _metadata: ClusterMetadata
    _topic: RemoteLogMetadataTopic
    _seconds: Callable[[], float]
    unreadable: Callable[[], frozenset[str]]
    stray_seconds: float
    grace_seconds: float = GRACE_SECONDS
    _unknown_since: dict[UUID, float] = field(factory=dict, init=False)
    _log = Logger()

    async def delete(self, delete_one: Callable[[RemoteLogSegment], Awaitable[None]]) -> None:
        """Delete the segments of topics that have been unknown for long enough."""
        now, seen = self._seconds(), set[UUID]()
        for number in self._topic.led():
            await self._topic.caught_up(number)
            for topic_id, partition, index in self._topic.indexes(number):
                if self._metadata.topic_by_id(topic_id) is not None:
                    continue
                seen.add(topic_id)
                # As they are now: while those of another partition were deleted, others may have deleted these.
                segments = list(index)
                if not segments:
                    continue
                since = self._unknown_since.setdefault(topic_id, now)
                grace = self.grace_seconds if self._metadata.was_removed(topic_id) else self.stray_seconds
                if now - since < grace or segments[0].partition.topic in self.unreadable():
                    continue
                self._log.info(
                    "{topic}-{partition} was deleted: {count} segments are deleted from remote storage",
                    topic=segments[0].partition.topic, partition=partition, count=len(segments),
                )  # fmt: skip
                for segment in segments:
                    await delete_one(segment)
        unknown = {one for one in self._topic.topic_ids() if self._metadata.topic_by_id(one) is None}
        seen |= unknown
        self._topic.forget_empty(
            {one for one in unknown if now - self._unknown_since.setdefault(one, now) >= self.grace_seconds}
        )
        for topic_id in self._unknown_since.keys() - seen:
            del self._unknown_since[topic_id]
