"""
The tree of nodes in memory: versions, ephemerals and transactions, without a file, a thread or a clock. Pure.

The embedded store and the memory store are built on it. A transaction is applied at once and can be undone
(:meth:`Tree.revert`), so a store can apply it first and make it durable afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from attrs import Factory, define, field, frozen

from logbus.metastore.operations import (
    ANY_VERSION,
    ROOT,
    BadPath,
    BadVersion,
    Check,
    Create,
    Delete,
    EventKind,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeError,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    OpResult,
    Set,
    Stat,
    WatchedEvent,
)

PERSISTENT = 0


class Row(NamedTuple):
    """
    A node as it is stored.

    :ivar creations: children ever created under it: the number of the next sequence node.
    :ivar owner: session id, or 0 for a persistent node.
    """

    path: str
    data: bytes
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    creations: int
    owner: int


@define(eq=False)
class Node:
    """A row plus the names of the node's children (a dictionary, for its order)."""

    row: Row
    children: dict[str, None] = field(factory=dict)

    @property
    def stat(self) -> Stat:
        """Its stat, as clients see it."""
        row = self.row
        return Stat(row.czxid, row.mzxid, row.ctime, row.mtime, row.version, row.owner, len(self.children))


@frozen(eq=False)
class Applied:
    """
    An applied transaction.

    :ivar results: one per operation.
    :ivar events: for watches, in order.
    :ivar before: the earlier versions of the changed rows (None: absent), to undo it.
    """

    results: list[OpResult]
    events: list[WatchedEvent]
    before: dict[str, Row | None]


def split(path: str) -> tuple[str, str]:
    """The parent's path and the node's name; the root has neither."""
    parent, _, name = path.rpartition("/")
    return parent or ROOT, name


def check_path(path: str) -> None:
    """
    Refuse the paths that ZooKeeper refuses.

    :raise BadPath:
    """
    if path == ROOT:
        return
    if not path.startswith("/"):
        raise BadPath(path, "a path begins with '/'")
    for name in path[1:].split("/"):
        if not name:
            raise BadPath(path, "a path has no empty part and no '/' at its end")
        if name in (".", ".."):
            raise BadPath(path, "a path has no '.' and no '..'")
    if not path.isprintable():
        raise BadPath(repr(path), "a path has printable characters only")


