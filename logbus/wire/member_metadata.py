"""
Decodes subscriptions and assignments of consumers, for tools and reports.

The bytes belong to the members: data in another format is ignored, without an error. Every version begins with the
fields of version 0, so that later versions can be decoded, too.
"""

from __future__ import annotations

import struct
from typing import TypeVar

from logbus.errors import DecodeError
from logbus.model import TopicPartition
from logbus.records.checksum import Buffer
from logbus.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from logbus.wire.schema import decode

M = TypeVar("M")

_VERSION = struct.Struct(">h")


def read_assignment(data: Buffer) -> tuple[TopicPartition, ...]:
    """The partitions assigned to a consumer, sorted; none if the bytes cannot be decoded."""
    assignment = read_member_data(ConsumerProtocolAssignment, data)
    if assignment is None:
        return ()
    return tuple(
        sorted(
            TopicPartition(each.topic, number) for each in assignment.assigned_partitions for number in each.partitions
        )
    )


def read_subscription(data: Buffer) -> tuple[str, ...]:
    """The topics a consumer subscribes to, sorted; none if the bytes cannot be decoded."""
    subscription = read_member_data(ConsumerProtocolSubscription, data)
    return () if subscription is None else tuple(sorted(subscription.topics))


def read_member_data(kind: type[M], data: Buffer, newest: int = 0) -> M | None:
    """
    Decode data that begins with its version; None if it cannot be decoded.

    :param newest: the version that later ones are decoded as: they only append fields.
    """
    if len(data) < _VERSION.size or _VERSION.unpack_from(data)[0] < 0:
        return None
    try:
        return decode(kind, min(newest, _VERSION.unpack_from(data)[0]), data, _VERSION.size)[0]
    except DecodeError:
        return None
