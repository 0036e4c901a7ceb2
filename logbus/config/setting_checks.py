"""
Checks settings one by one: static ones, dynamic ones, and stored ones, of which what is wrong is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from logbus.config.config_key import Dynamic
from logbus.config.key_table import (
    TOPIC_KEYS,
    broker_key,
    ignored_broker_key,
    unknown_broker_key,
)
from logbus.errors import ConfigError


def check_static(name: str, text: str) -> str | None:
    """
    Validate a static setting; return a warning if it is a key of Kafka that is ignored, else None.

    :raises ConfigError: the key is unknown, or the value invalid.
    """
    key = broker_key(name)
    if key is not None:
        key.parse(text, name)
        return None
    warning = ignored_broker_key(name, text)
    if warning is None:
        raise unknown_broker_key(name)
    return warning


def read_dynamic(overrides: Mapping[str, str | None], cluster: bool) -> tuple[dict[str, str], list[str]]:
    """
    Validate a dynamic layer of brokers; return its settings, and warnings about keys that are ignored.

    :param cluster: the layer of all brokers, not of one.
    :raises ConfigError: a key is unknown, cannot be changed so, or has an invalid value.
    """
    texts: dict[str, str] = {}
    warnings: list[str] = []
    for name, text in overrides.items():
        if text is None:
            raise ConfigError(f"{name}: a value is missing")
        key = broker_key(name)
        if key is None:
            warning = ignored_broker_key(name, text)
            if warning is None:
                raise unknown_broker_key(name)
            warnings.append(warning)
            continue
        if key.dynamic is Dynamic.NO:
            raise ConfigError(f"{name} cannot be changed while the broker runs; set it in the file or with --set")
        if cluster and (key.dynamic is Dynamic.BROKER or name != key.name):
            raise ConfigError(f"{name} is a key of single brokers; it has no default for all of them")
        key.parse(text, name)
        texts[name] = text.strip()
    return texts, warnings


def usable_topic_overrides(overrides: Mapping[str, str]) -> dict[str, str]:
    """
    Return a topic's overrides with known keys and valid values.

    Stored overrides may come from Kafka or from a newer logbus: they must not make a topic unusable.
    """
    usable: dict[str, str] = {}
    for name, text in overrides.items():
        if name in TOPIC_KEYS:
            with suppress(ConfigError):
                TOPIC_KEYS[name].parse(text, name)
                usable[name] = text.strip()
    return usable


def usable_broker_overrides(overrides: Mapping[str, str], *, cluster: bool, problems: list[str]) -> dict[str, str]:
    """
    Do the same for a dynamic layer of brokers.

    :param problems: receives a sentence for each override that was removed.
    """
    usable: dict[str, str] = {}
    for name, text in overrides.items():
        try:
            texts, found = read_dynamic({name: text}, cluster)
            usable.update(texts)
        except ConfigError as error:
            found = [str(error)]
        problems.extend(found)
    return usable
