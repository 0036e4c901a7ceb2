"""
What members of consumer groups tell each other, for those who only look on.

The bytes are the members' own affair: what does not spell what consumers say is nothing to us, and no error. Every
version begins with what version 0 has; so what consumers to come say can be read, too.
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
    """The partitions, in order, in what a consumer's leader assigned to it; none if the bytes do not say."""
    assignment = _read(ConsumerProtocolAssignment, data)
    if assignment is None:
        return ()
    return tuple(
        sorted(
            TopicPartition(each.topic, number) for each in assignment.assigned_partitions for number in each.partitions
        )
    )


def read_subscription(data: Buffer) -> tuple[str, ...]:
    """The topics, in order, in what a consumer told its leader; none if the bytes do not say."""
    subscription = _read(ConsumerProtocolSubscription, data)
    return () if subscription is None else tuple(sorted(subscription.topics))


def _read(kind: type[M], data: Buffer) -> M | None:
    if len(data) < _VERSION.size or _VERSION.unpack_from(data)[0] < 0:
        return None
    try:
        return decode(kind, 0, data, _VERSION.size)[0]
    except DecodeError:
        return None
