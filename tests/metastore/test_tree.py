"""The tree: transactions can be undone, and reads return what was written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.metastore.operations import Check, Create, Delete, MultiFailed, NoNode, Op, Set, WatchedEvent
from logbus.metastore.tree import Row, Tree, split
from logbus.metastore.watches import Watches

paths = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
versions = st.integers(-1, 2)
ops: st.SearchStrategy[Op] = st.one_of(
    st.builds(Create, paths, st.binary(max_size=2), st.booleans(), st.booleans()),
    st.builds(Set, paths, st.binary(max_size=2), versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)
transactions = st.lists(st.lists(ops, min_size=1, max_size=6), max_size=20)


def rows(tree: Tree) -> dict[str, tuple[Row, list[str]]]:
    """All there is, to compare."""
    return {path: (node.row, sorted(node.children)) for path, node in tree.nodes.items()}


class TreeTests(SynchronousTestCase):
    """Properties over random transactions."""

    @given(transactions)
    def test_invariants(self, history: list[list[Op]]) -> None:
        """Parents exist, are persistent, and list their children; failed transactions change nothing."""
        tree = Tree()
        for transaction in history:
            before = rows(tree)
            try:
                tree.apply(transaction, 7, 0)
            except MultiFailed:
                self.assertEqual(rows(tree), before)
            for path, node in tree.nodes.items():
                if path != "/":
                    parent, name = split(path)
                    self.assertIn(name, tree.nodes[parent].children)
                    self.assertEqual(tree.nodes[parent].row.owner, 0)
                self.assertLessEqual(node.row.czxid, node.row.mzxid)
                self.assertLessEqual(node.row.mzxid, tree.zxid)

    @given(transactions, transactions)
    def test_transactions_can_be_taken_back(self, kept: list[list[Op]], tried: list[list[Op]]) -> None:
        """Reverting the last transactions, latest first, restores every row and every list of children."""
        tree = Tree()
        applied = []
        for transaction in kept:
            try:
                tree.apply(transaction, 7, 0)
            except MultiFailed:
                pass
        before = rows(tree)
        for transaction in tried:
            try:
                applied.append(tree.apply(transaction, 7, 1))
            except MultiFailed:
                pass
        for one in reversed(applied):
            tree.revert(one)
        self.assertEqual(rows(tree), before)

    @given(transactions)
    def test_rows_are_the_tree(self, history: list[list[Op]]) -> None:
        """Loading the stored rows, and applying to a copy what each transaction touched, gives the same tree."""
        tree = Tree()
        stored: dict[str, Row] = {path: node.row for path, node in tree.nodes.items()}
        for transaction in history:
            try:
                applied = tree.apply(transaction, 7, 0)
            except MultiFailed:
                continue
            for path in applied.before:
                node = tree.nodes.get(path)
                if node is None:
                    stored.pop(path, None)
                else:
                    stored[path] = node.row
        self.assertEqual(rows(Tree.load(stored.values(), tree.zxid)), rows(tree))

    def test_an_orphan_is_refused(self) -> None:
        """A row without its parent does not load."""
        self.assertRaises(NoNode, Tree.load, [Row("/a/b", b"", 1, 1, 0, 0, 0, 0, 0)], 1)

    def test_owned_by(self) -> None:
        """Ephemerals are found by session, or all of them."""
        tree = Tree()
        for session in (1, 2):
            tree.apply([Create(f"/e{session}", b"", True)], session, 0)
        tree.apply([Create("/p")], 1, 0)
        self.assertEqual(tree.owned_by(2), ["/e2"])
        self.assertEqual(tree.owned_by(), ["/e1", "/e2"])

    def test_watchers_are_taken_once_each(self) -> None:
        """A watcher registered twice at one place hears once."""
        tree, watches, heard = Tree(), Watches(), list[WatchedEvent]()
        watcher = heard.append
        watches.on_data("/a", watcher)
        watches.on_data("/a", watcher)
        events = tree.apply([Create("/a"), Set("/a", b"1")], 0, 0).events
        self.assertEqual(watches.take(events).due, [(watcher, events[0])])
