"""The lines of ``kafka-configs --describe``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from logbus.cli.kafka_scripts.config_entities import DEFAULT, Entity, java_double, singular
from logbus.client.admin.config_admin import ConfigEntry, ConfigSource
from logbus.client.admin.quota_admin import QuotaEntity

_SOURCES = {
    ConfigSource.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    ConfigSource.DYNAMIC_BROKER: "DYNAMIC_BROKER_CONFIG",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    ConfigSource.STATIC_BROKER: "STATIC_BROKER_CONFIG",
    ConfigSource.DEFAULT: "DEFAULT_CONFIG",
    ConfigSource.DYNAMIC_BROKER_LOGGER: "DYNAMIC_BROKER_LOGGER_CONFIG",
    ConfigSource.CLIENT_METRICS: "DYNAMIC_CLIENT_METRICS_CONFIG",
    ConfigSource.GROUP: "DYNAMIC_GROUP_CONFIG",
    ConfigSource.UNKNOWN: "UNKNOWN",
}
_DYNAMIC = {
    "topics": ConfigSource.TOPIC,
    "brokers": ConfigSource.DYNAMIC_BROKER,
    "groups": ConfigSource.GROUP,
    "broker-loggers": None,
}
_QUOTA_NAMES = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}


def config_lines(entity: Entity, entries: Iterable[ConfigEntry], *, every: bool) -> Iterator[str]:
    """
    The lines about the settings of an entity.

    :param every: not only those that are set for it.
    """
    if entity.name == DEFAULT:
        yield f"Default configs for {entity.type} in the cluster are:"
    else:
        yield f"{'All' if every else 'Dynamic'} configs for {singular(entity.type)} {entity.name} are:"
    wanted = ConfigSource.DYNAMIC_DEFAULT_BROKER if entity.name == DEFAULT else _DYNAMIC[entity.type]
    for each in sorted(entries, key=lambda each: each.name):
        if every or wanted in (None, each.source):
            synonyms = ", ".join(f"{_SOURCES[one.source]}:{one.name}={_value(one.value)}" for one in each.synonyms)
            sensitive = str(each.sensitive).lower()
            yield f"  {each.name}={_value(each.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def quota_line(entity: QuotaEntity, values: Mapping[str, float]) -> str:
    """The line about the quotas of an entity."""
    names = ", ".join(
        f"the default {_QUOTA_NAMES[kind]}" if name is None else f"{_QUOTA_NAMES[kind]} '{name}'"
        for kind, name in entity.parts
    )
    quotas = ", ".join(f"{name}={java_double(value)}" for name, value in sorted(values.items()))
    return f"Quota configs for {names} are {quotas}"


def scram_line(user: str, mechanisms: Mapping[str, int]) -> str:
    """The line about the passwords of a user."""
    credentials = ", ".join(f"{name}=iterations={count}" for name, count in sorted(mechanisms.items()))
    return f"SCRAM credential configs for user-principal '{user}' are {credentials}"


def _value(value: str | None) -> str:
    return "null" if value is None else value
