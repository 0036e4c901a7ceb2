"""
The metadata store of one machine: a tree in memory, persisted in one SQLite file.

Changes are applied to the tree first. Then all pending changes are committed in one transaction on the store's own
thread, and answered after that. Requests behind a change wait for it, so no client sees a state that a power cut could
undo. If there is no room for a transaction, its changes fail, and the other requests are served as if those had never
been.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Protocol, TypeVar, cast

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer

from logbus.coroutines import returns_deferred
from logbus.metastore.base_store import TreeStore, attempt, settle
from logbus.metastore.database import Database
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import (
    DatabaseFull,
    Delete,
    MetastoreError,
    MultiFailed,
    Op,
    SessionLost,
    SessionState,
    StoreUnusable,
)
from logbus.metastore.tree import Applied, Tree
from logbus.metastore.watches import Taken, Watches

T = TypeVar("T")

FILE_NAME = "metadata.db"

RETRY_SECONDS = 1.0
"""Before what was left of a session, as there was no room, is deleted again."""


class IThread(Protocol):
    """A thread pool with one thread, as the store uses it."""

    def start(self) -> None:
        """Begin to take work."""

    def stop(self) -> None:
        """Wait for the given work, and end."""

    def callInThreadWithCallback(
        self, onResult: Callable[[bool, Any], object] | None, func: Callable[..., Any], *args: Any, **kw: Any
    ) -> None:
        """Call ``func``, then ``onResult(success, result)``, in the thread."""


SESSION_BITS = 20
"""Of a session's id: it counts those of one process."""


def _one_thread() -> IThread:
    pool = ThreadPool(1, 1, "metadata")
    # A process that ends without closing the store must not hang on it; SQLite rolls back an interrupted commit.
    pool.threadFactory = partial(Thread, daemon=True)  # type: ignore[assignment]
    return pool


@define(eq=False)
class _Request:
    """
    A read of the tree, or operations on it in a session's name, and its Deferred.

    :ivar failure: there was no room for it.
    """

    waiting: Deferred[Any]
    read: Callable[[Tree], Any] | None = None
    ops: Sequence[Op] = ()
    session_id: int = 0
    failure: Failure | None = None


@define(eq=False)
class _Batch:
    """
    Changes being written to the disk, and the answers to deliver after that.

    :ivar requests: all of them; ``changes``: those that were applied.
    :ivar taken: the watchers that hear of the changes.
    """

    applied: list[Applied] = field(factory=list)
    deliveries: list[tuple[Callable[..., object], tuple[Any, ...]]] = field(factory=list)
    requests: list[_Request] = field(factory=list)
    changes: list[_Request] = field(factory=list)
    taken: list[Taken] = field(factory=list)


