"""Which topics or groups are meant: regular expressions of whole names (Kafka: TopicFilter, GroupFilter). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import field, frozen

from logbus.config.kinds import split_expressions
from logbus.errors import ConfigError

TOPICS_EXCLUDED = (r".*[\-\.]internal", r".*\.replica", r"__.*")
GROUPS_EXCLUDED = (r"console-consumer-.*", r"connect-.*", r"__.*")


def _patterns(expressions: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    found = []
    for each in expressions:
        try:
            found.append(re.compile(each))
        except re.error as e:
            raise ConfigError(
                f"{each!r} is not a regular expression: {e}; such as orders, or orders-.* for several"
            ) from None
    return tuple(found)


@frozen
class NameFilter:
    """
    Names that match one expression of the first kind, and none of the second.

    :ivar include: expressions of whole names.
    :ivar exclude: the same.
    :raises ConfigError: one is not a regular expression.
    """

    include: tuple[re.Pattern[str], ...] = field(converter=_patterns)
    exclude: tuple[re.Pattern[str], ...] = field(converter=_patterns, default=())

    def allows(self, name: str) -> bool:
        """Whether a name is meant."""
        return any(each.fullmatch(name) for each in self.include) and not any(
            each.fullmatch(name) for each in self.exclude
        )


def all_expressions(lists: Iterable[str]) -> list[str]:
    """The expressions of all lists; see :func:`.split_expressions`."""
    return [each for text in lists for each in split_expressions(text)]
