"""Formats timestamps for people."""

from __future__ import annotations

from datetime import UTC, datetime


def time_text(ms: int) -> str:
    """
    A time in ISO 8601 and UTC; as a number if it is out of the calendar's range.

    :param ms: milliseconds since 1970, any value.
    """
    try:
        at = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
    return f"{at}.{ms % 1000:03}Z" if ms % 1000 else f"{at}Z"
