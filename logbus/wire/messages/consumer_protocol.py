"""
The embedded consumer protocol (Kafka: ConsumerProtocol): subscriptions and assignments in the opaque bytes of JoinGroup
and SyncGroup. Each begins with its own version: see :func:`~logbus.wire.schema.decode_versioned`.
"""

from __future__ import annotations

from logbus.wire.messages.partitions import TopicPartitions
from logbus.wire.schema import Bytes, Int32, String, field, message

PROTOCOL_TYPE = "consumer"
"""The protocol type of consumers in JoinGroup; Connect's workers have another."""


@message(None, versions="0-3", flexible="none")
class ConsumerProtocolSubscription:
    """
    The topics a member subscribes to, and the partitions it owns; ``generation_id`` tells how old the latter are
    (KIP-792).
    """

    topics: list[String]
    user_data: Bytes | None = None
    owned_partitions: list[TopicPartitions] = field("1+", factory=list, ignorable=True)
    generation_id: Int32 = field("2+", default=-1, ignorable=True)
    rack_id: String | None = field("3+", default=None, ignorable=True)


@message(None, versions="0-1", flexible="none")
class StickyAssignorUserData:
    """The last assignment of a member, in its subscription's user data, for the sticky assignor; without a version."""

    previous_assignment: list[TopicPartitions]
    generation: Int32 = field("1+", default=-1)


@message(None, versions="0-3", flexible="none")
class ConsumerProtocolAssignment:
    """The partitions assigned to a member."""

    assigned_partitions: list[TopicPartitions]
    user_data: Bytes | None = None
