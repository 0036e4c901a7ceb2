"""
Regular expressions of clients, matched in linear time (RE2): a hostile one costs no more than a plain one.

The engine is imported when the first expression comes. It takes UTF-8 and Perl's classes, and no back references nor
look-around; so do Kafka's brokers, which document the same syntax (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from logbus.errors import ApiError, ErrorCode

LONGEST = 2048
"""Characters of an expression: it is kept in a record, and reading it may take 20 µs for each of them."""

MEMORY = 512 * 1024
"""Bytes that a compiled expression may take: large ones take milliseconds to compile, and as long to match a name."""

Matches = Callable[[str], bool]


@lru_cache(maxsize=64)
def compiled(expression: str) -> Matches:
    """
    A test whether a whole name matches.

    :raise ApiError: INVALID_REGULAR_EXPRESSION: it does not compile, or the engine is not installed.
    """
    if len(expression) > LONGEST:
        raise _refused(f"the regular expression has {len(expression)} characters; at most {LONGEST} are allowed")
    try:
        import re2
    except ImportError:
        raise _refused(
            "this broker cannot match regular expressions: google-re2 is not installed (pip install google-re2)"
        ) from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY
    try:
        fullmatch = re2.compile(expression, options=options).fullmatch
    except re2.error as e:
        reason = e.args[0] if e.args else "?"
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise _refused(f"the regular expression {expression!r} does not compile: {text}") from None
    return lambda name: fullmatch(name) is not None


def matching(expression: str, names: Iterable[str]) -> frozenset[str]:
    """
    The names that an expression matches wholly; about 2 µs a name, at worst some 100.

    :raise ApiError: see :func:`compiled`.
    """
    matches = compiled(expression)
    return frozenset(name for name in names if matches(name))


def _refused(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
