"""Compiles regular expressions of RE2, whose matching takes linear time, whoever wrote them. Pure."""

from __future__ import annotations

from typing import Any

MAX_MEMORY_BYTES = 8 << 20
"""RE2's own limit for a compiled expression."""


def compile_re2(pattern: str, max_memory: int = MAX_MEMORY_BYTES) -> Any:
    """
    Compile an expression; the engine is imported with the first one.

    :param max_memory: bytes of the compiled expression.
    :raises ValueError: it is not an expression of RE2, or takes more memory; the message is RE2's reason.
    :raises ImportError: google-re2 is not installed.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = max_memory
    try:
        return re2.compile(pattern, options)
    except re2.error as e:
        reason = e.args[0] if e.args else "?"
        raise ValueError(reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)) from None
