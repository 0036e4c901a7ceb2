"""The controller's table of security nodes, against a metadata store in memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.controller.security_node_table import SecurityNodeTable
from logbus.cluster.membership import ensure_paths
from logbus.cluster.security_node_loader import load_security_nodes
from logbus.metastore.memory_store import MemoryEnsemble
from logbus.metastore.operations import Create, Delete
from logbus.net.time_slices import TimeSlice

PATHS = st.sampled_from(
    [
        "/config/users/ann",
        "/config/users/ann/clients/a",
        "/config/users/ann/clients/b",
        "/config/users/bob/clients/a",
        "/kafka-acl/Topic/t",
        "/kafka-acl/Topic/u",
        "/kafka-acl-extended/prefixed/Group/g",
    ]
)


class TableTests(SynchronousTestCase):
    """Changes, and the operations they take."""

    @given(st.lists(st.dictionaries(PATHS, st.none() | st.binary(max_size=2), max_size=4), max_size=6))
    def test_store_and_table_agree(self, batches: list[dict[str, bytes | None]]) -> None:
        """After any changes, the store has just the wanted nodes, the table is what a new controller would load."""
        store = MemoryEnsemble().client()
        self.successResultOf(store.open())
        self.successResultOf(ensure_paths(store))
        table, wanted = SecurityNodeTable(), dict[str, bytes | None]()
        for batch in batches:
            groups = table.plan(batch)
            for group in groups:
                self.successResultOf(store.multi(group))
            table.apply(groups)
            wanted.update(batch)
        found = self.successResultOf(Deferred.fromCoroutine(load_security_nodes(store, TimeSlice(None))))
        loaded = SecurityNodeTable.of(found)
        self.assertEqual(table.contents(), {path: data for path, data in wanted.items() if data})
        for one in (loaded.contents(), loaded.count, loaded.size, loaded._nodes, loaded._children):
            self.assertIn(one, (table.contents(), table.count, table.size, table._nodes, table._children))
        if not table.count:
            self.assertEqual(found, {})

    def test_parents(self) -> None:
        """Parents come with the first node below them, and go with the last one."""
        table = SecurityNodeTable()
        path = "/config/users/ann/clients/a"
        [group] = groups = table.plan({path: b"x"})
        self.assertEqual(group, [Create("/config/users/ann"), Create("/config/users/ann/clients"), Create(path, b"x")])
        table.apply(groups)
        [group] = table.plan({path: None})
        self.assertEqual([type(op) for op in group], [Delete, Delete, Delete])

    def test_nothing_to_do(self) -> None:
        """What is so already, and what is gone already, is not written."""
        table = SecurityNodeTable.of({"/config/ips/::1": (b"x", 4)})
        self.assertEqual(table.plan({"/config/ips/::1": b"x", "/config/ips/::2": None}), [])
