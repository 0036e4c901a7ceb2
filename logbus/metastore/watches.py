"""The one-shot watches of one session, by path."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field
from twisted.logger import Logger

from logbus.metastore.operations import EventKind, WatchedEvent, Watcher


@define(eq=False)
class Watches:
    """
    Watchers by path, those of a node's data apart from those of its children.

    A watcher set twice fires once, and one set for data and children fires once for a deletion, as in ZooKeeper.
    """

    _data: dict[str, dict[Watcher, None]] = field(factory=dict, init=False)
    _children: dict[str, dict[Watcher, None]] = field(factory=dict, init=False)
    _log = Logger()

    @property
    def count(self) -> int:
        """How many paths are watched, those of data and of children apart."""
        return len(self._data) + len(self._children)

    def on_data(self, path: str, watcher: Watcher) -> None:
        """Set a watch for the creation, change or deletion of a node."""
        self._data.setdefault(path, {})[watcher] = None

    def on_children(self, path: str, watcher: Watcher) -> None:
        """Set a watch for added or removed children, or the deletion of the node."""
        self._children.setdefault(path, {})[watcher] = None

    def clear(self) -> None:
        """Remove all: their connection is lost."""
        self._data.clear()
        self._children.clear()

    def take(self, events: Iterable[WatchedEvent]) -> list[tuple[Watcher, WatchedEvent]]:
        """Remove and return the watchers of these events; the caller calls them, in this order."""
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
        """Call a watcher; its exceptions are logged and do not affect others."""
        try:
            watcher(event)
        except Exception:
            self._log.failure("a watcher of {path} failed", path=event.path)
