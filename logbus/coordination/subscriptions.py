"""
Which topics the members of a group read, as far as the coordinator can know. Pure.

What members tell their leader is their own affair; but consumers tell it in a form that is known, and as long as a
topic is read its offsets must not go.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from logbus.coordination.members import Member
from logbus.errors import DecodeError
from logbus.wire.messages.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolSubscription
from logbus.wire.schema import decode

Topics = frozenset[str] | None
"""Topics that are read; None: it cannot be known, so it may be any."""

_VERSION = struct.Struct(">h")


def subscribed_topics(protocol_type: str, protocol: str | None, members: Iterable[Member]) -> Topics:
    """All topics that the members are subscribed to by what they say to a leader that assigns by ``protocol``."""
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
    """Every version begins with what version 0 has; so subscriptions of consumers to come can be read, too."""
    if len(metadata) < _VERSION.size or _VERSION.unpack_from(metadata)[0] < 0:
        raise DecodeError("a subscription begins with its version")
    subscription, _ = decode(ConsumerProtocolSubscription, 0, metadata, _VERSION.size)
    return subscription.topics
