"""What a heartbeat's response says of the group's state (Kafka: StreamsGroupHeartbeatResponse.Status). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from attrs import frozen


class StatusCode(IntEnum):
    """The codes on the wire."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@frozen
class Status:
    """
    One thing that a member should know.

    :ivar detail: names what it is about, for people.
    """

    code: StatusCode
    detail: str


def some_of(texts: Iterable[str]) -> str:
    """The first three of some texts, in order, and how many more there are: for a detail."""
    ordered = sorted(texts)
    more = len(ordered) - 3
    return ", ".join(ordered[:3]) + (f" and {more} more" if more > 0 else "")
