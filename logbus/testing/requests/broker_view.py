"""
Fills in what requests leave out since the broker knows it: the names of topic ids, the partitions of fetch sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from attrs import define

from logbus.testing.requests.partitions import Named, named_in
from logbus.wire.fetch_template import FETCH
from logbus.wire.messages.metadata import MetadataRequestTopic
from logbus.wire.messages.records import FetchPartition, FetchRequest, FetchTopic
from logbus.wire.schema import replaced
from logbus.wire.wire_types import ZERO_UUID

if TYPE_CHECKING:
    from logbus.broker import Broker
    from logbus.wire.connection import Request

METADATA = 3

Subject = tuple[str, int | None]
"""A topic by name, and a partition, or None: the request names none."""


@define(eq=False)
class BrokerView:
    """
    Looks at a running broker, in its thread.

    :param broker: returns it.
    """

    _broker: Callable[[], Broker]

    def topic_name(self, named: Named) -> str:
        """The name of a topic in a request; empty: its id is unknown."""
        if named.topic:
            return named.topic
        found = self._broker().member.metadata.topic_by_id(UUID(bytes=bytes(named.topic_id)))
        return "" if found is None else found.name

    def subjects(self, request: Request) -> Sequence[Subject]:
        """The topics and partitions that a request is about."""
        message = self.spelt_out(request)
        return [
            (self.topic_name(each), each.partition) for each in named_in(request.api_key, request.api_version, message)
        ]

    def spelt_out(self, request: Request) -> Any:
        """The message of a request, with the partitions of its fetch session, or all topics where it wants all."""
        message = request.message
        if request.api_key == FETCH and message.session_id and message.session_epoch > 0:
            return replaced(message, topics=self._fetched(message))
        if request.api_key == METADATA and (
            message.topics is None or (request.api_version == 0 and not message.topics)
        ):
            names = self._broker().member.metadata.topics
            return replaced(message, topics=[MetadataRequestTopic(name=name) for name in names])
        return message

    def _fetched(self, message: FetchRequest) -> list[FetchTopic]:
        from logbus.handlers.fetch import FetchHandlers

        sessions = self._broker().kafka_server.router.find(FetchHandlers).sessions
        gone = {
            (topic.topic or topic.topic_id, each)
            for topic in message.forgotten_topics_data
            for each in topic.partitions
        }
        found: dict[str | bytes, FetchTopic] = {}
        for topic in message.topics:
            found.setdefault(
                topic.topic or topic.topic_id, replaced(topic, partitions=[])
            ).partitions += topic.partitions
        for each in sessions.partitions_of(message.session_id):
            key = each.topic_key
            if (key, each.partition) in gone:
                continue
            name, topic_id = (key, ZERO_UUID) if isinstance(key, str) else ("", key)
            topic = found.setdefault(key, FetchTopic(topic=name, topic_id=topic_id, partitions=[]))
            if all(known.partition != each.partition for known in topic.partitions):
                topic.partitions.append(
                    FetchPartition(
                        partition=each.partition, fetch_offset=each.offset, partition_max_bytes=each.max_bytes
                    )
                )
        return list(found.values())
