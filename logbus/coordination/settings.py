"""What the broker's configuration says of groups."""

from __future__ import annotations

from logbus.config import ConfigView, keys
from logbus.coordination.consumer.group import ConsumerSettings
from logbus.coordination.consumer.migration import MigrationPolicy
from logbus.coordination.requests import GroupSettings


def classic_settings(config: ConfigView) -> GroupSettings:
    """Of groups of the classic protocol."""
    return GroupSettings(
        config.get(keys.GROUP_INITIAL_REBALANCE_DELAY_MS),
        config.get(keys.GROUP_MIN_SESSION_TIMEOUT_MS),
        config.get(keys.GROUP_MAX_SESSION_TIMEOUT_MS),
        config.get(keys.GROUP_MAX_SIZE),
    )


def consumer_settings(config: ConfigView) -> ConsumerSettings:
    """Of groups of the consumer protocol."""
    return ConsumerSettings(
        config.get(keys.GROUP_CONSUMER_SESSION_TIMEOUT_MS),
        config.get(keys.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS),
        config.get(keys.GROUP_CONSUMER_MAX_SIZE),
        config.get(keys.GROUP_MIN_SESSION_TIMEOUT_MS),
        config.get(keys.GROUP_MAX_SESSION_TIMEOUT_MS),
    )


def migration_policy(config: ConfigView) -> MigrationPolicy:
    """Which way groups may go from one protocol to the other."""
    return MigrationPolicy(config.get(keys.GROUP_CONSUMER_MIGRATION_POLICY))
