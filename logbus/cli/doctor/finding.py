"""
Something to mend. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from attrs import frozen


class Weight(IntEnum):
    """The severity of a finding; the most severe has the lowest number."""

    BROKEN = 0
    """Brokers do not start, clients are refused, or records are lost."""
    RISK = 1
    """It works now, and something that is bound to happen breaks it."""
    BETTER = 2
    """It works, and could do so faster or safer."""

    @property
    def word(self) -> str:
        """Its name for reports."""
        return self.name.lower()


@frozen
class Finding:
    """
    Something to mend.

    :ivar subject: what it is about, such as a directory or a key.
    :ivar what: what was found, a sentence without its end.
    :ivar otherwise: what happens if nobody does anything, a sentence.
    :ivar remedy: what to do, a sentence.
    """

    weight: Weight
    subject: str
    what: str
    otherwise: str
    remedy: str


def by_weight(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings: the heaviest first, else in the order found."""
    return sorted(findings, key=lambda finding: finding.weight)
