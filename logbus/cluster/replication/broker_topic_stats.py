"""
Counts bytes and records by topic (Kafka: BrokerTopicStats).

A topic is counted while this broker has a replica of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from logbus.metrics import Family, Sample

_FAMILIES = (
    ("logbus_topic_produced_bytes_total", "Bytes of batches appended for producers, by topic.", "bytes_in"),
    ("logbus_topic_produced_records_total", "Records appended for producers, by topic.", "records_in"),
    ("logbus_topic_fetched_bytes_total", "Bytes of batches sent to consumers, by topic.", "bytes_out"),
)


@define(eq=False)
class TopicStats:
    """
    The counts of one topic.

    :ivar bytes_in: of batches appended for producers; ``records_in``: the records in them.
    :ivar bytes_out: of batches sent to consumers.
    :ivar replicas: of the topic, on this broker.
    """

    bytes_in: int = 0
    records_in: int = 0
    bytes_out: int = 0
    replicas: int = 0


@define(eq=False)
class BrokerTopicStats:
    """The counts of all topics of which this broker has a replica."""

    _by_topic: dict[str, TopicStats] = field(factory=dict, init=False)

    def opened(self, topic: str) -> TopicStats:
        """This broker has one more replica of a topic; returns what counts for it."""
        stats = self._by_topic.get(topic)
        if stats is None:
            stats = self._by_topic[topic] = TopicStats()
        stats.replicas += 1
        return stats

    def closed(self, topic: str) -> None:
        """This broker has one replica less; the counts go with the last."""
        stats = self._by_topic[topic]
        stats.replicas -= 1
        if not stats.replicas:
            del self._by_topic[topic]

    def sent(self, topic: str, size: int) -> None:
        """Count bytes that are sent to a consumer. A topic that is gone by now is not counted."""
        stats = self._by_topic.get(topic)
        if stats is not None:
            stats.bytes_out += size

    def families(self) -> Iterator[Family]:
        """Yield the counts as metrics."""
        for name, help, attribute in _FAMILIES:
            yield Family(name, help, "counter", self._samples(name, attribute))

    def _samples(self, name: str, attribute: str) -> Iterator[Sample]:
        for topic, stats in list(self._by_topic.items()):
            yield Sample(name, (("topic", topic),), getattr(stats, attribute))
