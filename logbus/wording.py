"""Words of messages. Pure."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """``1 record``, ``2 records``: a noun whose plural has an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
