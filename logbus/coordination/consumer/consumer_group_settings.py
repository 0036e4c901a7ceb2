"""The settings of a group of the consumer protocol. Pure."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from logbus.coordination.classic.requests import admit_all


@frozen
class ConsumerGroupSettings:
    """
    The broker's settings for a group of the consumer protocol.

    :ivar session_timeout_ms: how long a member may be silent.
    :ivar heartbeat_interval_ms: how often members shall send heartbeats.
    :ivar assignment_interval_ms: least time between two target assignments of a group with several members.
    :ivar max_size: maximum number of members.
    :ivar classic_min_session_ms: shortest session timeout that a classic member may ask for.
    :ivar classic_max_session_ms: longest.
    :ivar admit: counts bytes of memory that the group is about to take, or raises ApiError.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000
    max_size: int = 2**31 - 1
    classic_min_session_ms: int = 6000
    classic_max_session_ms: int = 1_800_000
    admit: Callable[[int], None] = admit_all
