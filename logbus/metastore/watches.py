"""One-shot watches of one session: who wants to hear what happens at which path."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field
from twisted.logger import Logger

from logbus.metastore.imetastore import EventKind, WatchedEvent, Watcher


@define(eq=False)
class Watches:
    """
    Watchers by path, those of a node's data apart from those of its children.

    A watcher left twice at one place hears once, and one that waits for data and for children hears of a deletion
    once, as with ZooKeeper.
    """

    _data: dict[str, dict[Watcher, None]] = field(factory=dict, init=False)
    _children: dict[str, dict[Watcher, None]] = field(factory=dict, init=False)
    _log = Logger()

    def on_data(self, path: str, watcher: Watcher) -> None:
        """Hear when the node is created, changed or deleted."""
        self._data.setdefault(path, {})[watcher] = None

    def on_children(self, path: str, watcher: Watcher) -> None:
        """Hear when a child comes or goes, or the node is deleted."""
        self._children.setdefault(path, {})[watcher] = None

    def clear(self) -> None:
        """Forget all: the connection that they were left over is gone."""
        self._data.clear()
        self._children.clear()

    def take(self, events: Iterable[WatchedEvent]) -> list[tuple[Watcher, WatchedEvent]]:
        """Remove the watchers that these events concern; the caller tells them, in this order."""
        due: list[tuple[Watcher, WatchedEvent]] = []
        if not self._data and not self._children:
            return due
        for event in events:
            heard: dict[Watcher, None] = {}
            if event.kind is not EventKind.CHILDREN:
                heard.update(self._data.pop(event.path, {}))
            if event.kind in (EventKind.CHILDREN, EventKind.DELETED):
                heard.update(self._children.pop(event.path, {}))
            due.extend((watcher, event) for watcher in heard)
        return due

    def tell(self, watcher: Watcher, event: WatchedEvent) -> None:
        """Call a watcher; what it raises is a bug of its own and stops nobody else."""
        try:
            watcher(event)
        except Exception:
            self._log.failure("a watcher of {path} failed", path=event.path)
