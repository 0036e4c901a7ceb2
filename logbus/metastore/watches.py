"""The one-shot watches of one session, by path."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field
from twisted.logger import Logger

from logbus.metastore.operations import EventKind, WatchedEvent, Watcher


@define(eq=False)
class Taken:
    """
    Watchers that were removed for some events.

    :ivar due: the watchers with what they hear, in this order; the caller calls them.
    """

    due: list[tuple[Watcher, WatchedEvent]] = field(factory=list, init=False)
    _places: list[tuple[dict[str, dict[Watcher, None]], str, dict[Watcher, None]]] = field(factory=list, init=False)

    def add(self, event: WatchedEvent, *indexes: dict[str, dict[Watcher, None]]) -> None:
        """Remove those of an event from where they are, by path."""
        path = event.path
        heard: dict[Watcher, None] = {}
        for index in indexes:
            if path in index:
                watchers = index.pop(path)
                self._places.append((index, path, watchers))
                heard.update(watchers)
        if heard:
            self.due.extend((watcher, event) for watcher in heard)

    def put_back(self) -> None:
        """Set them again: nothing has happened after all."""
        for index, path, watchers in self._places:
            index.setdefault(path, {}).update(watchers)


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
        """The number of watched paths, data and children counted apart."""
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

    def take(self, events: Iterable[WatchedEvent]) -> Taken:
        """Remove the watchers of these events."""
        taken = Taken()
        if not self._data and not self._children:
            return taken
        for event in events:
            match event.kind:
                case EventKind.CHILDREN:
                    taken.add(event, self._children)
                case EventKind.DELETED:
                    taken.add(event, self._data, self._children)
                case _:
                    taken.add(event, self._data)
        return taken

    def tell(self, watcher: Watcher, event: WatchedEvent) -> None:
        """Call a watcher; its exceptions are logged and do not affect others."""
        try:
            watcher(event)
        except Exception:
            self._log.failure("a watcher of {path} failed", path=event.path)
