"""The options of an audit. Pure."""

from __future__ import annotations

from attrs import frozen


@frozen
class AuditOptions:
    """
    The options of an audit.

    :ivar window_ms: the length of windows.
    :ivar since_ms: only records from that time on, in milliseconds since 1970.
    :ivar until_ms: only records before that time.
    :ivar examples: the most examples of a kind and partition.
    """

    window_ms: int = 600_000
    since_ms: int | None = None
    until_ms: int | None = None
    examples: int = 3
