"""The controller's table of the security nodes, and the operations that change them in the metadata store. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field

from logbus.metastore.operations import ANY_VERSION, Create, Delete, Op, Set
from logbus.metastore.security_znodes import security_root


@define(eq=False)
class SecurityNodeTable:
    """
    Contents and versions by path. A node with empty content is only the parent of others.

    :ivar count: nodes with content; ``size``: bytes of all paths and contents.
    """

    _nodes: dict[str, tuple[bytes, int]] = field(factory=dict, repr=False)
    _children: Counter[str] = field(factory=Counter, repr=False)
    count: int = 0
    size: int = 0

    @classmethod
    def of(cls, found: Mapping[str, tuple[bytes, int]]) -> SecurityNodeTable:
        """A table of nodes as they were loaded."""
        table = cls()
        for path, (data, version) in found.items():
            table.put(path, data, version)
        return table

    def get(self, path: str) -> bytes | None:
        """A node's content; None: there is no such node, or it is only a parent."""
        return self._nodes.get(path, (b"", 0))[0] or None

    def contents(self) -> dict[str, bytes | None]:
        """The contents of all nodes that have any, by path."""
        return {path: data for path, (data, _) in self._nodes.items() if data}

    def put(self, path: str, data: bytes, version: int) -> None:
        """A node has this content in the metadata store."""
        self.remove(path)
        self._nodes[path] = data, version
        self._children[_parent(path)] += 1
        self.count += bool(data)
        self.size += len(path) + len(data)

    def remove(self, path: str) -> None:
        """A node is not in the metadata store any more."""
        node = self._nodes.pop(path, None)
        if node is not None:
            self.count -= bool(node[0])
            self.size -= len(path) + len(node[0])
            self._children[_parent(path)] -= 1
            if not self._children[_parent(path)]:
                del self._children[_parent(path)]

    def plan(self, changes: Mapping[str, bytes | None]) -> list[list[Op]]:
        """
        The operations that make the changes, a group for each path that needs any. Nothing is changed yet.

        :param changes: new contents by path; None: remove the node.
        """
        plan = _Plan(self._nodes, self._children)
        return [ops for path, data in changes.items() if (ops := plan.operations(path, data))]

    def apply(self, groups: Iterable[Sequence[Op]]) -> None:
        """Change the table as the metadata store was changed."""
        for op in (op for group in groups for op in group):
            if isinstance(op, Create):
                self.put(op.path, op.data, 0)
            elif isinstance(op, Set):
                self.put(op.path, op.data, self._nodes[op.path][1] + 1)
            else:
                self.remove(op.path)


@define(eq=False)
class _Plan:
    """Operations planned so far, as changes of a table that stays as it is."""

    _nodes: Mapping[str, tuple[bytes, int]]
    _children: Mapping[str, int]
    _planned: dict[str, bytes | None] = field(factory=dict)
    _more_children: Counter[str] = field(factory=Counter)

    def operations(self, path: str, data: bytes | None) -> list[Op]:
        root, now = security_root(path), self._content(path)
        if data:
            if now is None:
                return [*self._parents(root, path), self._create(path, data)]
            return [self._set(path, data)] if now != data else []
        if not now:
            return []
        if self._has_children(path):
            return [self._set(path, b"")]
        ops: list[Op] = [self._delete(path)]
        while (path := _parent(path)) != root and self._content(path) == b"" and not self._has_children(path):
            ops.append(self._delete(path))
        return ops

    def _content(self, path: str) -> bytes | None:
        if path in self._planned:
            return self._planned[path]
        node = self._nodes.get(path)
        return None if node is None else node[0]

    def _has_children(self, path: str) -> bool:
        return self._children.get(path, 0) + self._more_children[path] > 0

    def _version(self, path: str) -> int:
        # What was planned here has no version yet; the fence and the transaction's order say what it is.
        return ANY_VERSION if path in self._planned else self._nodes[path][1]

    def _parents(self, root: str, path: str) -> list[Op]:
        missing: list[str] = []
        while (path := _parent(path)) != root and self._content(path) is None:
            missing.append(path)
        return [self._create(path, b"") for path in reversed(missing)]

    def _create(self, path: str, data: bytes) -> Op:
        self._planned[path] = data
        self._more_children[_parent(path)] += 1
        return Create(path, data)

    def _set(self, path: str, data: bytes) -> Op:
        op = Set(path, data, self._version(path))
        self._planned[path] = data
        return op

    def _delete(self, path: str) -> Op:
        op = Delete(path, self._version(path))
        self._planned[path] = None
        self._more_children[_parent(path)] -= 1
        return op


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
