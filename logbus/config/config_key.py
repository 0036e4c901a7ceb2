"""
A configuration key: its name, type, default, where it may be set and what it does, said once.

:mod:`logbus.config.keys` declares them all; start-up checks, DescribeConfigs, ``--help`` and the reference page read
the declarations.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar

from attrs import frozen

from logbus.config.kinds import ConfigType, Kind
from logbus.errors import ConfigError

T = TypeVar("T")


class Dynamic(Enum):
    """How a broker key may be changed while brokers run (KIP-226); the value is Kafka's "update mode"."""

    NO = "read-only"
    BROKER = "per-broker"
    CLUSTER = "cluster-wide"


class Scope(Enum):
    """Who carries a key."""

    BROKER = "broker"
    TOPIC = "topic"
    BOTH = "broker and topic"


@frozen(eq=False)
class Fallback(Generic[T]):
    """
    A coarser key that counts while the finer one is not set, as ``log.retention.hours`` does for ``log.retention.ms``.

    :ivar convert: the coarser key's value, in the finer key's terms.
    """

    key: ConfigKey[Any]
    convert: Callable[[Any], T]


@frozen(eq=False)
class ConfigKey(Generic[T]):
    """
    One key. Keys are compared by identity: there is one object for each.

    :ivar name: the broker's name for it; of a key that only topics carry, the topic's.
    :ivar default: in force while nobody says otherwise.
    :ivar doc: one sentence or two for whoever sets it; reST, units included.
    :ivar topic: the topic's name for it, of keys that topics carry.
    :ivar group: the consumer group's name for it, of keys that groups can override (KIP-848's ``GROUP`` resources).
    :ivar sensitive: never shown, not even in error messages.
    :ivar per_listener: whether ``listener.name.<name>.<key>`` sets it for one listener.
    :ivar fallbacks: tried in order while the key itself is not set.
    """

    name: str
    kind: Kind[T]
    default: T
    doc: str
    dynamic: Dynamic = Dynamic.NO
    topic: str | None = None
    group: str | None = None
    scope: Scope = Scope.BROKER
    sensitive: bool = False
    per_listener: bool = False
    fallbacks: tuple[Fallback[T], ...] = ()

    @property
    def type(self) -> ConfigType:
        """The type that DescribeConfigs reports."""
        return self.kind.type

    @property
    def is_list(self) -> bool:
        """Whether IncrementalAlterConfigs may append to it and subtract from it."""
        return self.kind.type is ConfigType.LIST

    @property
    def read_only(self) -> bool:
        """Whether a restart is needed to change it on a broker."""
        return self.dynamic is Dynamic.NO

    def parse(self, text: str, name: str | None = None) -> T:
        """
        Read a value.

        :param name: the name it was set under, where that differs from the key's.
        :raises ConfigError: names the key, the value and what is accepted.
        """
        try:
            return self.kind.parse(text.strip())
        except ValueError:
            shown = "the value" if self.sensitive else repr(text)
            raise ConfigError(f"{name or self.name}: {shown} is not valid; accepted: {self.kind.accepts}") from None

    def text(self, value: T) -> str | None:
        """A value as text that :meth:`parse` reads back; None for "not set"."""
        return None if value is None else self.kind.format(value)
