"""
Compiles and matches clients' regular expressions in linear time (RE2), so that a hostile one is not expensive.

The engine is imported on first use. It supports UTF-8 and Perl's character classes, but no back references or
look-around; this is the syntax that Kafka documents (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from logbus.errors import ApiError, ErrorCode
from logbus.re2_patterns import compile_re2

MAX_EXPRESSION_LENGTH = 2048
"""Length limit of an expression: it is stored in a record, and compiling it may take 20 µs for each character."""

MAX_MEMORY_BYTES = 512 * 1024
"""Memory limit of a compiled expression, in bytes: large ones take milliseconds to compile or to match a name."""

Matches = Callable[[str], bool]


@lru_cache(maxsize=64)
def compile_expression(expression: str) -> Matches:
    """
    Compile an expression to a predicate that tests whether a whole name matches.

    :raise ApiError: INVALID_REGULAR_EXPRESSION: it does not compile, or the engine is not installed.
    """
    if len(expression) > MAX_EXPRESSION_LENGTH:
        raise _refused(
            f"the regular expression has {len(expression)} characters; at most {MAX_EXPRESSION_LENGTH} are allowed"
        )
    try:
        fullmatch = compile_re2(expression, MAX_MEMORY_BYTES).fullmatch
    except ImportError:
        raise _refused(
            "this broker cannot match regular expressions: google-re2 is not installed (pip install google-re2)"
        ) from None
    except ValueError as e:
        raise _refused(f"the regular expression {expression!r} does not compile: {e}") from None
    return lambda name: fullmatch(name) is not None


def matching_names(expression: str, names: Iterable[str]) -> frozenset[str]:
    """
    The names that an expression matches entirely. A match takes about 2 µs, at worst about 100 µs.

    :raise ApiError: see :func:`compile_expression`.
    """
    matches = compile_expression(expression)
    return frozenset(name for name in names if matches(name))


def _refused(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
