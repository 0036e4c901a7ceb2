"""Conformance tests of all metadata stores: mixed into a test case per store."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from zope.interface.verify import verifyObject

from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import (
    BadPath,
    BadVersion,
    Check,
    Create,
    Delete,
    EventKind,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionState,
    Set,
    Stat,
    WatchedEvent,
)


class StoreConformance:
    """Mix in before ``SynchronousTestCase``, and provide :meth:`make_store`."""

    store: Any
    assertEqual: Any
    assertGreater: Any
    assertIn: Any
    assertIsInstance: Any
    assertIsNone: Any
    assertLess: Any
    assertNotEqual: Any
    failureResultOf: Any
    flushLoggedErrors: Any
    successResultOf: Any

    def make_store(self) -> Any:
        """An open store with an empty tree."""
        raise NotImplementedError

    def setUp(self) -> None:
        self.store = self.make_store()
        self.heard: list[WatchedEvent] = []

    def done(self, deferred: Deferred[Any]) -> Any:
        """The result of a Deferred that has fired."""
        return self.successResultOf(deferred)

    def make(self, *paths: str) -> None:
        """Create persistent nodes."""
        for path in paths:
            self.done(self.store.create(path, b""))

    def test_provides_the_interface(self) -> None:
        """It provides IMetadataStore."""
        verifyObject(IMetadataStore, self.store)

    def test_create_and_get(self) -> None:
        """A new node has its data, version 0 and no children."""
        self.assertEqual(self.done(self.store.create("/a", b"x")), "/a")
        data, stat = self.done(self.store.get("/a"))
        self.assertEqual((data, stat.version, stat.num_children, stat.ephemeral_owner), (b"x", 0, 0, 0))
        self.assertEqual(stat.czxid, stat.mzxid)
        self.assertEqual(self.done(self.store.exists("/a")), stat)

    def test_creation_ids_grow(self) -> None:
        """A node made later has the greater czxid, also at a path used before."""
        self.make("/a")
        first = self.done(self.store.exists("/a")).czxid
        self.done(self.store.delete("/a"))
        self.make("/a")
        self.assertGreater(self.done(self.store.exists("/a")).czxid, first)

    def test_create_refusals(self) -> None:
        """A node is made once, under a parent that exists and is not ephemeral, at a clean path."""
        self.make("/a")
        self.done(self.store.create("/e", b"", ephemeral=True))
        self.failureResultOf(self.store.create("/a"), NodeExists)
        self.failureResultOf(self.store.create("/x/y"), NoNode)
        self.failureResultOf(self.store.create("/e/y"), NoChildrenForEphemerals)
        for path in ("a", "", "/a/", "//", "/a//b", "/a/../b", "/a/.", "/a\x00"):
            self.failureResultOf(self.store.create(path), BadPath)

    def test_set_compares_versions(self) -> None:
        """Data is replaced if the version is the expected one, or any; the version and mzxid grow."""
        self.make("/a")
        before = self.done(self.store.exists("/a"))
        stat = self.done(self.store.set("/a", b"1", 0))
        self.assertIsInstance(stat, Stat)
        self.assertEqual((stat.version, stat.czxid), (1, before.czxid))
        self.assertGreater(stat.mzxid, before.mzxid)
        self.failureResultOf(self.store.set("/a", b"2", 0), BadVersion)
        self.assertEqual(self.done(self.store.set("/a", b"3")).version, 2)
        self.assertEqual(self.done(self.store.get("/a"))[0], b"3")
        self.failureResultOf(self.store.set("/b", b""), NoNode)

    def test_delete_compares_versions(self) -> None:
        """A node is deleted if it has no children and the expected version."""
        self.make("/a", "/a/b")
        self.failureResultOf(self.store.delete("/a"), NotEmpty)
        self.failureResultOf(self.store.delete("/a/b", 1), BadVersion)
        self.assertIsNone(self.done(self.store.delete("/a/b", 0)))
        self.assertIsNone(self.done(self.store.exists("/a/b")))
        self.failureResultOf(self.store.delete("/a/b"), NoNode)
        self.done(self.store.delete("/a"))

    def test_children(self) -> None:
        """Children are listed by name."""
        self.make("/a", "/a/z", "/a/b", "/a/b/c")
        self.assertEqual(self.done(self.store.children("/a")), ["b", "z"])
        self.assertEqual(self.done(self.store.exists("/a")).num_children, 2)
        self.failureResultOf(self.store.children("/none"), NoNode)

    def test_sequence(self) -> None:
        """A sequence node's number counts the creations under its parent, and is never used again."""
        self.make("/s")
        self.assertEqual(self.done(self.store.create("/s/n_", sequence=True)), "/s/n_0000000000")
        self.done(self.store.delete("/s/n_0000000000"))
        self.assertEqual(self.done(self.store.create("/s/n_", sequence=True)), "/s/n_0000000001")

    def test_ephemeral_owner(self) -> None:
        """An ephemeral names its session."""
        self.done(self.store.create("/e", b"", ephemeral=True))
        self.assertEqual(self.done(self.store.exists("/e")).ephemeral_owner, self.store.session_id)
        self.assertNotEqual(self.store.session_id, 0)

    def test_recreated_ephemeral(self) -> None:
        """Its czxid is higher: brokers take their epochs from it."""
        self.make("/ids")
        self.done(self.store.create("/ids/0", b"", ephemeral=True))
        first = self.done(self.store.exists("/ids/0"))
        self.done(self.store.set("/ids/0", b"1"))
        self.assertEqual(self.done(self.store.exists("/ids/0")).czxid, first.czxid)
        self.done(self.store.delete("/ids/0"))
        self.done(self.store.multi([Create("/ids/0", b"", ephemeral=True), Set("/ids", b"1")]))
        again = self.done(self.store.exists("/ids/0"))
        self.assertGreater(again.czxid, first.mzxid)
        self.assertEqual(again.ephemeral_owner, self.store.session_id)

    def test_requests_are_answered_in_order(self) -> None:
        """What is refused here and what is refused there has its turn, too; more requests than fit wait."""
        self.make("/a")
        order: list[int] = []
        for number in range(0, 600, 3):
            self.store.get("/a/../b").addErrback(lambda failure, number=number: order.append(number))
            self.store.set("/a", b"").addCallback(lambda stat, number=number: order.append(number + 1))
            self.store.delete("/none").addErrback(lambda failure, number=number: order.append(number + 2))
        self.done(self.store.sync())
        self.assertEqual(order, list(range(600)))

    def test_empty_multi(self) -> None:
        """An empty transaction succeeds."""
        self.assertEqual(self.done(self.store.multi([])), [])

    def test_multi_is_all(self) -> None:
        """The operations of a transaction see each other's effects and share one zxid."""
        self.make("/a")
        results = self.done(
            self.store.multi(
                [Create("/b", b"1"), Create("/b/c"), Set("/b", b"2", 0), Check("/b", 1), Delete("/a"), Check("/b/c")]
            )
        )
        self.assertEqual([results[0], results[1], results[3], results[4]], ["/b", "/b/c", None, None])
        data, stat = self.done(self.store.get("/b"))
        self.assertEqual((data, stat.version), (b"2", 1))
        self.assertEqual(self.done(self.store.exists("/b/c")).czxid, stat.czxid)
        self.assertIsNone(self.done(self.store.exists("/a")))

    def test_failed_multi(self) -> None:
        """When one operation fails, none takes effect, and the error says which failed."""
        self.make("/a", "/a/b")
        before = self.done(self.store.get("/a"))
        ops = [
            Set("/a", b"new"),
            Delete("/a/b"),
            Create("/a/c"),
            Create("/a/n", sequence=True),
            Delete("/a/c"),
            Check("/a", 5),
            Create("/d"),
        ]
        failed = self.failureResultOf(self.store.multi(ops), MultiFailed).value
        self.assertEqual((failed.index, failed.op), (5, ops[5]))
        self.assertIsInstance(failed.error, BadVersion)
        self.assertEqual(failed.error.path, "/a")
        self.assertEqual(self.done(self.store.get("/a")), before)
        self.assertEqual(self.done(self.store.children("/a")), ["b"])
        self.assertIsNone(self.done(self.store.exists("/d")))
        self.assertEqual(self.done(self.store.create("/a/n", sequence=True)), "/a/n0000000001")

    def test_data_watch_fires_once(self) -> None:
        """A watch left by get or exists hears the next change, and no other."""
        self.make("/a")
        self.done(self.store.get("/a", self.heard.append))
        self.done(self.store.set("/a", b"1"))
        self.done(self.store.set("/a", b"2"))
        self.assertEqual(self.heard, [WatchedEvent(EventKind.CHANGED, "/a")])

    def test_watch_for_creation(self) -> None:
        """A watch left by exists hears a node coming, one left by a failed get hears nothing."""
        self.done(self.store.exists("/a", self.heard.append))
        self.failureResultOf(self.store.get("/b", self.heard.append), NoNode)
        self.failureResultOf(self.store.children("/b", self.heard.append), NoNode)
        self.make("/b", "/a")
        self.assertEqual(self.heard, [WatchedEvent(EventKind.CREATED, "/a")])

    def test_watch_for_deletion(self) -> None:
        """A watcher that waits for data and for children hears of a deletion once."""
        self.make("/a")
        self.done(self.store.get("/a", self.heard.append))
        self.done(self.store.children("/a", self.heard.append))
        self.done(self.store.delete("/a"))
        self.assertEqual(self.heard, [WatchedEvent(EventKind.DELETED, "/a")])

    def test_child_watch(self) -> None:
        """A watch on children hears one come or go, but not what happens inside it or to the node's data."""
        self.make("/a", "/a/b")
        self.done(self.store.children("/a", self.heard.append))
        self.done(self.store.set("/a", b"1"))
        self.done(self.store.set("/a/b", b"1"))
        self.make("/a/b/c")
        self.assertEqual(self.heard, [])
        self.done(self.store.delete("/a/b/c"))
        self.done(self.store.delete("/a/b"))
        self.make("/a/d")
        self.assertEqual(self.heard, [WatchedEvent(EventKind.CHILDREN, "/a")])

    def test_failed_multi_fires_no_watch(self) -> None:
        """What did not take place is not seen."""
        self.make("/a")
        self.done(self.store.get("/a", self.heard.append))
        self.failureResultOf(self.store.multi([Set("/a", b"1"), Check("/a", 7)]), MultiFailed)
        self.assertEqual(self.heard, [])

    def test_watch_fires_before_the_answer(self) -> None:
        """Whoever sees the answer to a change has heard of it; order holds for what callbacks ask for, too."""
        self.make("/a")
        order: list[str] = []

        def watcher(event: WatchedEvent) -> None:
            order.append("watch")
            self.store.get("/a").addCallback(lambda found: order.append(f"read {found[0].decode()}"))

        self.done(self.store.get("/a", watcher))
        self.store.set("/a", b"1").addCallback(lambda _: order.append("set 1"))
        self.store.set("/a", b"2").addCallback(lambda _: order.append("set 2"))
        self.store.sync().addCallback(lambda _: order.append("sync"))
        self.done(self.store.sync())
        self.assertEqual(order.index("watch"), 0)
        self.assertLess(order.index("set 1"), order.index("set 2"))
        self.assertLess(order.index("set 2"), order.index("sync"))

    def test_failing_watcher(self) -> None:
        """An exception in a watcher is logged; the change and other watchers are served."""
        self.make("/a")

        def broken(event: WatchedEvent) -> None:
            raise ZeroDivisionError

        self.done(self.store.get("/a", broken))
        self.done(self.store.get("/a", self.heard.append))
        self.done(self.store.set("/a", b"1"))
        self.assertEqual(len(self.heard), 1)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_close(self) -> None:
        """Closing serves what was asked before, tells the listeners once, and refuses what comes after."""
        states: list[SessionState] = []
        self.store.subscribe(states.append)
        pending = self.store.create("/a")
        self.done(self.store.close())
        self.assertEqual(self.done(pending), "/a")
        self.assertEqual(states, [SessionState.CLOSED])
        self.failureResultOf(self.store.get("/a"))
        self.done(self.store.close())
        self.assertEqual(states, [SessionState.CLOSED])


