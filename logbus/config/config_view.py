"""
The layered view of a broker's configuration: default < file < ``--set`` < cluster default < broker < topic.

Texts are parsed once, when a layer is set. The effective values are one dictionary, replaced at every change, so that
:meth:`ConfigView.get` is a look-up and changes are atomic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from attrs import define, field

from logbus.config import keys
from logbus.config.config_key import ConfigKey, Dynamic
from logbus.config.key_table import (
    BROKER_KEYS,
    GROUP_KEYS,
    LISTENER_PREFIX,
    TOPIC_KEYS,
    broker_key,
    ignored_topic_key,
    listener_key_name,
    unknown_topic_key,
)
from logbus.config.setting_checks import check_static, read_dynamic, usable_topic_overrides
from logbus.config.topic_config import TopicConfig
from logbus.config.validation import check_broker, check_broker_change, check_remote_change, check_topic
from logbus.errors import ConfigError

T = TypeVar("T")


class Source(IntEnum):
    """The source of a value, by Kafka's numbers (``ConfigSource`` of DescribeConfigs)."""

    TOPIC = 1
    BROKER = 2
    CLUSTER = 3
    STATIC = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    GROUP = 8


class Setting(NamedTuple):
    """A setting of a key in one layer, under its own name or a fallback's."""

    name: str
    text: str
    source: Source
    value: Any


_FIELDS: tuple[tuple[str, str, ConfigKey[Any]], ...] = tuple(
    (name, name.replace(".", "_"), key) for name, key in TOPIC_KEYS.items()
)


class Reloaded(NamedTuple):
    """
    The changes found when a configuration was read again.

    :ivar changed: texts by name; None: it is not set any more.
    :ivar later: names of keys that are used from the next start on.
    """

    changed: Mapping[str, str | None]
    later: tuple[str, ...]


