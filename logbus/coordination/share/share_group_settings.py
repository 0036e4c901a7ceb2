"""The settings of a share group. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field, frozen

from logbus.config import ConfigView, keys
from logbus.config.group_config import Values, group_value
from logbus.config.key_table import BROKER_KEYS
from logbus.config.offset_reset import LATEST, OffsetReset

_LATEST = OffsetReset(LATEST)


@frozen
class ShareGroupSettings:
    """
    The settings of a share group.

    :ivar session_timeout_ms: how long a member may be silent.
    :ivar heartbeat_interval_ms: how often members shall send heartbeats.
    :ivar assignment_interval_ms: least time between two target assignments of a group with several members.
    :ivar max_size: maximum number of members.
    :ivar record_lock_duration_ms: for how long a delivered record is not delivered to another member.
    :ivar delivery_count_limit: how often a record is delivered at most.
    :ivar partition_max_record_locks: maximum number of records of a partition that are under way.
    :ivar auto_offset_reset: where it begins to read a partition.
    :ivar read_committed: whether it reads only records of transactions that are committed.
    :ivar renew_acknowledge: whether members may renew the locks of records that they have.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000
    max_size: int = 200
    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    partition_max_record_locks: int = 2000
    auto_offset_reset: OffsetReset = _LATEST
    read_committed: bool = False
    renew_acknowledge: bool = True


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
        assignment_interval_ms=group_value(get, overrides, keys.GROUP_SHARE_ASSIGNMENT_INTERVAL_MS),
        max_size=get(keys.GROUP_SHARE_MAX_SIZE),
        record_lock_duration_ms=group_value(get, overrides, keys.GROUP_SHARE_RECORD_LOCK_DURATION_MS),
        delivery_count_limit=group_value(get, overrides, keys.GROUP_SHARE_DELIVERY_COUNT_LIMIT),
        partition_max_record_locks=group_value(get, overrides, keys.GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS),
        auto_offset_reset=group_value(get, overrides, keys.SHARE_AUTO_OFFSET_RESET),
        read_committed=group_value(get, overrides, keys.SHARE_ISOLATION_LEVEL) == "read_committed",
        renew_acknowledge=group_value(get, overrides, keys.SHARE_RENEW_ACKNOWLEDGE_ENABLE),
    )


@define(eq=False)
class ShareGroupSettingsCache:
    """
    The settings of share groups, made once: a fetch asks for them several times.

    Groups without dynamic settings, of which clients can invent any number, share one object.

    :param overrides: the groups' dynamic settings, by group id; after a change a group has another mapping.
    """

    _config: ConfigView
    _overrides: Mapping[str, Mapping[str, str]]
    _common: ShareGroupSettings = field(init=False)
    _own: dict[str, tuple[Mapping[str, str], ShareGroupSettings]] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._follow(self._config)
        self._config.subscribe(BROKER_KEYS.values(), self._follow)

    def _follow(self, config: ConfigView) -> None:
        self._common = share_group_settings(config.get, {})
        self._own.clear()

    def of(self, group_id: str) -> ShareGroupSettings:
        """The present settings of a group."""
        overrides = self._overrides.get(group_id)
        if overrides is None:
            return self._common
        known = self._own.get(group_id)
        if known is not None and known[0] is overrides:
            return known[1]
        if len(self._own) >= len(self._overrides):
            # Some of them have no dynamic settings any more.
            self._own.clear()
        settings = share_group_settings(self._config.get, overrides)
        self._own[group_id] = overrides, settings
        return settings
