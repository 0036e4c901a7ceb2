"""
Encodes and decodes the subscriptions and assignments that consumers of the classic protocol embed in JoinGroup and
SyncGroup (Kafka: ConsumerProtocol), for groups with members of both protocols.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from logbus.coordination.consumer.partition_sets import Partitions, from_pairs
from logbus.coordination.consumer.topics_view import TopicsView
from logbus.errors import DecodeError
from logbus.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from logbus.wire.messages.partitions import TopicPartitions
from logbus.wire.schema import decode, encode_versioned

NEWEST_VERSION = 3
_VERSION = struct.Struct(">h")


def usable_version(data: bytes) -> int:
    """
    The newest version that both the writer of ``data`` and this broker know; each version extends the one before.

    :raise DecodeError: the data does not begin with a version.
    """
    if len(data) < _VERSION.size or _VERSION.unpack_from(data)[0] < 0:
        raise DecodeError("data of the consumer protocol begins with its version")
    return int(min(_VERSION.unpack_from(data)[0], NEWEST_VERSION))


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """
    Decode a member's subscription.

    :raise DecodeError: it is not in the format of the consumer protocol.
    """
    return decode(ConsumerProtocolSubscription, usable_version(data), data, _VERSION.size)[0]


def read_assignment(data: bytes, topics: TopicsView) -> Partitions:
    """
    Decode a member's assignment, without partitions that do not exist; no bytes mean no partitions.

    :raise DecodeError: it is not in the format of the consumer protocol.
    """
    if not data:
        return {}
    return by_id(
        decode(ConsumerProtocolAssignment, usable_version(data), data, _VERSION.size)[0].assigned_partitions, topics
    )


def write_assignment(partitions: Partitions, topics: TopicsView, version: int) -> bytes:
    """Encode an assignment in a member's version, without topics that do not exist."""
    named = sorted((topics.name(topic_id) or "", sorted(numbers)) for topic_id, numbers in partitions.items())
    assigned = [TopicPartitions(topic=name, partitions=numbers) for name, numbers in named if name]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=assigned), version)


def by_id(named: Iterable[TopicPartitions], topics: TopicsView) -> Partitions:
    """Partitions by topic id instead of topic name, without those that do not exist."""
    found = []
    for one in named:
        topic = topics.topic(one.topic)
        if topic is not None:
            found += [(topic.topic_id, number) for number in one.partitions if 0 <= number < topic.partitions]
    return from_pairs(found)
