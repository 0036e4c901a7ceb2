"""
Which topics a consumer wants, when it does not name them: a regular expression that a whole name must match, or must
not. Matched in linear time (RE2), because expressions of other members are matched, too. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar

from attrs import field, frozen

from logbus.errors import ConfigError

LONGEST = 2048
"""Characters of an expression."""
MEMORY = 512 * 1024
"""Bytes that a compiled expression may take."""
INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics of the brokers' own."""


@lru_cache(maxsize=64)
def _compiled(expression: str) -> Callable[[str], bool]:
    if len(expression) > LONGEST:
        raise ConfigError(f"the topic filter has {len(expression)} characters; at most {LONGEST} are allowed")
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY
    try:
        fullmatch = re2.compile(expression, options=options).fullmatch
    except re2.error as e:
        reason = e.args[0] if e.args else "?"
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ConfigError(f"the topic filter {expression!r} is not a regular expression of RE2: {text}") from None
    return lambda name: fullmatch(name) is not None


@frozen
class TopicFilter:
    """
    Base of :class:`WhiteList` and :class:`BlackList`.

    :ivar expression: in the syntax of RE2, without look-around and back references.
    :raise ConfigError: it is not one.
    """

    pattern: ClassVar[str]
    """What the consumer id registry calls it."""

    expression: str = field()

    @expression.validator
    def _check(self, _: object, expression: str) -> None:
        _compiled(expression)

    def allows(self, topic: str) -> bool:
        """Whether a topic of this name is wanted."""
        raise NotImplementedError

    def _matches(self, topic: str) -> bool:
        return _compiled(self.expression)(topic)


@frozen
class WhiteList(TopicFilter):
    """Topics whose whole name matches: ``WhiteList(r"page_.*")``."""

    pattern = "white_list"

    def allows(self, topic: str) -> bool:
        """Whether it matches."""
        return self._matches(topic)


@frozen
class BlackList(TopicFilter):
    """All topics but those whose whole name matches: ``BlackList(r"test_.*")``."""

    pattern = "black_list"

    def allows(self, topic: str) -> bool:
        """Whether it does not match."""
        return not self._matches(topic)