@define(eq=False)
class ConfigView:
    """
    The layers of a broker's configuration, and the effective values.

    Create it with :meth:`load`.

    :ivar warnings: sentences about the static configuration, for the log.
    :ivar in_use: texts of read-only keys that command line options or the system chose, such as the bound ports. They
        are shown, but :meth:`get` does not return them.
    """

    _layers: dict[Source, Mapping[str, str]]
    _values: dict[ConfigKey[Any], Any] = field(factory=dict, init=False)
    _topic_defaults: TopicConfig = field(factory=TopicConfig, init=False)
    _subscribers: list[tuple[frozenset[ConfigKey[Any]], Callable[[ConfigView], object]]] = field(
        factory=list, init=False
    )
    warnings: tuple[str, ...] = field(default=(), init=False)
    _origins: Mapping[str, str] = field(factory=dict, init=False)
    in_use: dict[ConfigKey[Any], str] = field(factory=dict, init=False)

    @classmethod
    def load(
        cls,
        file: Mapping[str, str] | None = None,
        set: Mapping[str, str] | None = None,
        origins: Mapping[str, str] | None = None,
        *,
        warnings: Iterable[str] = (),
    ) -> ConfigView:
        """
        Parse the static layers.

        :param file: the settings of ``server.properties``.
        :param set: the settings of ``--set`` and of options that set keys; take precedence over the file.
        :param origins: where each key is set, such as ``server.properties, line 3``, for errors.
        :param warnings: about the file, to which those about the settings are added.
        :raises ConfigError: a key is unknown, or values are invalid, alone or together.
        """
        noted = [*warnings]
        static: dict[str, str] = {}
        view = cls({Source.BROKER: {}, Source.CLUSTER: {}, Source.STATIC: static})
        view._origins = origins or {}
        for name, text in {**(file or {}), **(set or {})}.items():
            try:
                warning = check_static(name, text)
            except ConfigError as error:
                raise view.located(name, error) from None
            if warning is None:
                static[name] = text.strip()
            else:
                noted.append(warning)
        noted += view._adopt(view._layers)
        view.warnings = tuple(noted)
        return view

    @property
    def static(self) -> Mapping[str, str]:
        """The texts of the static layer, by key."""
        return self._layers[Source.STATIC]

    def located(self, name: str, error: ConfigError) -> ConfigError:
        """Add to an error where the key of a static layer is set, if that is known."""
        origin = self._origins.get(name)
        return error if origin is None else ConfigError(f"{origin}: {error}")

    def get(self, key: ConfigKey[T]) -> T:
        """Return the effective value."""
        value: T = self._values[key]
        return value

    def listener_get(self, listener: str, key: ConfigKey[T], mechanism: str | None = None) -> T:
        """Return the effective value on a listener, optionally for one SASL mechanism."""
        names = [listener_key_name(listener, key, mechanism)] if mechanism else []
        for name in [*names, listener_key_name(listener, key)]:
            for layer in self._layers.values():
                if name in layer:
                    return key.parse(layer[name], name)
        return self.get(key)

    def listener_setting_name(self, listener: str, key: ConfigKey[Any]) -> str:
        """Return the name under which a key is effective on a listener: its own, or that for the listener alone."""
        name = listener_key_name(listener, key)
        return name if any(name in layer for layer in self._layers.values()) else key.name

    def is_set(self, key: ConfigKey[Any]) -> bool:
        """Return whether a key is set, under its own name, a fallback's, or for a listener."""
        suffix = "." + key.name
        return next(self.settings(key), None) is not None or any(
            name.startswith(LISTENER_PREFIX) and name.endswith(suffix)
            for layer in self._layers.values()
            for name in layer
        )

    def settings(self, key: ConfigKey[Any]) -> Iterator[Setting]:
        """
        Yield the settings of a broker key, the effective one first.

        The key's own name takes precedence over its fallbacks in any layer: ``log.retention.ms`` in the file wins over
        ``log.retention.hours`` given with ``--set``, as in Kafka.
        """
        return _settings(key, self._layers)

    def layer(self, source: Source) -> Mapping[str, str]:
        """Return the texts of a layer: BROKER, CLUSTER or STATIC."""
        return self._layers[source]

    @property
    def topic_defaults(self) -> TopicConfig:
        """Return the configuration of a topic without overrides."""
        return self._topic_defaults

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """
        Return the configuration of a topic.

        :param overrides: the topic's overrides, by the topic's names.
        :raises ConfigError: a key is unknown or a value invalid; :func:`.usable_topic_overrides` removes those.
        """
        if not overrides:
            return self._topic_defaults
        return self.validate_topic_overrides(overrides)[0]

    def validate_topic_overrides(self, overrides: Mapping[str, str | None]) -> tuple[TopicConfig, list[str]]:
        """
        Validate a topic's overrides, all of them together.

        :returns: the resulting configuration, and warnings.
        :raises ConfigError: names the key, the value and what is accepted.
        """
        warnings: list[str] = []
        for name, text in overrides.items():
            if text is None:
                raise ConfigError(f"{name}: a value is missing")
            if name not in TOPIC_KEYS:
                warning = ignored_topic_key(name, text)
                if warning is None:
                    raise unknown_topic_key(name)
                warnings.append(warning)
        config = _topic_config(self._values, overrides)
        findings = check_topic(config)
        findings.raise_errors()
        return config, warnings + findings.warnings

    def validate_topic_change(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """
        Validate a change of a topic's overrides, both of which are valid.

        :raises ConfigError: what was in effect does not allow the change.
        """
        check_remote_change(
            _topic_config(self._values, usable_topic_overrides(before)),
            _topic_config(self._values, after),
            is_system_enabled=self.get(keys.REMOTE_LOG_STORAGE_SYSTEM_ENABLE),
        ).raise_errors()

    def validate_broker_overrides(self, overrides: Mapping[str, str | None], *, cluster: bool) -> list[str]:
        """
        Validate the dynamic layer of this broker, or of all brokers, as a whole.

        :param cluster: whether it is the layer of all brokers.
        :returns: warnings.
        :raises ConfigError: names the key, the value and what is accepted.
        """
        source = Source.CLUSTER if cluster else Source.BROKER
        texts, warnings = read_dynamic(overrides, cluster)
        values, _, doubts = self._resolve({**self._layers, source: texts})
        check_broker_change(self.get, values.__getitem__).raise_errors()
        return warnings + doubts

    def update(self, *, cluster: Mapping[str, str] | None = None, broker: Mapping[str, str] | None = None) -> list[str]:
        """
        Replace dynamic layers; None keeps a layer. Calls the subscribers of changed keys.

        :returns: warnings.
        :raises ConfigError: a value is invalid; nothing has changed.
        :raises ExceptionGroup: subscribers raised; the change is effective, and all of them were called.
        """
        layers = dict(self._layers)
        warnings: list[str] = []
        for source, overrides in ((Source.CLUSTER, cluster), (Source.BROKER, broker)):
            if overrides is not None:
                layers[source], more = read_dynamic(overrides, source is Source.CLUSTER)
                warnings += more
        return warnings + self._adopt(layers)

    def reload(self, static: Mapping[str, str]) -> Reloaded:
        """
        Adopt a static layer that was read again, as far as keys may be changed while the broker runs. Calls the
        subscribers of changed keys.

        :returns: what has changed.
        :raises ConfigError: the values do not fit together; nothing has changed.
        :raises ExceptionGroup: as of :meth:`update`.
        """
        old, changed, later = self.static, dict[str, str | None](), list[str]()
        for name in sorted({*old, *static}):
            if old.get(name) != static.get(name):
                key = broker_key(name)
                if key is None or key.dynamic is Dynamic.NO:
                    later.append(name)
                else:
                    changed[name] = static.get(name)
        if changed:
            kept = {name: text for name, text in old.items() if name not in changed}
            given = {name: text for name, text in changed.items() if text is not None}
            self._adopt({**self._layers, Source.STATIC: kept | given})
        return Reloaded(changed, tuple(later))

    def with_broker_overrides(self, overrides: Mapping[str, str | None]) -> ConfigView:
        """
        Return a view with another dynamic layer of this broker, to check what would be.

        :raises ConfigError: names the key, the value and what is accepted.
        """
        texts, _ = read_dynamic(overrides, cluster=False)
        view = ConfigView({**self._layers, Source.BROKER: texts})
        view._adopt(view._layers)
        return view

    def subscribe(self, keys: Iterable[ConfigKey[Any]], fn: Callable[[ConfigView], object]) -> Callable[[], None]:
        """
        Call ``fn`` with this view after each change of any of ``keys``, also for single listeners.

        :returns: call it to end the subscription.
        """
        entry = (frozenset(keys), fn)
        self._subscribers.append(entry)

        def unsubscribe() -> None:
            if entry in self._subscribers:
                self._subscribers.remove(entry)

        return unsubscribe

    def _adopt(self, layers: dict[Source, Mapping[str, str]]) -> list[str]:
        values, defaults, warnings = self._resolve(layers)
        changed = {key for key, value in values.items() if self._values.get(key, _ABSENT) != value}
        changed |= _changed_for_listeners(self._layers, layers)
        self._layers, self._values, self._topic_defaults = layers, values, defaults
        errors: list[Exception] = []
        for wanted, fn in list(self._subscribers):
            if not changed.isdisjoint(wanted):
                try:
                    fn(self)
                except Exception as error:
                    errors.append(error)
        if errors:
            raise ExceptionGroup("telling of changed configuration", errors)
        return warnings

    def _resolve(
        self, layers: Mapping[Source, Mapping[str, str]]
    ) -> tuple[dict[ConfigKey[Any], Any], TopicConfig, list[str]]:
        values: dict[ConfigKey[Any], Any] = {}
        for key in BROKER_KEYS.values():
            setting = next(_settings(key, layers), None)
            values[key] = key.default if setting is None else setting.value
        for key in chain(TOPIC_KEYS.values(), GROUP_KEYS.values()):
            values.setdefault(key, key.default)
        defaults = _topic_config(values, {})
        broker, topic = check_broker(values.__getitem__), check_topic(defaults)
        broker.errors.extend(topic.errors)
        broker.raise_errors()
        return values, defaults, broker.warnings + topic.warnings


_ABSENT = object()


def _settings(key: ConfigKey[Any], layers: Mapping[Source, Mapping[str, str]]) -> Iterator[Setting]:
    for source, layer in layers.items():
        text = layer.get(key.name)
        if text is not None:
            yield Setting(key.name, text, source, key.parse(text))
    for fallback in key.fallbacks:
        for setting in _settings(fallback.key, layers):
            if setting.value is not None:
                yield setting._replace(value=fallback.convert(setting.value))


def _topic_config(values: Mapping[ConfigKey[Any], Any], overrides: Mapping[str, str | None]) -> TopicConfig:
    found: dict[str, Any] = {}
    for name, attribute, key in _FIELDS:
        text = overrides.get(name)
        found[attribute] = values[key] if text is None else key.parse(text, name)
    found["cleanup_policy"] = frozenset(found["cleanup_policy"])
    return TopicConfig(**found)


def _changed_for_listeners(
    old: Mapping[Source, Mapping[str, str]], new: Mapping[Source, Mapping[str, str]]
) -> set[ConfigKey[Any]]:
    def entries(layers: Mapping[Source, Mapping[str, str]]) -> dict[str, str]:
        return {
            name: text
            for source in reversed(list(layers))
            for name, text in layers[source].items()
            if name.startswith(LISTENER_PREFIX)
        }

    before, after = entries(old), entries(new)
    names = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return {key for name in names if (key := broker_key(name)) is not None}