@define(eq=False)
class Tree:
    """
    All nodes by path.

    Invariant: every node but the root has a persistent parent in the tree that lists it among its children.

    :ivar zxid: number of the last transaction.
    """

    zxid: int = 0
    nodes: dict[str, Node] = Factory(lambda: {ROOT: Node(Row(ROOT, b"", 0, 0, 0, 0, 0, 0, PERSISTENT))})

    @classmethod
    def load(cls, rows: Iterable[Row], zxid: int) -> Tree:
        """
        Build the tree from its rows, in any order.

        :raise NoNode: a row's parent is missing.
        """
        tree = cls(zxid)
        for row in rows:
            tree.nodes[row.path] = Node(row)
        for path in tree.nodes:
            if path != ROOT:
                parent, name = split(path)
                tree._find(parent).children[name] = None
        return tree

    # Reading.

    def get(self, path: str) -> tuple[bytes, Stat]:
        """Data and stat, or NoNode."""
        node = self._find(path)
        return node.row.data, node.stat

    def exists(self, path: str) -> Stat | None:
        """Stat, or None."""
        check_path(path)
        node = self.nodes.get(path)
        return node.stat if node else None

    def children(self, path: str) -> list[str]:
        """Names of the children, sorted, or NoNode."""
        return sorted(self._find(path).children)

    def owned_by(self, *sessions: int) -> list[str]:
        """Ephemerals of these sessions; of all sessions when none is named."""
        return [
            path
            for path, node in self.nodes.items()
            if node.row.owner != PERSISTENT and (not sessions or node.row.owner in sessions)
        ]

    # Changing.

    def apply(self, ops: Sequence[Op], session: int, now_ms: int) -> Applied:
        """
        Apply all operations or none.

        :param session: owner of the ephemerals among them.
        :raise MultiFailed: nothing has changed.
        """
        self.zxid += 1
        applied = Applied([], [], {})
        for index, op in enumerate(ops):
            try:
                applied.results.append(self._apply(op, applied, session, now_ms))
            except NodeError as error:
                self.revert(applied)
                raise MultiFailed(index, op, error) from None
        return applied

    def revert(self, applied: Applied) -> None:
        """Undo the last transaction (or, latest first, several); its zxid is not used again."""
        # Parents are put back before their children, children are taken away before their parents.
        for path in sorted(applied.before):
            row = applied.before[path]
            if row is None:
                continue
            node = self.nodes.get(path)
            if node is None:
                self._attach(Node(row))
            else:
                node.row = row
        for path in sorted(applied.before, reverse=True):
            if applied.before[path] is None and path in self.nodes:
                self._detach(path)

    def _apply(self, op: Op, applied: Applied, session: int, now_ms: int) -> OpResult:
        match op:
            case Create():
                return self._create(op, applied, session, now_ms)
            case Set(path, data, version):
                node = self._expect(path, version)
                self._note(applied, path)
                row = node.row
                node.row = Row(
                    path, data, row.czxid, self.zxid, row.ctime, now_ms, row.version + 1, row.creations, row.owner
                )
                applied.events.append(WatchedEvent(EventKind.CHANGED, path))
                return node.stat
            case Delete(path, version):
                if path == ROOT:
                    raise BadPath(path, "the root cannot be deleted")
                node = self._expect(path, version)
                if node.children:
                    raise NotEmpty(path)
                self._note(applied, path)
                self._detach(path)
                applied.events.append(WatchedEvent(EventKind.DELETED, path))
                applied.events.append(WatchedEvent(EventKind.CHILDREN, split(path)[0]))
                return None
            case Check(path, version):
                self._expect(path, version)
                return None

    def _create(self, op: Create, applied: Applied, session: int, now_ms: int) -> str:
        check_path(op.path)
        parent_path, _ = split(op.path)
        parent = self._find(parent_path)
        row = parent.row
        if row.owner != PERSISTENT:
            raise NoChildrenForEphemerals(op.path)
        path = f"{op.path}{row.creations:010d}" if op.sequence else op.path
        if path in self.nodes:
            raise NodeExists(path)
        self._note(applied, parent_path)
        self._note(applied, path)
        # Not _replace(), which takes four times as long: topics are created by the thousand.
        parent.row = Row(
            row.path, row.data, row.czxid, row.mzxid, row.ctime, row.mtime, row.version, row.creations + 1, row.owner
        )
        owner = session if op.ephemeral else PERSISTENT
        self.nodes[path] = Node(Row(path, op.data, self.zxid, self.zxid, now_ms, now_ms, 0, 0, owner))
        parent.children[path.rpartition("/")[2]] = None
        applied.events.append(WatchedEvent(EventKind.CREATED, path))
        applied.events.append(WatchedEvent(EventKind.CHILDREN, parent_path))
        return path

    def _note(self, applied: Applied, path: str) -> None:
        if path not in applied.before:
            node = self.nodes.get(path)
            applied.before[path] = node.row if node else None

    def _find(self, path: str) -> Node:
        node = self.nodes.get(path)
        if node is None:
            check_path(path)
            raise NoNode(path)
        return node

    def _expect(self, path: str, version: int) -> Node:
        node = self._find(path)
        if version not in (ANY_VERSION, node.row.version):
            raise BadVersion(path, f"the version is {node.row.version}, not {version}")
        return node

    def _attach(self, node: Node) -> None:
        parent, name = split(node.row.path)
        self.nodes[node.row.path] = node
        self.nodes[parent].children[name] = None

    def _detach(self, path: str) -> None:
        parent, name = split(path)
        del self.nodes[path]
        del self.nodes[parent].children[name]
