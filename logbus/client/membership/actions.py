"""Actions that the state machines of both protocols return, for their memberships to execute."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from logbus.errors import LogbusError
from logbus.model import TopicPartition


class ListenerEvent(Enum):
    """The calls of a listener about partitions."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


@frozen
class NotifyListener:
    """Call the listener, and report when it is done."""

    what: ListenerEvent
    partitions: frozenset[TopicPartition]


@frozen
class ReportFailure:
    """End the membership with an error."""

    error: LogbusError


@frozen
class ReportLeft:
    """End the membership, as requested."""


Action = object
"""One of these, or an action of one protocol."""
