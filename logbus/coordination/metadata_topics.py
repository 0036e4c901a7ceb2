"""
The cluster's topics for groups of the consumer protocol, from the cluster's metadata.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from attrs import define, field

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.coordination.consumer.partition_sets import TopicId
from logbus.coordination.consumer.topics_view import Topic


@define(eq=False)
class MetadataTopics:
    """
    The topics in the metadata, with a version that changes only when topics or partition counts do: most changes of the
    metadata are leader elections, which do not matter to assignments.

    A change of the metadata costs one pass over all topics, however many groups there are.
    """

    _metadata: ClusterMetadata
    _seen: int = field(default=-1, init=False)
    _version: int = field(default=0, init=False)
    _topics: dict[str, Topic] = field(factory=dict, init=False)

    @property
    def version(self) -> int:
        """See :class:`.TopicsView`."""
        self._refresh()
        return self._version

    def topic(self, name: str) -> Topic | None:
        """See :class:`.TopicsView`."""
        self._refresh()
        return self._topics.get(name)

    def name(self, topic_id: TopicId) -> str | None:
        """See :class:`.TopicsView`."""
        image = self._metadata.topic_by_id(UUID(bytes=topic_id))
        return None if image is None else image.name

    def names(self) -> Collection[str]:
        """See :class:`.TopicsView`."""
        self._refresh()
        return self._topics.keys()

    def _refresh(self) -> None:
        if self._seen == self._metadata.version:
            return
        topics = {
            name: Topic(image.topic_id.bytes, len(image.partitions)) for name, image in self._metadata.topics.items()
        }
        if topics != self._topics:
            self._topics = topics
            self._version += 1
        self._seen = self._metadata.version
