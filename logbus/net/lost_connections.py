"""
Tells of clients' connections that are lost, to those that keep something for them beyond a request.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

Lost = Callable[[int], object]
"""Is called with a connection's id."""


@define(eq=False)
class LostConnections:
    """Calls, once for each connection, who asked to be told of its end."""

    _watching: dict[int, dict[Lost, None]] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._watching)

    def watch(self, connection_id: int, lost: Lost) -> None:
        """Call ``lost`` when an open connection ends; the same one is called once, however often it asks."""
        self._watching.setdefault(connection_id, {})[lost] = None

    def lost(self, connection_id: int) -> None:
        """A connection has ended."""
        for call in self._watching.pop(connection_id, ()):
            call(connection_id)
