"""What a group asks about the topics of the cluster."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

from logbus.coordination.consumer.partitions import TopicId


class Topic(NamedTuple):
    """A topic, as far as assignments are concerned."""

    topic_id: TopicId
    partitions: int


class TopicsView(Protocol):
    """
    Which topics there are. The answers stand as long as :attr:`version` does.
    """

    @property
    def version(self) -> int:
        """Grows when topics come, go or grow."""

    def topic(self, name: str) -> Topic | None:
        """The topic of a name, if there is one."""

    def name(self, topic_id: TopicId) -> str | None:
        """The name of a topic, if there is one of that id."""

    def names(self) -> Collection[str]:
        """The names of all topics."""
