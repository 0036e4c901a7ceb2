"""
Entries for DescribeConfigs: every key with its value, the value's source, and its synonyms.

Read-modify-write clients depend on getting all keys, including those at their defaults.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from attrs import frozen

from logbus.config.config_key import ConfigKey
from logbus.config.config_view import ConfigView, Source
from logbus.config.key_table import BROKER_KEYS, FLOW_PREFIX, GROUP_KEYS, LISTENER_PREFIX, TOPIC_KEYS, broker_key
from logbus.config.kinds import ConfigType
from logbus.config.setting_checks import usable_topic_overrides


class Synonym(NamedTuple):
    """A value set for a key in one place; the first is effective. The value of a sensitive key is None."""

    name: str
    value: str | None
    source: Source


@frozen
class ConfigEntry:
    """
    A key of a broker, topic or consumer group.

    :ivar value: as text; None when the key is sensitive, or not set and without a default.
    :ivar synonyms: all values set for it, the effective one first, the default last.
    :ivar read_only: whether AlterConfigs would refuse it.
    """

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    type: ConfigType
    synonyms: tuple[Synonym, ...]
    documentation: str

    @property
    def is_default(self) -> bool:
        """Whether it has its default."""
        return self.source is Source.DEFAULT


def describe_broker(view: ConfigView, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """
    Describe a broker's keys, including those set for single listeners and mirrors.

    :param names: the keys to describe, or None for all; unknown ones are omitted, as in Kafka.
    """
    entries = [
        _entry(name, key, view.in_use.get(key, key.text(view.get(key))), _synonyms(view, key), read_only=key.read_only)
        for name, key in BROKER_KEYS.items()
        if names is None or name in names
    ]
    for name, said in sorted(_narrow_settings(view).items()):
        key = broker_key(name)
        if key is not None and (names is None or name in names):
            entries.append(_entry(name, key, said[0].value, said, read_only=key.read_only))
    return entries


def describe_cluster(view: ConfigView, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """Describe the defaults set for all brokers (the broker resource with an empty name)."""
    return [
        _entry(name, BROKER_KEYS[name], text, [Synonym(name, text, Source.CLUSTER)], read_only=False)
        for name, text in view.layer(Source.CLUSTER).items()
        if names is None or name in names
    ]


def describe_topic(
    view: ConfigView, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """
    Describe a topic's keys.

    :param overrides: the topic's own; invalid ones are omitted.
    :param names: the keys to describe, or None for all; unknown ones are omitted, as in Kafka.
    """
    return _overridden(view, TOPIC_KEYS, usable_topic_overrides(overrides), Source.TOPIC, names)


def describe_group(
    view: ConfigView, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """
    Describe a consumer group's keys (config resource ``GROUP``).

    :param overrides: the group's own, as stored.
    :param names: the keys to describe, or None for all; unknown ones are omitted, as in Kafka.
    """
    return _overridden(view, GROUP_KEYS, overrides, Source.GROUP, names)


def _overridden(
    view: ConfigView,
    keys: Mapping[str, ConfigKey[Any]],
    overrides: Mapping[str, str],
    source: Source,
    names: Collection[str] | None,
) -> list[ConfigEntry]:
    """Describe the keys of a resource whose overrides take precedence over the broker's values."""
    entries: list[ConfigEntry] = []
    for name, key in keys.items():
        if names is not None and name not in names:
            continue
        synonyms = _synonyms(view, key)
        value = key.text(view.get(key))
        if name in overrides:
            value = overrides[name]
            synonyms.insert(0, Synonym(name, value, source))
        entries.append(_entry(name, key, value, synonyms, read_only=False))
    return entries


def _entry(
    name: str, key: ConfigKey[Any], value: str | None, synonyms: list[Synonym], *, read_only: bool
) -> ConfigEntry:
    source = synonyms[0].source if synonyms else Source.DEFAULT
    if key.sensitive:
        value = None
        synonyms = [synonym._replace(value=None) for synonym in synonyms]
    return ConfigEntry(name, value, source, read_only, key.sensitive, key.type, tuple(synonyms), key.doc)


def _synonyms(view: ConfigView, key: ConfigKey[Any]) -> list[Synonym]:
    said = [Synonym(setting.name, setting.text, setting.source) for setting in view.settings(key)]
    if key in view.in_use:
        # Options of the command line belong to the static configuration.
        said.insert(0, Synonym(key.name, view.in_use[key], Source.STATIC))
    default = key.text(key.default)
    return said if default is None else [*said, Synonym(key.name, default, Source.DEFAULT)]


def _narrow_settings(view: ConfigView) -> dict[str, list[Synonym]]:
    """The settings of one listener, or of one mirror."""
    found: dict[str, list[Synonym]] = {}
    for source in (Source.BROKER, Source.CLUSTER, Source.STATIC):
        for name, text in view.layer(source).items():
            if name.startswith((LISTENER_PREFIX, FLOW_PREFIX)):
                found.setdefault(name, []).append(Synonym(name, text, source))
    return found
