"""Settings of groups, from the broker's configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from logbus.config import ConfigView, keys
from logbus.config.group import group_config
from logbus.coordination.consumer.group import ConsumerSettings
from logbus.coordination.consumer.migration import MigrationPolicy
from logbus.coordination.requests import GroupSettings


def classic_settings(config: ConfigView, admit: Callable[[int], None]) -> GroupSettings:
    """
    The settings of classic groups.

    :param admit: counts bytes of memory that a group is about to take.
    """
    return GroupSettings(
        config.get(keys.GROUP_INITIAL_REBALANCE_DELAY_MS),
        config.get(keys.GROUP_MIN_SESSION_TIMEOUT_MS),
        config.get(keys.GROUP_MAX_SESSION_TIMEOUT_MS),
        config.get(keys.GROUP_MAX_SIZE),
        admit,
    )


def consumer_settings(
    config: ConfigView, overrides: Mapping[str, str], admit: Callable[[int], None]
) -> ConsumerSettings:
    """
    The settings of a group of the consumer protocol.

    :param overrides: the group's dynamic settings.
    :param admit: counts bytes of memory that the group is about to take.
    """
    own = group_config(config.get, overrides)
    return ConsumerSettings(
        own.session_timeout_ms,
        own.heartbeat_interval_ms,
        config.get(keys.GROUP_CONSUMER_MAX_SIZE),
        config.get(keys.GROUP_MIN_SESSION_TIMEOUT_MS),
        config.get(keys.GROUP_MAX_SESSION_TIMEOUT_MS),
        admit,
    )


def migration_policy(config: ConfigView) -> MigrationPolicy:
    """The policy for migrations between the protocols."""
    return MigrationPolicy(config.get(keys.GROUP_CONSUMER_MIGRATION_POLICY))