class SharedStoreConformance(StoreConformance):
    """What those do whose tree has many clients; provide :meth:`make_other` and :meth:`expire`, too."""

    def make_other(self) -> Any:
        """An open store on the same tree, in a session of its own."""
        raise NotImplementedError

    def expire(self) -> None:
        """End the store's session against its will, and wait until it has the next one."""
        raise NotImplementedError

    def test_clients_share_the_tree(self) -> None:
        """What one client writes another reads and hears."""
        other = self.make_other()
        self.done(other.exists("/a", self.heard.append))
        self.done(self.store.create("/a", b"x"))
        self.done(other.sync())
        self.assertEqual(self.heard, [WatchedEvent(EventKind.CREATED, "/a")])
        self.assertEqual(self.done(other.get("/a"))[0], b"x")

    def test_closing_takes_ephemerals_along(self) -> None:
        """A closed session's ephemerals are gone at once, other sessions' stay."""
        other = self.make_other()
        self.done(self.store.create("/mine", b"", ephemeral=True))
        self.done(other.create("/theirs", b"", ephemeral=True))
        self.done(self.store.close())
        self.done(other.sync())
        self.assertEqual(self.done(other.children("/")), ["theirs"])

    def test_ephemeral_of_another_session(self) -> None:
        """Another session finds that the node exists, and whose it is."""
        other = self.make_other()
        self.done(self.store.create("/e", b"", ephemeral=True))
        self.failureResultOf(other.create("/e", b"", ephemeral=True), NodeExists)
        self.done(other.sync())
        self.assertEqual(self.done(other.exists("/e")).ephemeral_owner, self.store.session_id)

    def test_compare_and_set(self) -> None:
        """Of two changes of one version the second fails, as the first has raised it."""
        other = self.make_other()
        self.make("/a")
        self.done(other.set("/a", b"1", 0))
        failed = self.failureResultOf(self.store.multi([Check("/a", 0), Create("/b")]), MultiFailed).value
        self.assertIsInstance(failed.error, BadVersion)
        self.assertIsNone(self.done(self.store.exists("/b")))

    def test_expiry(self) -> None:
        """An expired session loses its ephemerals and its watches; a new one begins, whose nodes are younger."""
        other = self.make_other()
        states: list[SessionState] = []
        heard_by_other: list[WatchedEvent] = []
        self.store.subscribe(states.append)
        self.done(self.store.create("/e", b"", ephemeral=True))
        self.done(self.store.exists("/w", self.heard.append))
        self.done(other.sync())
        epoch = self.done(other.exists("/e", heard_by_other.append)).czxid
        before = self.store.session_id
        self.expire()
        self.assertEqual(states[-2:], [SessionState.LOST, SessionState.CONNECTED])
        self.assertEqual(self.store.generation, 2)
        self.assertNotEqual(self.store.session_id, before)
        self.done(other.sync())
        self.assertEqual(heard_by_other, [WatchedEvent(EventKind.DELETED, "/e")])
        self.assertEqual(self.done(other.children("/")), [])
        self.done(self.store.create("/e", b"", ephemeral=True))
        self.assertGreater(self.done(self.store.exists("/e")).czxid, epoch)
        self.done(other.create("/w"))
        self.done(self.store.sync())
        self.assertEqual(self.heard, [])
