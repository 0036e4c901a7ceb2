"""The store in one SQLite file: conformance, durability, refusals."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logbus.metastore.database import Database
from logbus.metastore.embedded_store import RETRY_SECONDS, EmbeddedStore
from logbus.metastore.operations import (
    Create,
    DatabaseFull,
    EventKind,
    NodeExists,
    SessionState,
    Set,
    StoreUnusable,
    WatchedEvent,
)
from logbus.testing.private_reactor import close_reactor, private_reactor
from tests.metastore.conformance import StoreConformance


@define(eq=False)
class CallerThread:
    """A thread pool, and a reactor, that run what they are given at once or, when held, on command."""

    held: bool = False
    stopped: bool = False
    work: list[Callable[[], None]] = field(factory=list)

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Note it."""
        self.stopped = True

    def callInThreadWithCallback(
        self, onResult: Callable[[bool, Any], object] | None, func: Callable[..., Any], *args: Any, **kw: Any
    ) -> None:
        def run() -> None:
            assert onResult is not None
            try:
                result = func(*args, **kw)
            except Exception:
                onResult(False, Failure())
            else:
                onResult(True, result)

        self.work.append(run)
        if not self.held:
            self.run()

    def run(self) -> None:
        """Do what was held back."""
        work, self.work = self.work, []
        for one in work:
            one()

    def callFromThread(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        f(*args, **kwargs)


class RoomClock(Clock):
    """Time for what is tried again, on this thread."""

    def callFromThread(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        f(*args, **kwargs)


def full(*_: object) -> None:
    """Stands for a commit on a full disk."""
    raise DatabaseFull("there is no room")


def scratch(case: SynchronousTestCase) -> Path:
    """A directory of the test's own, gone with it."""
    directory = tempfile.mkdtemp()
    case.addCleanup(shutil.rmtree, directory)
    return Path(directory)


def make(path: str | Path, thread: CallerThread | None = None) -> EmbeddedStore:
    """A store on this thread."""
    thread = thread or CallerThread()
    return EmbeddedStore(Path(path), thread, lambda: 1_000.0, thread)  # type: ignore[arg-type]


class EmbeddedStoreTests(StoreConformance, SynchronousTestCase):
    """A store in a fresh directory."""

    store: EmbeddedStore

    def make_store(self) -> EmbeddedStore:
        directory = scratch(self)
        self.path = directory / "metadata.db"
        self.thread = CallerThread()
        return self.open_again()

    def tearDown(self) -> None:
        self.thread.held = False
        self.successResultOf(self.store.close())

    def open_again(self) -> EmbeddedStore:
        """Another life of the store."""
        store = make(self.path, self.thread)
        self.successResultOf(store.open())
        return store

    def power_cut(self) -> None:
        """Give up the store without closing it."""
        self.store._database.close()
        self.store = self.open_again()

    def test_reopened_store(self) -> None:
        """Persistent nodes, versions and the zxid are there again; ephemerals are not, and the session is new."""
        self.done(self.store.create("/a", b"x"))
        self.done(self.store.set("/a", b"y"))
        self.done(self.store.create("/a/n", sequence=True))
        self.done(self.store.create("/a/e", ephemeral=True))
        before = self.done(self.store.get("/a"))
        session = self.store.session_id
        zxid = self.done(self.store.exists("/a/e")).czxid
        self.power_cut()
        data, stat = self.done(self.store.get("/a"))
        self.assertEqual((data, stat), (before[0], before[1]._replace(num_children=1)))
        self.assertEqual(self.done(self.store.children("/a")), ["n0000000000"])
        self.assertGreater(self.store.session_id, session)
        self.assertEqual(self.done(self.store.create("/a/n", sequence=True)), "/a/n0000000002")
        self.assertGreater(self.done(self.store.exists("/a/n0000000002")).czxid, zxid)

    def test_zxids_are_never_repeated(self) -> None:
        """No zxid is used in two runs, even if the first deleted all that it created."""
        self.done(self.store.create("/a"))
        first = self.done(self.store.exists("/a")).czxid
        self.done(self.store.delete("/a"))
        self.power_cut()
        self.done(self.store.create("/a"))
        self.assertGreater(self.done(self.store.exists("/a")).czxid, first)

    def test_closing_leaves_no_log(self) -> None:
        """The write-ahead log is folded into the file; its room is held by another."""
        self.done(self.store.create("/a"))
        self.done(self.store.close())
        self.assertEqual(set(os.listdir(self.path.parent)), {"metadata.db", "metadata.db-room"})

    def test_answers_in_order(self) -> None:
        """Requests are answered in their order, also if an answer leads to another request."""
        self.done(self.store.create("/a"))
        order: list[str] = []
        self.thread.held = True
        first = self.store.set("/a", b"1")

        def answered(_: object, name: str) -> None:
            order.append(name)
            self.store.exists("/a")

        for name in ("b", "c"):
            self.store.set("/a", name.encode()).addCallback(answered, name)
        self.thread.run()
        self.successResultOf(first)
        self.store.get("/a").addCallback(lambda _: order.append("d"))
        self.thread.run()
        self.assertEqual(order, ["b", "c", "d"])

    def test_responses_wait_for_the_disk(self) -> None:
        """A change, its watch, and reads behind it wait for the disk; what comes meanwhile shares the next commit."""
        self.done(self.store.create("/a"))
        self.done(self.store.get("/a", self.heard.append))
        self.thread.held = True
        first = self.store.set("/a", b"1")
        read = self.store.get("/a")
        more = [self.store.set("/a", b"2"), self.store.create("/b")]
        self.assertNoResult(first)
        self.assertNoResult(read)
        self.assertEqual(self.heard, [])
        self.thread.run()
        self.assertEqual(self.successResultOf(first).version, 1)
        self.assertEqual(self.successResultOf(read)[0], b"1")
        self.assertEqual(self.heard, [WatchedEvent(EventKind.CHANGED, "/a")])
        self.assertNoResult(more[0])
        self.assertEqual(len(self.thread.work), 1)
        self.thread.run()
        self.assertEqual(self.successResultOf(more[1]), "/b")

    def test_a_full_disk_fails_the_change_only(self) -> None:
        """What found no room is taken back; later changes succeed."""
        self.done(self.store.create("/a"))
        connection = self.store._database._connection
        assert connection is not None
        [pages] = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        self.failureResultOf(self.store.multi([Set("/a", bytes(1_000_000)), Create("/b")]), StoreUnusable)
        self.assertEqual(self.done(self.store.children("/")), ["a"])
        self.assertEqual(self.done(self.store.get("/a"))[0], b"")
        self.done(self.store.set("/a", b"1"))
        self.power_cut()
        self.assertEqual(self.done(self.store.get("/a"))[0], b"1")

    def test_watches_outlive_a_full_disk(self) -> None:
        """What was watched is still watched after a change for which there was no room, and nobody hears of that."""
        session = self.store.begin_session()
        self.done(self.store.create("/a"))
        heard: list[tuple[str, WatchedEvent]] = []
        self.done(session.get("/a", lambda event: heard.append(("data", event))))
        self.done(session.children("/a", lambda event: heard.append(("children", event))))
        self.done(self.store.children("/", lambda event: heard.append(("root", event))))
        commit = Database.commit
        self.patch(Database, "commit", full)
        for change in (self.store.set("/a", b"1"), self.store.delete("/a"), session.create("/b")):
            self.failureResultOf(change, DatabaseFull)
        self.assertEqual(heard, [])
        self.patch(Database, "commit", commit)
        self.done(self.store.create("/a/c"))
        self.done(self.store.set("/a", b"2"))
        self.done(session.create("/b"))
        self.assertEqual(
            heard,
            [
                ("children", WatchedEvent(EventKind.CHILDREN, "/a")),
                ("data", WatchedEvent(EventKind.CHANGED, "/a")),
                ("root", WatchedEvent(EventKind.CHILDREN, "/")),
            ],
        )

    def test_other_requests_while_the_disk_is_full(self) -> None:
        """What shares a transaction with a change that finds no room is served without it, in order."""
        self.done(self.store.create("/a", b"0"))
        commit = Database.commit
        self.patch(Database, "commit", full)
        self.thread.held = True
        order: list[str] = []
        first = self.store.set("/a", b"1")
        # These wait for the commit of the first, and share another.
        change = self.store.multi([Set("/a", b"2"), Create("/b")])
        read = self.store.get("/a", self.heard.append)
        refused = self.store.create("/a")
        for name, one in (("change", change), ("read", read), ("refused", refused)):
            one.addBoth(lambda found, name=name: order.append(name) or found)
        for _ in range(3):
            self.thread.run()
        self.failureResultOf(first, DatabaseFull)
        self.failureResultOf(change, DatabaseFull)
        self.assertEqual(self.successResultOf(read)[0], b"0")
        self.failureResultOf(refused, NodeExists)
        self.assertEqual(order, ["change", "read", "refused"])
        self.patch(Database, "commit", commit)
        self.thread.held = False
        self.done(self.store.set("/a", b"3"))
        self.assertEqual(self.heard, [WatchedEvent(EventKind.CHANGED, "/a")])

    def test_a_session_that_ends_while_the_disk_is_full(self) -> None:
        """Its ephemerals go as soon as there is room: its client may be back, and wait for that."""
        clock = self.store.reactor = RoomClock()
        session = self.store.begin_session()
        self.done(session.create("/e", ephemeral=True))
        commit = Database.commit
        self.patch(Database, "commit", full)
        # As its client asked for, and once more as the connection is lost.
        self.done(session.end())
        self.done(session.end())
        clock.advance(RETRY_SECONDS)
        self.assertIsNotNone(self.done(self.store.exists("/e")))
        self.patch(Database, "commit", commit)
        clock.advance(RETRY_SECONDS)
        self.assertIsNone(self.done(self.store.exists("/e")))
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_a_close_while_the_disk_is_full(self) -> None:
        """Nothing is tried any more: the next open deletes what is left."""
        clock = self.store.reactor = RoomClock()
        session = self.store.begin_session()
        self.done(session.create("/e", ephemeral=True))
        commit = Database.commit
        self.patch(Database, "commit", full)
        self.done(session.end())
        self.done(self.store.close())
        self.assertEqual(clock.getDelayedCalls(), [])
        self.patch(Database, "commit", commit)
        self.store = self.open_again()
        self.assertIsNone(self.done(self.store.exists("/e")))

    def test_a_failed_write_is_the_end(self) -> None:
        """After any other failure nothing is acknowledged any more, and listeners hear that the session is over."""
        states: list[SessionState] = []
        self.store.subscribe(states.append)
        self.done(self.store.create("/a"))
        self.store._database.close()
        failure = self.failureResultOf(self.store.set("/a", b"1"), StoreUnusable)
        self.assertIn(str(self.path), str(failure.value))
        self.assertEqual(states, [SessionState.CLOSED])
        self.failureResultOf(self.store.get("/a"), StoreUnusable)
        self.done(self.store.close())
        self.assertEqual(states, [SessionState.CLOSED])
        self.assertTrue(self.thread.stopped)

    def test_many_partition_states_in_one_transaction(self) -> None:
        """
        Ten thousand nodes are written in far less than a second, and read again.

        Time of this process counts: what else the machine does meanwhile says nothing.
        """
        self.done(self.store.create("/t"))
        state = b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'
        begin = time.process_time()
        self.done(self.store.multi([Create(f"/t/{number}", state) for number in range(10_000)]))
        self.done(self.store.multi([Set(f"/t/{number}", state, 0) for number in range(10_000)]))
        took = time.process_time() - begin
        self.assertLess(took, 5.0, "seconds for twice 10,000 nodes; half a second is usual")
        self.power_cut()
        self.assertEqual(self.done(self.store.exists("/t")).num_children, 10_000)


class RefusalTests(SynchronousTestCase):
    """Files that are not opened."""

    def setUp(self) -> None:
        directory = scratch(self)
        self.path = directory / "metadata.db"

    def refused(self, *words: str) -> None:
        """Opening fails with a sentence that names the file and ``words``, and leaves the file as it is."""
        before = self.path.read_bytes() if self.path.is_file() else None
        failure = self.failureResultOf(make(self.path).open(), StoreUnusable)
        for word in (str(self.path), *words):
            self.assertIn(word, str(failure.value))
        if before is not None:
            self.assertEqual(self.path.read_bytes(), before)

    def made(self) -> None:
        """A proper file with some content."""
        store = make(self.path)
        self.successResultOf(store.open())
        self.successResultOf(store.multi([Create("/a"), *(Create(f"/a/{n}", bytes(500)) for n in range(100))]))
        self.successResultOf(store.close())

    def test_not_a_database(self) -> None:
        """A file of something else is refused."""
        self.path.write_bytes(b"not a database at all, but long enough to look like one" * 100)
        self.refused("damaged")

    def test_another_database(self) -> None:
        """An SQLite file of something else is refused."""
        connection = sqlite3.connect(self.path)
        connection.execute("CREATE TABLE t (x)")
        connection.commit()
        connection.close()
        self.refused("not a metadata store")

    def test_a_newer_version(self) -> None:
        """A file of a newer release is refused, with both versions."""
        self.made()
        connection = sqlite3.connect(self.path)
        connection.execute("PRAGMA user_version = 7")
        connection.close()
        self.refused("schema version 7", "knows 1")

    def test_a_damaged_page(self) -> None:
        """A file with overwritten pages is refused."""
        self.made()
        content = bytearray(self.path.read_bytes())
        content[8192:12288] = os.urandom(4096)
        self.path.write_bytes(content)
        self.refused("damaged")

    def test_a_truncated_file(self) -> None:
        """A file that lost its end is refused."""
        self.made()
        self.path.write_bytes(self.path.read_bytes()[:20_000])
        self.refused("damaged")

    def test_an_empty_file(self) -> None:
        """An empty file is a new store: nothing was ever acknowledged from it."""
        self.path.touch()
        self.made()

    def test_interrupted_creation(self) -> None:
        """A file in which only the journal mode was set is a new store, too."""
        connection = sqlite3.connect(self.path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
        self.assertGreater(self.path.stat().st_size, 0)
        self.made()

    def test_two_processes(self) -> None:
        """A file that is open is refused to others, and its holder goes on."""
        first = make(self.path)
        self.successResultOf(first.open())
        self.refused("another process")
        self.successResultOf(first.create("/a"))
        self.successResultOf(first.close())

    def test_no_directory(self) -> None:
        """A directory that is absent is named."""
        self.path = self.path / "none" / "metadata.db"
        self.refused("cannot be opened")


class ThreadTests(SynchronousTestCase):
    """With a real thread and a real reactor, which is this test's own."""

    def test_start_and_stop(self) -> None:
        """The store opens, writes in its thread, closes, and leaves no thread behind."""
        reactor = private_reactor()
        store = EmbeddedStore(scratch(self) / "metadata.db", reactor, time.time)
        read: list[bytes] = []

        async def live() -> None:
            await store.open()
            await store.create("/a", b"x")
            read.append((await store.get("/a"))[0])
            await store.close()

        outcome: Deferred[None] = Deferred()
        reactor.callWhenRunning(lambda: Deferred.fromCoroutine(live()).addBoth(outcome.callback))
        outcome.addBoth(lambda result: (reactor.stop(), result)[1])
        reactor.run(installSignalHandlers=False)
        close_reactor(reactor)
        self.assertIsNone(self.successResultOf(outcome))
        self.assertEqual(read, [b"x"])
        self.assertEqual(store.thread.workers, 0)  # type: ignore[attr-defined]
