"""
The topics that the members of a classic group are subscribed to, as far as their metadata can be decoded. Pure.

Members' metadata is opaque to the broker, except for that of consumers, which has a known format (Kafka:
ConsumerProtocol). The topics are needed because the offsets of a topic that is being read must not expire.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from logbus.coordination.classic.members import ClassicGroupMember
from logbus.errors import DecodeError
from logbus.wire.messages.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolSubscription
from logbus.wire.schema import decode

SubscribedTopics = frozenset[str] | None
"""Topics that are read; None: unknown, so any topic may be read."""

_VERSION = struct.Struct(">h")


def subscribed_topics(
    protocol_type: str, protocol: str | None, members: Iterable[ClassicGroupMember]
) -> SubscribedTopics:
    """All topics that the members are subscribed to, according to their metadata for ``protocol``."""
    if protocol_type != PROTOCOL_TYPE:
        return None
    topics: set[str] = set()
    try:
        for metadata in {member.metadata(protocol) for member in members}:
            topics.update(_topics(metadata))
    except DecodeError:
        return None
    return frozenset(topics)


def _topics(metadata: bytes) -> Iterable[str]:
    """Decode as version 0, with which every version begins, so that future versions can be read, too."""
    if len(metadata) < _VERSION.size or _VERSION.unpack_from(metadata)[0] < 0:
        raise DecodeError("a subscription begins with its version")
    subscription, _ = decode(ConsumerProtocolSubscription, 0, metadata, _VERSION.size)
    return subscription.topics
