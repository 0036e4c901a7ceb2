"""
Topic filters: regular expressions that a topic's whole name must match, or must not match. Pure.

Matched in linear time (RE2), since the expressions of other members are matched, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar

from attrs import field, frozen

from logbus.errors import ConfigError
from logbus.re2_patterns import compile_re2

LONGEST = 2048
"""The most characters of an expression."""
MEMORY = 512 * 1024
"""The most bytes of a compiled expression."""


@lru_cache(maxsize=64)
def _compiled(expression: str) -> Callable[[str], bool]:
    if len(expression) > LONGEST:
        raise ConfigError(f"the topic filter has {len(expression)} characters; at most {LONGEST} are allowed")
    try:
        fullmatch = compile_re2(expression, MEMORY).fullmatch
    except ValueError as e:
        raise ConfigError(f"the topic filter {expression!r} is not a regular expression of RE2: {e}") from None
    return lambda name: fullmatch(name) is not None


@frozen
class TopicFilter:
    """
    Base of :class:`WhiteList` and :class:`BlackList`.

    :ivar expression: in RE2's syntax, without look-around and back references.
    :raise ConfigError: it is not a regular expression.
    """

    pattern: ClassVar[str]
    """Its name in the consumer id registry."""

    expression: str = field()

    @expression.validator
    def _check(self, _: object, expression: str) -> None:
        _compiled(expression)

    def allows(self, topic: str) -> bool:
        """Whether a topic is included."""
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
