"""
All keys by name, and the errors and warnings for other names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from logbus.config import keys
from logbus.config.config_key import ConfigKey, Scope
from logbus.config.keys.ignored import (
    FOREIGN_TOPIC_KEYS,
    IGNORED_BROKER_KEYS,
    IGNORED_BROKER_PREFIXES,
    ONLY_VALUES,
)
from logbus.errors import ConfigError

_ALL: tuple[ConfigKey[Any], ...] = tuple(value for value in vars(keys).values() if isinstance(value, ConfigKey))

BROKER_KEYS: Mapping[str, ConfigKey[Any]] = {key.name: key for key in _ALL if key.scope in (Scope.BROKER, Scope.BOTH)}
"""Keys of brokers, by their name on brokers."""

TOPIC_KEYS: Mapping[str, ConfigKey[Any]] = {key.topic: key for key in _ALL if key.topic is not None}
"""Keys of topics, by their name on topics."""

GROUP_KEYS: Mapping[str, ConfigKey[Any]] = {key.group: key for key in _ALL if key.group is not None}
"""Keys of consumer and share groups, by their name on groups."""

LISTENER_PREFIX = "listener.name."
_PER_LISTENER = re.compile(r"listener\.name\.(?P<listener>[^.]+)\.(?P<key>.+)")

FLOW_PREFIX = "mirror.flow."
_PER_FLOW = re.compile(r"mirror\.flow\.(?P<flow>[^.]+)\.(?P<key>.+)")


def flow_key(name: str) -> tuple[str, ConfigKey[Any] | None] | None:
    """
    Take apart a name such as ``mirror.flow.paris.topics``, which sets a key for one mirror of several.

    :returns: the mirror's name, and the key, or None if there is no such key; None: it is no such name.
    """
    match = _PER_FLOW.fullmatch(name)
    return None if match is None else (match["flow"], BROKER_KEYS.get(f"mirror.{match['key']}"))


def flow_key_name(flow: str, key: ConfigKey[Any]) -> str:
    """Return the name of a key of mirrors for one of several."""
    return f"{FLOW_PREFIX}{flow}.{key.name.removeprefix('mirror.')}"


def broker_key(name: str) -> ConfigKey[Any] | None:
    """
    Return the key that ``name`` sets on a broker, or None.

    Keys of mirrors can be set for one of several; see :func:`flow_key`. Keys that can be set for one listener also have
    the names ``listener.name.<listener>.<key>`` and ``listener.name.<listener>.<sasl mechanism>.<key>``.
    """
    key = BROKER_KEYS.get(name)
    if key is not None:
        return key
    if (of_flow := flow_key(name)) is not None:
        return of_flow[1]
    match = _PER_LISTENER.fullmatch(name)
    if match is None:
        return None
    rest = match["key"]
    key = BROKER_KEYS.get(rest)
    if key is None:
        mechanism, _, rest = rest.partition(".")
        key = BROKER_KEYS.get(rest)
        if mechanism.upper() not in keys.SASL_MECHANISMS or not rest.startswith("sasl."):
            return None
    return key if key is not None and key.per_listener else None


def listener_key_name(listener: str, key: ConfigKey[Any], mechanism: str | None = None) -> str:
    """Return the name of ``key`` for one listener, and for one SASL mechanism of it."""
    middle = "" if mechanism is None else mechanism.lower() + "."
    return f"{LISTENER_PREFIX}{listener.lower()}.{middle}{key.name}"


def ignored_broker_key(name: str, value: str) -> str | None:
    """
    Return the warning for a key of Kafka that is ignored here; None if it is not one.

    :raises ConfigError: the value asks for a feature that logbus does not have.
    """
    plain = match["key"] if (match := _PER_LISTENER.fullmatch(name)) else name
    reason = IGNORED_BROKER_KEYS.get(plain)
    if reason is None:
        reason = next((why for prefix, why in IGNORED_BROKER_PREFIXES.items() if plain.startswith(prefix)), None)
    return _warning(name, plain, value, reason)


def ignored_topic_key(name: str, value: str) -> str | None:
    """Do the same for keys of topics."""
    return _warning(name, name, value, FOREIGN_TOPIC_KEYS.get(name))


def _warning(name: str, plain: str, value: str, reason: str | None) -> str | None:
    if reason is None:
        return None
    only = ONLY_VALUES.get(plain)
    if only is not None and value.strip().lower() not in only:
        raise ConfigError(f"{name}: {value!r} is not valid; accepted: {' or '.join(only)} ({reason})")
    return f"{name} is ignored: {reason}"


def unknown(name: str, known: Iterable[str], what: str) -> ConfigError:
    """Return the error for an unknown key, with the most similar known ones."""
    import difflib  # needed only here

    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.75)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return ConfigError(f"{name} is not a {what} configuration key{hint}")


def unknown_broker_key(name: str) -> ConfigError:
    """Return the error for an unknown broker key; says so if it is a topic's."""
    if name in TOPIC_KEYS:
        own = TOPIC_KEYS[name]
        if own.scope is Scope.TOPIC:
            return ConfigError(f"{name} is a key of topics only, not of brokers")
        return ConfigError(f"{name} is a key of topics; a broker's is {own.name}")
    key = BROKER_KEYS.get(name.split(".", 3)[-1]) if name.startswith(LISTENER_PREFIX) else None
    if key is not None:
        return ConfigError(f"{name}: {key.name} cannot be set for one listener, only for the broker")
    if (of_flow := flow_key(name)) is not None:
        ours = [flow_key_name(of_flow[0], key) for key in BROKER_KEYS.values() if key.name.startswith("mirror.")]
        return unknown(name, ours, "mirror's")
    if name.startswith(FLOW_PREFIX):
        rest = name.removeprefix(FLOW_PREFIX)
        return ConfigError(f"{name} lacks the name of a mirror, or its key; write {FLOW_PREFIX}NAME.{rest}")
    return unknown(name, BROKER_KEYS, "broker")


def unknown_topic_key(name: str) -> ConfigError:
    """Return the error for an unknown topic key; says so if it is a broker's."""
    own = BROKER_KEYS.get(name)
    if own is not None and own.topic is not None:
        return ConfigError(f"{name} is a key of brokers; a topic's is {own.topic}")
    if own is not None:
        return ConfigError(f"{name} is a key of brokers only, not of topics")
    return unknown(name, TOPIC_KEYS, "topic")


def unknown_group_key(name: str) -> ConfigError:
    """Return the error for an unknown group key; says so if it is a broker's."""
    own = BROKER_KEYS.get(name)
    if own is not None and own.group is not None:
        return ConfigError(f"{name} is a key of brokers; a group's is {own.group}")
    return unknown(name, GROUP_KEYS, "group")
