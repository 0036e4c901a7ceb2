"""The settings of a share group. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from logbus.config import keys
from logbus.config.group_config import Values, group_value
from logbus.config.offset_reset import LATEST, OffsetReset

_LATEST = OffsetReset(LATEST)


@frozen
class ShareGroupSettings:
    """
    The settings of a share group.

    :ivar session_timeout_ms: how long a member may be silent.
    :ivar heartbeat_interval_ms: how often members shall send heartbeats.
    :ivar max_size: maximum number of members.
    :ivar record_lock_duration_ms: for how long a delivered record is not delivered to another member.
    :ivar delivery_count_limit: how often a record is delivered at most.
    :ivar partition_max_record_locks: maximum number of records of a partition that are under way.
    :ivar auto_offset_reset: where it begins to read a partition.
    :ivar read_committed: whether it reads only records of transactions that are committed.
    :ivar renew_acknowledge: whether members may renew the locks of records that they have.
    :ivar max_sessions: maximum number of share sessions of a broker, of all groups together.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    max_size: int = 200
    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    partition_max_record_locks: int = 2000
    auto_offset_reset: OffsetReset = _LATEST
    read_committed: bool = False
    renew_acknowledge: bool = True
    max_sessions: int = 2000


def share_group_settings(get: Values, overrides: Mapping[str, str]) -> ShareGroupSettings:
    """
    The settings of a share group.

    :param get: returns the broker's effective value of a key.
    :param overrides: the group's dynamic settings.
    """
    session = group_value(get, overrides, keys.GROUP_SHARE_SESSION_TIMEOUT_MS)
    return ShareGroupSettings(
        session_timeout_ms=session,
        heartbeat_interval_ms=min(session, group_value(get, overrides, keys.GROUP_SHARE_HEARTBEAT_INTERVAL_MS)),
        max_size=get(keys.GROUP_SHARE_MAX_SIZE),
        record_lock_duration_ms=group_value(get, overrides, keys.GROUP_SHARE_RECORD_LOCK_DURATION_MS),
        delivery_count_limit=group_value(get, overrides, keys.GROUP_SHARE_DELIVERY_COUNT_LIMIT),
        partition_max_record_locks=group_value(get, overrides, keys.GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS),
        auto_offset_reset=group_value(get, overrides, keys.SHARE_AUTO_OFFSET_RESET),
        read_committed=group_value(get, overrides, keys.SHARE_ISOLATION_LEVEL) == "read_committed",
        renew_acknowledge=group_value(get, overrides, keys.SHARE_RENEW_ACKNOWLEDGE_ENABLE),
        max_sessions=get(keys.GROUP_SHARE_MAX_SHARE_SESSIONS),
    )
