"""
The declaration of a configuration key: its name, type, default, scope and documentation (Kafka: ConfigDef.ConfigKey).

:mod:`logbus.config.keys` declares all keys; start-up checks, DescribeConfigs, ``--help`` and the reference page use the
declarations.
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
    """The way in which a broker key may be changed while brokers run (KIP-226); the value is Kafka's "update mode"."""

    NO = "read-only"
    BROKER = "per-broker"
    CLUSTER = "cluster-wide"


class Scope(Enum):
    """The resources that have a key."""

    BROKER = "broker"
    TOPIC = "topic"
    BOTH = "broker and topic"
    GROUP = "group"


@frozen(eq=False)
class Fallback(Generic[T]):
    """
    A key that applies while a finer one is not set, as ``log.retention.hours`` for ``log.retention.ms``.

    :ivar convert: converts the coarser key's value to the finer key's unit.
    """

    key: ConfigKey[Any]
    convert: Callable[[Any], T]


@frozen(eq=False)
class ConfigKey(Generic[T]):
    """
    A key. There is one object per key, compared by identity.

    :ivar name: its name on brokers; for keys of topics or groups only, their name for it.
    :ivar default: the default value.
    :ivar doc: one or two sentences for operators; reST, with units.
    :ivar topic: its name on topics, if topics have it.
    :ivar group: its name on consumer and share groups, if they have it (KIP-848's ``GROUP`` resources).
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
        Parse a value.

        :param name: the name under which it was set, if that differs from the key's.
        :raises ConfigError: names the key, the value and what is accepted.
        """
        try:
            return self.kind.parse(text.strip())
        except ValueError:
            shown = "the value" if self.sensitive else repr(text)
            raise ConfigError(f"{name or self.name}: {shown} is not valid; accepted: {self.kind.accepts}") from None

    def text(self, value: T) -> str | None:
        """Format a value so that :meth:`parse` reads it back; None if not set."""
        return None if value is None else self.kind.format(value)
