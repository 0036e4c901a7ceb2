"""
Encodes and decodes the subscriptions and assignments of the classic protocol (Kafka: ConsumerProtocol). Pure.

The bytes come from any client of any version. Undecodable bytes count as empty: one member's mistake must not keep the
others from their partitions.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from logbus.model import TopicPartition, numbers_by_topic
from logbus.wire import member_metadata
from logbus.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from logbus.wire.messages.partitions import TopicPartitions
from logbus.wire.schema import encode_versioned

_NEWEST = 3


@frozen
class MemberSubscription:
    """
    A member's subscription, as sent to the leader.

    :ivar owned: its current partitions; empty in the eager protocol, where it gave them up before.
    :ivar generation: in which these were assigned; −1: not given.
    :ivar user_data: data for the assignor.
    """

    topics: tuple[str, ...] = ()
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    group_instance_id: str | None = None
    rack: str | None = None
    user_data: bytes | None = None


def write_subscription(subscription: MemberSubscription) -> bytes:
    """Encode a subscription; the group instance id is not part of it."""
    return encode_versioned(
        ConsumerProtocolSubscription(
            topics=list(subscription.topics),
            user_data=subscription.user_data,
            owned_partitions=by_topic(subscription.owned),
            generation_id=subscription.generation,
            rack_id=subscription.rack,
        ),
        _NEWEST,
    )


def read_subscription(data: bytes, group_instance_id: str | None = None) -> MemberSubscription:
    """Decode a subscription; empty if it cannot be decoded."""
    found = member_metadata.read_member_data(ConsumerProtocolSubscription, data, _NEWEST)
    if found is None:
        return MemberSubscription(group_instance_id=group_instance_id)
    return MemberSubscription(
        topics=tuple(sorted(set(found.topics))),
        owned=_flat(found.owned_partitions),
        generation=found.generation_id,
        group_instance_id=group_instance_id,
        rack=found.rack_id,
        user_data=None if found.user_data is None else bytes(found.user_data),
    )


def write_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode an assignment; no assignor here has user data."""
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=by_topic(partitions)), _NEWEST)


def read_assignment(data: bytes) -> frozenset[TopicPartition]:
    """Decode an assignment; empty if it cannot be decoded, or there is none."""
    return frozenset(member_metadata.read_assignment(data))


def by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    """Group partitions by topic, both in order."""
    by_name = numbers_by_topic(sorted(partitions))
    return [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in by_name.items()]


def _flat(topics: Iterable[TopicPartitions]) -> tuple[TopicPartition, ...]:
    return tuple(sorted({TopicPartition(each.topic, number) for each in topics for number in each.partitions}))
