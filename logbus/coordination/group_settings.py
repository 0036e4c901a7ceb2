"""Settings of groups, from the broker's configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from logbus.config import ConfigView, keys
from logbus.config.group_config import group_config
from logbus.coordination.classic.requests import ClassicGroupSettings
from logbus.coordination.consumer.consumer_group_settings import ConsumerGroupSettings
from logbus.coordination.consumer.migration import ConsumerGroupMigrationPolicy


def classic_settings(config: ConfigView, admit: Callable[[int], None]) -> ClassicGroupSettings:
    """
    The settings of classic groups.

    :param admit: counts bytes of memory that a group is about to take.
    """
    return ClassicGroupSettings(
        config.get(keys.GROUP_INITIAL_REBALANCE_DELAY_MS),
        config.get(keys.GROUP_MIN_SESSION_TIMEOUT_MS),
        config.get(keys.GROUP_MAX_SESSION_TIMEOUT_MS),
        config.get(keys.GROUP_MAX_SIZE),
        admit,
    )


def consumer_settings(
    config: ConfigView, overrides: Mapping[str, str], admit: Callable[[int], None]
) -> ConsumerGroupSettings:
    """
    The settings of a group of the consumer protocol.

    :param overrides: the group's dynamic settings.
    :param admit: counts bytes of memory that the group is about to take.
    """
    own = group_config(config.get, overrides)
    return ConsumerGroupSettings(
        own.session_timeout_ms,
        own.heartbeat_interval_ms,
        own.assignment_interval_ms,
        config.get(keys.GROUP_CONSUMER_MAX_SIZE),
        config.get(keys.GROUP_MIN_SESSION_TIMEOUT_MS),
        config.get(keys.GROUP_MAX_SESSION_TIMEOUT_MS),
        admit,
    )


def migration_policy(config: ConfigView) -> ConsumerGroupMigrationPolicy:
    """The policy for migrations between the protocols."""
    return ConsumerGroupMigrationPolicy(config.get(keys.GROUP_CONSUMER_MIGRATION_POLICY))
