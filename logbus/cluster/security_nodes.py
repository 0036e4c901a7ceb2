"""
This broker's copy of the security nodes: users, quotas, ACLs and delegation tokens, as bytes by path. Pure.

Their paths and contents are those of :mod:`logbus.metastore.security_znodes`. The copy is loaded from the metadata
store before the broker has listeners, and then follows the controller's updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from attrs import define, field

from logbus.metastore.security_znodes import SECURITY_ROOTS, security_root

Changes = Mapping[str, bytes | None]
"""New contents by path; None: the node is gone."""


@define(eq=False)
class SecurityNodes:
    """
    The nodes, and those who follow their changes.

    :ivar failed: called while the exception of a subscriber is handled; the others are called all the same.
    """

    failed: Callable[[], object] = field(default=lambda: None, repr=False)
    _by_root: dict[str, dict[str, bytes]] = field(factory=lambda: {root: {} for root in SECURITY_ROOTS}, repr=False)
    _subscribers: list[tuple[str, Callable[[Changes], object]]] = field(factory=list, repr=False)

    def __len__(self) -> int:
        return sum(map(len, self._by_root.values()))

    def get(self, path: str) -> bytes | None:
        """A node's content; None: there is none."""
        return self._by_root[security_root(path)].get(path)

    def items(self, root: str) -> Iterator[tuple[str, bytes]]:
        """
        Paths and contents.

        :param root: one of :data:`.SECURITY_ROOTS`.
        """
        return iter(self._by_root[root].items())

    def subscribe(self, root: str, changed: Callable[[Changes], object]) -> Callable[[], None]:
        """
        Call ``changed`` now with all nodes under ``root`` (one of :data:`.SECURITY_ROOTS`), if there are any, and later
        with those that changed.

        :return: a function that ends the subscription; calling it twice does no harm.
        """
        subscriber = (root, changed)
        self._subscribers.append(subscriber)
        if self._by_root[root]:
            changed(dict(self._by_root[root]))

        def unsubscribe() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return unsubscribe

    def change(self, changes: Changes) -> None:
        """Apply changes, and tell the subscribers of those that make a difference."""
        differences: dict[str, dict[str, bytes | None]] = {}
        for path, data in changes.items():
            try:
                root = security_root(path)
            except ValueError:
                continue  # Of a later release, whose controller knows more kinds of nodes.
            known = self._by_root[root]
            if known.get(path) != (data or None):
                differences.setdefault(root, {})[path] = data or None
                if data:
                    known[path] = data
                else:
                    del known[path]
        for root, changed in list(self._subscribers):
            if root in differences:
                try:
                    changed(differences[root])
                except Exception:
                    self.failed()

    def replace(self, nodes: Mapping[str, bytes | None]) -> None:
        """Replace all nodes; those that are not in ``nodes`` are gone."""
        gone = {path: None for known in self._by_root.values() for path in known if path not in nodes}
        self.change({**gone, **nodes})
