"""The settings of a streams group. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from logbus.config import keys
from logbus.config.group_config import Values, group_value


@frozen
class StreamsGroupSettings:
    """
    The settings of a streams group.

    :ivar session_timeout_ms: how long a member may be silent.
    :ivar heartbeat_interval_ms: how often members shall send heartbeats.
    :ivar assignment_interval_ms: least time between two target assignments of a group with several members.
    :ivar max_size: maximum number of members.
    :ivar num_standby_replicas: how many processes keep a copy of the state of each task.
    :ivar initial_rebalance_delay_ms: how long a group that was empty waits for more members before it assigns tasks.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000
    max_size: int = 2**31 - 1
    num_standby_replicas: int = 0
    initial_rebalance_delay_ms: int = 3000

    @property
    def of_assignment(self) -> tuple[tuple[str, str], ...]:
        """The settings that assignments depend on, as the group's record has them."""
        return (("num.standby.replicas", str(self.num_standby_replicas)),)


def streams_group_settings(get: Values, overrides: Mapping[str, str]) -> StreamsGroupSettings:
    """
    The settings of a streams group.

    :param get: returns the broker's effective value of a key.
    :param overrides: the group's dynamic settings.
    """
    session = group_value(get, overrides, keys.GROUP_STREAMS_SESSION_TIMEOUT_MS)
    return StreamsGroupSettings(
        session_timeout_ms=session,
        heartbeat_interval_ms=min(session, group_value(get, overrides, keys.GROUP_STREAMS_HEARTBEAT_INTERVAL_MS)),
        assignment_interval_ms=group_value(get, overrides, keys.GROUP_STREAMS_ASSIGNMENT_INTERVAL_MS),
        max_size=get(keys.GROUP_STREAMS_MAX_SIZE),
        num_standby_replicas=group_value(get, overrides, keys.GROUP_STREAMS_NUM_STANDBY_REPLICAS),
        initial_rebalance_delay_ms=group_value(get, overrides, keys.GROUP_STREAMS_INITIAL_REBALANCE_DELAY_MS),
    )
