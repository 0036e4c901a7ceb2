"""
The value of ``share.auto.offset.reset``: where a group begins to read a partition (Kafka: AutoOffsetResetStrategy).
"""

from __future__ import annotations

import re

from attrs import frozen

EARLIEST, LATEST, BY_DURATION = "earliest", "latest", "by_duration"

_DURATION = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?=\d)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d{1,9})?)S)?)?", re.IGNORECASE
)
_SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


@frozen
class OffsetReset:
    """
    Where a group begins.

    :ivar strategy: :data:`EARLIEST`, :data:`LATEST` or :data:`BY_DURATION`.
    :ivar duration: how long ago, as in ISO 8601, if by duration; else empty.
    """

    strategy: str
    duration: str = ""

    @property
    def duration_ms(self) -> int:
        """How long ago, in ms; 0 if it is not by duration."""
        match = _DURATION.fullmatch(self.duration)
        if match is None:
            return 0
        return round(sum(float(match[unit] or 0) * seconds for unit, seconds in _SECONDS.items()) * 1000)

    def __str__(self) -> str:
        return f"{self.strategy}:{self.duration}" if self.strategy == BY_DURATION else self.strategy


def parse_offset_reset(text: str) -> OffsetReset:
    """
    Parse ``earliest``, ``latest``, or ``by_duration:PnDTnHnMn.nS``.

    :raises ValueError: it is something else.
    """
    strategy, _, duration = text.partition(":")
    if strategy == BY_DURATION:
        if _DURATION.fullmatch(duration) is None or len(duration) < 3:
            raise ValueError(text)
    elif strategy not in (EARLIEST, LATEST) or ":" in text:
        raise ValueError(text)
    return OffsetReset(strategy, duration)
