"""
The configuration of a consumer group: overrides by operators, within the brokers' bounds (Kafka: GroupConfig).

Only groups of the consumer protocol (KIP-848) have one (config resource ``GROUP``, type 32); members of the classic
protocol choose their own timeouts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from logbus.config import keys
from logbus.config.config_key import ConfigKey
from logbus.config.key_table import GROUP_KEYS, unknown_group_key
from logbus.errors import ConfigError

BOUNDS: Mapping[ConfigKey[int], tuple[ConfigKey[int], ConfigKey[int]]] = {
    keys.GROUP_CONSUMER_SESSION_TIMEOUT_MS: (
        keys.GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
        keys.GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
    ),
    keys.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS: (
        keys.GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
    ),
}
"""The broker keys with the inclusive bounds of a group's value."""

Values = Callable[[ConfigKey[Any]], Any]


@frozen
class GroupConfig:
    """
    The effective configuration of a group of the consumer protocol.

    :ivar session_timeout_ms: time without heartbeats after which a member is removed.
    :ivar heartbeat_interval_ms: interval at which members should send heartbeats.
    """

    session_timeout_ms: int
    heartbeat_interval_ms: int


def group_config(get: Values, overrides: Mapping[str, str]) -> GroupConfig:
    """
    Return the effective configuration of a group.

    An invalid stored value is ignored; one outside of the current bounds is limited to them.

    :param get: returns the broker's effective value of a key.
    :param overrides: the group's overrides, by the group's names.
    """

    def value(key: ConfigKey[int]) -> int:
        text = overrides.get(key.group or "")
        if text is None:
            return int(get(key))
        low, high = BOUNDS[key]
        try:
            return max(int(get(low)), min(key.parse(text, key.group), int(get(high))))
        except ConfigError:
            return int(get(key))

    session = value(keys.GROUP_CONSUMER_SESSION_TIMEOUT_MS)
    return GroupConfig(session, min(session, value(keys.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS)))


def check_group_overrides(get: Values, overrides: Mapping[str, str | None]) -> None:
    """
    Validate a group's overrides, all of them together.

    :param get: returns the broker's effective value of a key.
    :raises ConfigError: names the key, the value and what is accepted.
    """
    chosen: dict[ConfigKey[int], int] = {}
    for name, text in overrides.items():
        key = GROUP_KEYS.get(name)
        if key is None:
            raise unknown_group_key(name)
        if text is None:
            raise ConfigError(f"{name}: a value is missing")
        chosen[key] = key.parse(text, name)
        low, high = BOUNDS[key]
        if not get(low) <= chosen[key] <= get(high):
            raise ConfigError(
                f"{name}: {text.strip()} is not between {low.name}={get(low)} and {high.name}={get(high)}"
            )
    session_key, heartbeat_key = keys.GROUP_CONSUMER_SESSION_TIMEOUT_MS, keys.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS
    session: int = chosen[session_key] if session_key in chosen else get(session_key)
    heartbeat: int = chosen[heartbeat_key] if heartbeat_key in chosen else get(heartbeat_key)
    if heartbeat >= session:
        raise ConfigError(f"{heartbeat_key.group}={heartbeat} must be less than {session_key.group}={session}")