@implementer(IMetadataStore)
@define(eq=False)
class EmbeddedStore(TreeStore):
    """
    A store for one process, which may serve sessions of others (:mod:`~logbus.metastore.store_server`).

    Its own session ends only with :meth:`close`, or with a failed write: then the state is CLOSED, every request fails
    with :class:`StoreUnusable`, and the process should end (what is on disk is unknown until it is read again).

    :ivar path: the file; its directory exists, and is locked by the caller against other processes.
    :ivar wall_clock: seconds since 1970, for the nodes' times.
    """

    path: Path
    reactor: Any
    wall_clock: Callable[[], float]
    thread: IThread = field(factory=_one_thread)
    _tree: Tree = field(factory=Tree, init=False)
    _queue: deque[_Request] = field(factory=deque, init=False)
    _opened: bool = field(default=False, init=False)
    _serving: bool = field(default=False, init=False)
    _committing: bool = field(default=False, init=False)
    _end: MetastoreError | None = field(default=None, init=False)
    _database: Database = field(init=False)
    _sessions: dict[int, StoreSession] = field(factory=dict, init=False)
    _last_session: int = field(default=0, init=False)
    _left: dict[int, IDelayedCall] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._database = Database(self.path)

    @returns_deferred
    async def open(self) -> None:
        """
        Read the file, or create it; ephemerals of an earlier process are deleted.

        :raise StoreUnusable:
        """
        self.thread.start()
        try:
            self._tree = await self._in_thread(self._database.open)
            # The number of the transaction that ends the earlier sessions is in the new ones' ids, so that none recurs.
            ended = self._tree.apply([Delete(path) for path in self._tree.owned_by()], 0, self._now())
            await self._write([ended])
        except Exception:
            await self._in_thread(self._database.close)
            self.thread.stop()
            raise
        self._opened = True
        self.session_id = self._last_session = self._tree.zxid << SESSION_BITS
        self.generation += 1
        self._move(SessionState.CONNECTED)

    def close(self) -> Deferred[None]:
        """Serve the earlier requests, delete this session's ephemerals, close the file."""
        if not self._opened:
            return succeed(None)
        self._opened = False
        for timer in self._left.values():
            timer.cancel()
        self._left.clear()

        async def run() -> None:
            last = self._change([Delete(path) for path in self._tree.owned_by()])
            if self._end is None:
                self._end = SessionLost("the metadata store is closed")
            try:
                await last
            except (StoreUnusable, MultiFailed) as error:
                # A write failed before, or just now; or one of them was deleted meanwhile. The next open deletes the
                # rest.
                self._log.debug("ephemerals are left behind: {error}", error=error)
            await self._in_thread(self._database.close)
            self.thread.stop()
            if self.state is SessionState.CONNECTED:
                self._move(SessionState.CLOSED)

        return Deferred.fromCoroutine(run())

    def begin_session(self) -> StoreSession:
        """Another session, with ephemerals and watches of its own."""
        self._last_session += 1
        session = self._sessions[self._last_session] = StoreSession(self, self._last_session)
        return session

    def end_session(self, session_id: int) -> Deferred[None]:
        """Delete a session's ephemerals, after the earlier requests; its watches do not fire."""
        self._sessions.pop(session_id, None)

        async def run() -> None:
            try:
                while owned := await self._read_tree(lambda tree: tree.owned_by(session_id)):
                    await self.change(session_id, [Delete(path) for path in owned])
            except MultiFailed:
                # One was deleted meanwhile.
                await self.end_session(session_id)
            except (SessionLost, StoreUnusable) as error:
                if self._opened and isinstance(error, DatabaseFull) and session_id not in self._left:
                    # Its client may be back as another session, which waits for them to go.
                    self._left[session_id] = self.reactor.callLater(RETRY_SECONDS, self._end_again, session_id)
                # Otherwise the next open deletes them.
                self._log.debug("ephemerals are left behind: {error}", error=error)

        return Deferred.fromCoroutine(run())

    def _end_again(self, session_id: int) -> None:
        del self._left[session_id]
        self.end_session(session_id)

    # Requests, in order.

    def read_tree(self, read: Callable[[Tree], T]) -> Deferred[T]:
        """Fires with what ``read`` returns or raises, in its turn."""
        return self._request(_Request(Deferred(), read))

    def change(self, session_id: int, ops: Sequence[Op]) -> Deferred[Applied]:
        """Fires once ``ops`` of a session are applied for good; fails with MultiFailed."""
        return self._request(_Request(Deferred(), None, ops, session_id))

    def _read_tree(self, read: Callable[[Tree], T]) -> Deferred[T]:
        return self.read_tree(read)

    def _change(self, ops: Sequence[Op]) -> Deferred[Applied]:
        return self.change(self.session_id, ops)

    def _request(self, request: _Request) -> Deferred[Any]:
        if self._end is not None:
            return fail(self._end)
        if self.state is not SessionState.CONNECTED:
            return fail(SessionLost("the metadata store is not open"))
        self._queue.append(request)
        self._serve()
        return request.waiting

    def _serve(self) -> None:
        """Serve requests until a batch of changes is being written or none is left."""
        if self._serving:
            return
        self._serving = True
        try:
            while self._queue and not self._committing:
                batch = _Batch()
                while self._queue:
                    self._take(self._queue.popleft(), batch)
                    if not batch.applied:
                        self._deliver_all(batch)
                        batch = _Batch()
                if batch.applied:
                    self._committing = True
                    written = self._write(batch.applied)
                    written.addCallbacks(self._committed, self._not_committed, (batch,), {}, (batch,))
        finally:
            self._serving = False

    def _take(self, request: _Request, batch: _Batch) -> None:
        outcome: Any
        if request.failure is not None:
            outcome = request.failure
        elif request.read is not None:
            read = request.read
            outcome = attempt(lambda: read(self._tree))
        else:
            outcome = attempt(lambda: self._tree.apply(request.ops, request.session_id, self._now()))
            if isinstance(outcome, Applied):
                batch.applied.append(outcome)
                batch.changes.append(request)
                for watches in (self._watches, *(session.watches for session in self._sessions.values())):
                    taken = watches.take(outcome.events)
                    batch.taken.append(taken)
                    batch.deliveries += [(watches.tell, each) for each in taken.due]
        batch.requests.append(request)
        batch.deliveries.append((settle, (request.waiting, outcome)))

    def _deliver_all(self, batch: _Batch) -> None:
        for what, args in batch.deliveries:
            self._deliver(what, *args)

    def _committed(self, _: None, batch: _Batch) -> None:
        # Whoever hears of it may ask for more, which is not to be served before the rest of this batch is answered:
        # sessions over a socket count on the order.
        self._deliver_all(batch)
        self._committing = False
        self._serve()

    def _not_committed(self, failure: Failure, batch: _Batch) -> None:
        for applied in reversed(batch.applied):
            self._tree.revert(applied)
        self._log.error("metadata could not be written: {error}", error=failure.value)
        if failure.check(DatabaseFull) is None:
            self._end = StoreUnusable(str(failure.value))
            waiting = [request.waiting for request in (*batch.requests, *self._queue)]
            self._queue.clear()
            self._move(SessionState.CLOSED)
            for one in waiting:
                self._deliver(one.errback, failure)
        else:
            for taken in batch.taken:
                taken.put_back()
            for request in batch.changes:
                request.failure = failure
            # In their old order, as sessions over a socket count on it.
            self._queue.extendleft(reversed(batch.requests))
        self._committing = False
        self._serve()

    # The disk.

    def _write(self, changes: Sequence[Applied]) -> Deferred[None]:
        touched = {path: self._tree.nodes.get(path) for applied in changes for path in applied.before}
        rows = [node.row for node in touched.values() if node is not None]
        gone = [path for path, node in touched.items() if node is None]
        return self._in_thread(self._database.commit, rows, gone, self._tree.zxid)

    def _in_thread(self, run: Callable[..., T], *args: Any) -> Deferred[T]:
        return deferToThreadPool(self.reactor, cast(ThreadPool, self.thread), run, *args)

    def _now(self) -> int:
        return int(self.wall_clock() * 1000)


@define(eq=False)
class StoreSession(TreeStore):
    """
    Another session of an embedded store, for a client in another process.

    :ivar store: serves the requests of all sessions in order.
    """

    store: EmbeddedStore
    session_id: int = 0

    @property
    def watches(self) -> Watches:
        """Its watches."""
        return self._watches

    def end(self) -> Deferred[None]:
        """Delete its ephemerals; watches do not fire any more."""
        self._watches.clear()
        return self.store.end_session(self.session_id)

    def _read_tree(self, read: Callable[[Tree], T]) -> Deferred[T]:
        return self.store.read_tree(read)

    def _change(self, ops: Sequence[Op]) -> Deferred[Applied]:
        return self.store.change(self.session_id, ops)
