"""Chooses topics by the expression of ``--topic`` or ``--include``: regular expressions, separated by commas. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from logbus.cli.kafka_scripts.option_parser import UsageError


def topic_filter(expression: str) -> Callable[[str], bool]:
    """
    Return whether a topic's whole name matches one of the regular expressions.

    :raise UsageError: one is not a regular expression.
    """
    pattern = "|".join(each for each in re.sub(r"[\s\"']", "", expression).split(",") if each)
    try:
        compiled = re.compile(pattern)
    except re.error as e:
        raise UsageError(f"{expression} is an invalid regex: {e}") from None
    return lambda name: compiled.fullmatch(name) is not None
