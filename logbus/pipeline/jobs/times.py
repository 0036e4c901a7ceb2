"""Times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def time_text(ms: int) -> str:
    """
    A time as ISO 8601 has it, in UTC; one that no calendar has, as its number.

    :param ms: milliseconds since 1970; any that a record can have.
    """
    try:
        at = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
    return f"{at}.{ms % 1000:03}Z" if ms % 1000 else f"{at}Z"
