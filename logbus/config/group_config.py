"""
The configuration of a group: overrides by operators, within the brokers' bounds (Kafka: GroupConfig).

Groups of the consumer protocol (KIP-848), share groups (KIP-932) and streams groups (KIP-1071) have one (config
resource ``GROUP``, type 32); members of the classic protocol choose their own timeouts. A group has the keys of all of
them: it is not known beforehand of which type it will be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from attrs import frozen

from logbus.config import keys
from logbus.config.config_key import ConfigKey
from logbus.config.key_table import GROUP_KEYS, unknown_group_key
from logbus.errors import ConfigError

BOUNDS: Mapping[ConfigKey[Any], tuple[ConfigKey[int] | None, ConfigKey[int]]] = {
    keys.GROUP_CONSUMER_SESSION_TIMEOUT_MS: (
        keys.GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
        keys.GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
    ),
    keys.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS: (
        keys.GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
    ),
    keys.GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS: (
        keys.GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS,
        keys.GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS,
    ),
    keys.GROUP_SHARE_SESSION_TIMEOUT_MS: (
        keys.GROUP_SHARE_MIN_SESSION_TIMEOUT_MS,
        keys.GROUP_SHARE_MAX_SESSION_TIMEOUT_MS,
    ),
    keys.GROUP_SHARE_HEARTBEAT_INTERVAL_MS: (
        keys.GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_SHARE_MAX_HEARTBEAT_INTERVAL_MS,
    ),
    keys.GROUP_SHARE_ASSIGNMENT_INTERVAL_MS: (
        keys.GROUP_SHARE_MIN_ASSIGNMENT_INTERVAL_MS,
        keys.GROUP_SHARE_MAX_ASSIGNMENT_INTERVAL_MS,
    ),
    keys.GROUP_SHARE_DELIVERY_COUNT_LIMIT: (
        keys.GROUP_SHARE_MIN_DELIVERY_COUNT_LIMIT,
        keys.GROUP_SHARE_MAX_DELIVERY_COUNT_LIMIT,
    ),
    keys.GROUP_SHARE_RECORD_LOCK_DURATION_MS: (
        keys.GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS,
        keys.GROUP_SHARE_MAX_RECORD_LOCK_DURATION_MS,
    ),
    keys.GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS: (
        keys.GROUP_SHARE_MIN_PARTITION_MAX_RECORD_LOCKS,
        keys.GROUP_SHARE_MAX_PARTITION_MAX_RECORD_LOCKS,
    ),
    keys.GROUP_STREAMS_SESSION_TIMEOUT_MS: (
        keys.GROUP_STREAMS_MIN_SESSION_TIMEOUT_MS,
        keys.GROUP_STREAMS_MAX_SESSION_TIMEOUT_MS,
    ),
    keys.GROUP_STREAMS_HEARTBEAT_INTERVAL_MS: (
        keys.GROUP_STREAMS_MIN_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_STREAMS_MAX_HEARTBEAT_INTERVAL_MS,
    ),
    keys.GROUP_STREAMS_ASSIGNMENT_INTERVAL_MS: (
        keys.GROUP_STREAMS_MIN_ASSIGNMENT_INTERVAL_MS,
        keys.GROUP_STREAMS_MAX_ASSIGNMENT_INTERVAL_MS,
    ),
    keys.GROUP_STREAMS_NUM_STANDBY_REPLICAS: (None, keys.GROUP_STREAMS_MAX_STANDBY_REPLICAS),
}
"""The broker keys with the inclusive bounds of a group's value; None: the key's own bound."""

TIMEOUTS = (
    (keys.GROUP_CONSUMER_SESSION_TIMEOUT_MS, keys.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS),
    (keys.GROUP_SHARE_SESSION_TIMEOUT_MS, keys.GROUP_SHARE_HEARTBEAT_INTERVAL_MS),
    (keys.GROUP_STREAMS_SESSION_TIMEOUT_MS, keys.GROUP_STREAMS_HEARTBEAT_INTERVAL_MS),
)
"""The keys of session timeouts, and of the heartbeat intervals that must be shorter."""

T = TypeVar("T")
Values = Callable[[ConfigKey[Any]], Any]


@frozen
class GroupConfig:
    """
    The effective configuration of a group of the consumer protocol.

    :ivar session_timeout_ms: time without heartbeats after which a member is removed.
    :ivar heartbeat_interval_ms: interval at which members should send heartbeats.
    :ivar assignment_interval_ms: least time between two target assignments.
    """

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def group_value(get: Values, overrides: Mapping[str, str], key: ConfigKey[T]) -> T:
    """
    Return the effective value of a group's key.

    An invalid stored value is ignored; one outside of the current bounds is limited to them.

    :param get: returns the broker's effective value of a key.
    :param overrides: the group's overrides, by the group's names.
    """
    text = overrides.get(key.group or "")
    value: T = get(key)
    if text is None:
        return value
    try:
        value = key.parse(text, key.group)
    except ConfigError:
        return value
    if key in BOUNDS:
        low, high = BOUNDS[key]
        value = min(value, get(high))
        if low is not None:
            value = max(get(low), value)
    return value


def group_config(get: Values, overrides: Mapping[str, str]) -> GroupConfig:
    """Return the effective configuration of a consumer group; the parameters are those of :func:`group_value`."""
    session = group_value(get, overrides, keys.GROUP_CONSUMER_SESSION_TIMEOUT_MS)
    heartbeat = group_value(get, overrides, keys.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS)
    interval = group_value(get, overrides, keys.GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS)
    return GroupConfig(session, min(session, heartbeat), interval)


def check_group_overrides(get: Values, overrides: Mapping[str, str | None]) -> None:
    """
    Validate a group's overrides, all of them together.

    :param get: returns the broker's effective value of a key.
    :raises ConfigError: names the key, the value and what is accepted.
    """
    chosen: dict[ConfigKey[Any], Any] = {}
    for name, text in overrides.items():
        key = GROUP_KEYS.get(name)
        if key is None:
            raise unknown_group_key(name)
        if text is None:
            raise ConfigError(f"{name}: a value is missing")
        chosen[key] = key.parse(text, name)
        if key not in BOUNDS:
            continue
        low, high = BOUNDS[key]
        if chosen[key] > get(high) or (low is not None and chosen[key] < get(low)):
            least = "0" if low is None else f"{low.name}={get(low)}"
            raise ConfigError(f"{name}: {text.strip()} is not between {least} and {high.name}={get(high)}")
    for session_key, heartbeat_key in TIMEOUTS:
        session: int = chosen[session_key] if session_key in chosen else get(session_key)
        heartbeat: int = chosen[heartbeat_key] if heartbeat_key in chosen else get(heartbeat_key)
        if heartbeat >= session and not chosen.keys().isdisjoint((session_key, heartbeat_key)):
            raise ConfigError(f"{heartbeat_key.group}={heartbeat} must be less than {session_key.group}={session}")
