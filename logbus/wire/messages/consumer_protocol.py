"""
What the members of a consumer group tell each other through the coordinator, in the opaque bytes of JoinGroup and
SyncGroup. Each carries its own version in front: see :func:`~logbus.wire.schema.decode_versioned`.
"""

from __future__ import annotations

from logbus.wire.schema import Bytes, Int32, String, field, message, struct

PROTOCOL_TYPE = "consumer"
"""What members of such groups say their protocol is, in JoinGroup; others (Connect's workers) say something else."""


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic: String
    partitions: list[Int32]


@message(None, versions="0-3", flexible="none")
class ConsumerProtocolSubscription:
    """What a member wants to read and has been reading; ``generation_id`` tells how old the latter is (KIP-792)."""

    topics: list[String]
    user_data: Bytes | None = None
    owned_partitions: list[TopicPartitions] = field("1+", factory=list, ignorable=True)
    generation_id: Int32 = field("2+", default=-1, ignorable=True)
    rack_id: String | None = field("3+", default=None, ignorable=True)


@message(None, versions="0-3", flexible="none")
class ConsumerProtocolAssignment:
    """What a member is to read."""

    assigned_partitions: list[TopicPartitions]
    user_data: Bytes | None = None
