"""The interface through which a consumer group looks up the cluster's topics (Kafka: CoordinatorMetadataImage)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

from logbus.coordination.consumer.partition_sets import TopicId


class Topic(NamedTuple):
    """The properties of a topic that assignments depend on."""

    topic_id: TopicId
    partitions: int


class TopicsView(Protocol):
    """
    The topics of the cluster. The results do not change while :attr:`version` does not.
    """

    @property
    def version(self) -> int:
        """Grows when topics are created, deleted, or get more partitions."""

    def topic(self, name: str) -> Topic | None:
        """The topic with a name, if it exists."""

    def name(self, topic_id: TopicId) -> str | None:
        """The name of the topic with an id, if it exists."""

    def names(self) -> Collection[str]:
        """The names of all topics."""
