"""Changes of a group's state, each with its record, that can be undone if the records cannot be appended. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

from logbus.coordination.group import Change


@define(eq=False)
class RecordedChanges:
    """The base of the recorded states of groups: every setter emits the record of its change."""

    group_id: str
    _written: list[Change] = field(factory=list, init=False)
    _undo: list[Callable[[], None]] = field(factory=list, init=False)

    def begin(self) -> None:
        """Begin a new set of changes; earlier ones cannot be undone any more."""
        self._written = []
        self._undo = []

    def written(self) -> list[Change]:
        """The records of the changes since :meth:`begin`, in order."""
        return self._written

    def undo(self) -> None:
        """Undo the changes since :meth:`begin`."""
        for take_back in reversed(self._undo):
            take_back()
        self.begin()

    def _write(self, change: Change, take_back: Callable[[], None]) -> None:
        self._written.append(change)
        self._undo.append(take_back)


def put(values: dict[str, Any], key: str, value: Any | None) -> None:
    """Set an entry; None removes it."""
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
