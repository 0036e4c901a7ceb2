"""A member's subscription. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import frozen

from logbus.errors import ConfigError


@frozen
class Subscription:
    """
    Topics by name, or by a regular expression, which includes topics created later.

    :ivar topics: in order.
    :ivar pattern: has to match whole names. In the classic protocol the client matches it, in Python's syntax; in the
        consumer protocol the broker, in RE2's (KIP-848).
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None

    @classmethod
    def of(cls, topics: Iterable[str]) -> Subscription:
        """
        Subscribe to topics by name.

        :raise ConfigError: none is named, or a single string was given.
        """
        if isinstance(topics, str):
            raise ConfigError(f"topics are a list of names, not {topics!r}")
        if not isinstance(topics, Iterable):
            raise ConfigError(f"topics are a list of names, not {topics!r}")
        given = list(topics)
        for each in given:
            if not isinstance(each, str) or not each:
                raise ConfigError(f"topics are a list of names, and {each!r} is none")
        names = tuple(sorted(set(given)))
        if not names:
            raise ConfigError("subscribe to at least one topic, or unsubscribe")
        return cls(topics=names)

    @classmethod
    def matching(cls, pattern: str) -> Subscription:
        """
        Subscribe to all topics whose whole name matches, except internal ones.

        :raise ConfigError: it is empty.
        """
        if not isinstance(pattern, str):
            raise ConfigError(f"a pattern is text, not {pattern!r}: topics have no names of bytes")
        if not pattern:
            raise ConfigError("a pattern has at least one character")
        return cls(pattern=pattern)

    def among(self, names: Iterable[str]) -> tuple[str, ...]:
        """
        The subscribed topics among these names, in order.

        :raise ConfigError: the pattern is no regular expression.
        """
        if self.pattern is None:
            return self.topics
        try:
            expression = re.compile(self.pattern)
        except re.error as e:
            raise ConfigError(f"{self.pattern!r} is not a regular expression: {e}") from e
        return tuple(sorted({name for name in names if expression.fullmatch(name)}))
