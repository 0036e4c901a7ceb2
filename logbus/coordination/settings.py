"""What the broker's configuration says of groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from logbus.config import ConfigView, keys
from logbus.config.group import group_config
from logbus.coordination.consumer.group import ConsumerSettings
from logbus.coordination.consumer.migration import MigrationPolicy
from logbus.coordination.requests import GroupSettings


def classic_settings(config: ConfigView, admit: Callable[[int], None]) -> GroupSettings:
    """
    Of groups of the classic protocol.

    :param admit: counts the bytes by which what members told grows.
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
    Of a group of the consumer protocol.

    :param overrides: what is set for this group alone.
    :param admit: counts the bytes by which what members told grows.
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
    """Which way groups may go from one protocol to the other."""
    return MigrationPolicy(config.get(keys.GROUP_CONSUMER_MIGRATION_POLICY))
