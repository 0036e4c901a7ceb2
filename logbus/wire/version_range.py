"""Ranges of message versions, as Kafka writes them: ``"4-18"``, ``"9+"``, ``"0"``."""

from __future__ import annotations

import re
from typing import NamedTuple

LAST_VERSION = 32767
_SPELLING = re.compile(r"(\d+)(?:(\+)|-(\d+))?")


class VersionRange(NamedTuple):
    """
    The versions from ``min`` to ``max``, both included.

    A named tuple, so that it unpacks and compares like a pair.
    """

    min: int
    max: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """
        Parse ``"4-18"``, ``"9+"`` (no end), ``"3"`` or ``"none"`` (no version at all).

        :raises ValueError: ``text`` is none of these.
        """
        if text == "none":
            return NO_VERSIONS
        match = _SPELLING.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a range of versions; write '4-18', '9+', '3' or 'none'")
        first = int(match[1])
        if match[2]:
            return cls(first, LAST_VERSION)
        last = int(match[3]) if match[3] else first
        if last < first:
            raise ValueError(f"the range of versions {text!r} ends before it begins")
        return cls(first, last)

    def includes(self, version: int) -> bool:
        """Whether ``version`` is in the range."""
        return self.min <= version <= self.max

    def __str__(self) -> str:
        if self.max < self.min:
            return "none"
        if self.max == self.min:
            return str(self.min)
        return f"{self.min}+" if self.max == LAST_VERSION else f"{self.min}-{self.max}"


NO_VERSIONS = VersionRange(0, -1)
ALL_VERSIONS = VersionRange(0, LAST_VERSION)
