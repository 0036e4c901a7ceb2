"""Which records of two sides differ, for the windows of which the sums do. Pure."""

from __future__ import annotations

from enum import Enum

from attrs import define, field, frozen


class Kind(Enum):
    """The kinds of differences."""

    MISSING = "missing"
    """The copy lacks it."""
    REPEATED = "repeated"
    """The copy has it more often."""
    FOREIGN = "foreign"
    """The copy has it, and the source does not."""


@frozen
class Example:
    """
    A record that is on one side only.

    :ivar offset: at the source if it is missing, else in the copy.
    :ivar timestamp: milliseconds since 1970.
    """

    kind: Kind
    offset: int
    timestamp: int


@frozen
class WindowDifference:
    """The number of records of a window that differ."""

    missing: int = 0
    repeated: int = 0
    foreign: int = 0


@define
class _Occurrences:
    source: int = 0
    copy: int = 0
    window: int = 0
    source_at: tuple[int, int] = (-1, -1)
    copy_at: tuple[int, int] = (-1, -1)


@define
class Differences:
    """
    The records of both sides, as they are read again.

    :ivar most: so many different records are compared; with more of them, nothing is said about single ones.
    """

    most: int
    _found: dict[int, _Occurrences] = field(factory=dict, init=False)
    is_full: bool = field(default=False, init=False)

    def add_source(self, window: int, digest: int, offset: int, timestamp: int) -> None:
        """Note a record of the source."""
        if (known := self._get(digest, window)) is not None:
            known.source += 1
            known.source_at = offset, timestamp

    def add_copy(self, window: int, digest: int, offset: int, timestamp: int) -> None:
        """Note a record of the copy."""
        if (known := self._get(digest, window)) is not None:
            known.copy += 1
            known.copy_at = offset, timestamp

    def _get(self, digest: int, window: int) -> _Occurrences | None:
        known = self._found.get(digest)
        if known is None:
            if len(self._found) >= self.most:
                self.is_full = True
                return None
            known = self._found[digest] = _Occurrences(window=window)
        return known

    def by_window(self) -> dict[int, WindowDifference]:
        """The number of records that differ, for the windows that have such records."""
        counts: dict[int, list[int]] = {}
        for each in self._found.values():
            surplus = each.copy - each.source
            if surplus:
                place = 0 if surplus < 0 else 1 if each.source else 2
                counts.setdefault(each.window, [0, 0, 0])[place] += abs(surplus)
        return {window: WindowDifference(*each) for window, each in counts.items()}

    def examples(self, most: int) -> list[Example]:
        """Some of these records: the first ones of each kind."""
        found = []
        for each in self._found.values():
            if each.copy < each.source:
                found.append(Example(Kind.MISSING, *each.source_at))
            elif each.copy > each.source:
                found.append(Example(Kind.REPEATED if each.source else Kind.FOREIGN, *each.copy_at))
        found.sort(key=lambda each: (each.kind.value, each.offset))
        return [each for kind in Kind for each in [one for one in found if one.kind is kind][:most]]
