"""Functions that declare keys of the common types; see :class:`logbus.config.config_key.ConfigKey` for the fields."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from logbus.config import kinds
from logbus.config.config_key import ConfigKey, Dynamic, Fallback, Scope
from logbus.config.kinds import ConfigType, Kind

T = TypeVar("T")


def key(kind: Kind[T], name: str, default: T, doc: str, *, topic: str | None = None, **more: Any) -> ConfigKey[T]:
    """A key of any kind; with a topic name, it belongs to brokers and topics unless ``scope`` is given."""
    more.setdefault("scope", Scope.BROKER if topic is None else Scope.BOTH)
    return ConfigKey(name, kind, default, doc, topic=topic, **more)


def boolean(name: str, default: bool, doc: str, **more: Any) -> ConfigKey[bool]:
    """``true`` or ``false``."""
    return key(kinds.boolean(), name, default, doc, **more)


def int32(
    name: str, default: int, doc: str, *, at_least: int | None = None, at_most: int | None = None, **more: Any
) -> ConfigKey[int]:
    """A 32-bit number."""
    return key(kinds.integer(ConfigType.INT, at_least, at_most), name, default, doc, **more)


def int64(
    name: str, default: int, doc: str, *, at_least: int | None = None, at_most: int | None = None, **more: Any
) -> ConfigKey[int]:
    """A 64-bit number."""
    return key(kinds.integer(ConfigType.LONG, at_least, at_most), name, default, doc, **more)


def int16(
    name: str, default: int, doc: str, *, at_least: int | None = None, at_most: int | None = None, **more: Any
) -> ConfigKey[int]:
    """A 16-bit number."""
    return key(kinds.integer(ConfigType.SHORT, at_least, at_most), name, default, doc, **more)


def decimal(name: str, default: float, doc: str, *, at_least: float, at_most: float, **more: Any) -> ConfigKey[float]:
    """A decimal number."""
    return key(kinds.decimal(at_least, at_most), name, default, doc, **more)


def text(name: str, default: str, doc: str, **more: Any) -> ConfigKey[str]:
    """Any text."""
    return key(kinds.string(), name, default, doc, **more)


def optional_text(name: str, doc: str, **more: Any) -> ConfigKey[str | None]:
    """An optional text."""
    return key(kinds.optional(kinds.string()), name, None, doc, **more)


def secret(name: str, doc: str, **more: Any) -> ConfigKey[str | None]:
    """An optional text that is never shown."""
    return key(kinds.optional(kinds.password()), name, None, doc, sensitive=True, **more)


def choice(name: str, default: str, choices: tuple[str, ...], doc: str, **more: Any) -> ConfigKey[str]:
    """One of several words."""
    return key(kinds.one_of(*choices), name, default, doc, **more)


def texts(
    name: str,
    default: tuple[str, ...],
    doc: str,
    *,
    choices: Collection[str] | None = None,
    separator: str = ",",
    empty: bool = True,
    **more: Any,
) -> ConfigKey[tuple[str, ...]]:
    """A list of texts."""
    return key(kinds.listed(choices, separator=separator, empty=empty), name, default, doc, **more)


def times(coarse: ConfigKey[Any], factor: int) -> Fallback[int]:
    """Fall back to a key in a coarser unit; negative values ("no limit") keep their meaning, None means unset."""
    return Fallback(coarse, lambda value: value * factor if value >= 0 else -1)


def same(other: ConfigKey[Any]) -> Fallback[Any]:
    """Fall back to a key of the same unit."""
    return Fallback(other, lambda value: value)


CLUSTER = Dynamic.CLUSTER
PER_BROKER = Dynamic.BROKER
TOPIC_ONLY = Scope.TOPIC
