"""What both protocols' members have done for them."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from logbus.client.membership.interface import MembershipFailed
from logbus.model import TopicPartition


class ListenerEvent(Enum):
    """What a listener can be told of partitions."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


@frozen
class NotifyListener:
    """Tell the listener, and say when it is done."""

    what: ListenerEvent
    partitions: frozenset[TopicPartition]


@frozen
class ReportFailure:
    """The membership has ended, and not because somebody wanted it."""

    error: MembershipFailed


@frozen
class ReportLeft:
    """The membership has ended, as was wanted."""


Action = object
"""One of these, or one of a protocol's own."""
