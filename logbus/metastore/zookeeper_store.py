"""
The metadata store of a cluster, in ZooKeeper.

It is stricter than ZooKeeper's client. Requests fail at once while no server is connected, and requests in flight fail
when the connection is lost, instead of being sent later; late answers are dropped. Watches are lost with the
connection: their owners read again when the state is CONNECTED.

The nodes are below the chroot, which does not appear in paths. It is created if it is missing, for who may begin a
cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.errors import ConfigError
from logbus.extras import install_hint
from logbus.metastore.base_store import BaseStore
from logbus.metastore.connect_string import ConnectString
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import (
    ROOT,
    BadPath,
    ConnectionLost,
    Create,
    Delete,
    MultiFailed,
    NodeAccess,
    NodeExists,
    NoNode,
    Op,
    OpResult,
    SessionLost,
    SessionState,
    Set,
    Stat,
    StoreUnusable,
    WatchedEvent,
    Watcher,
)
from logbus.metastore.request_queue import RequestQueue, StoreRequest
from logbus.metastore.tree import check_path
from logbus.metastore.zookeeper_security import ANONYMOUS, ZooKeeperSecurity

IN_FLIGHT = 200
"""Requests in flight at a time; further ones are queued."""
CLOSE_SECONDS = 5.0
"""Timeout for ending a session; after that it expires by itself."""
MAX_BYTES = 1_000_000
"""Of one transaction, a little less than ZooKeeper's default limit."""
RETRY_SECONDS = 0.5
FIRST_WARNING_SECONDS = 1.0


def require_kazoo() -> None:
    """
    Check that ZooKeeper's client library is installed.

    :raise ConfigError: it is not; says how to install it.
    """
    try:
        import logbus.metastore.kazoo_session  # noqa: F401
    except ImportError as e:
        raise ConfigError(
            f"zookeeper.connect: the client for ZooKeeper is missing ({e}): {install_hint('zookeeper')}"
        ) from e


@implementer(IMetadataStore)
@define(eq=False)
class ZooKeeperStore(BaseStore):
    """
    A client of ZooKeeper; it reconnects by itself until it is closed.

    :ivar session_timeout: in seconds; ZooKeeper may have another one.
    :ivar complain_seconds: interval of the warnings while ZooKeeper is out of reach.
    :ivar security: credentials, TLS, and whether nodes are protected.
    :ivar makes_chroot: whether the chroot is created if it is missing; otherwise :meth:`open` fails.
    """

    connect: ConnectString
    reactor: Any
    session_timeout: float = 18.0
    complain_seconds: float = 18.0
    in_flight: int = IN_FLIGHT
    security: ZooKeeperSecurity = ANONYMOUS
    makes_chroot: bool = True
    _link: Any = field(default=None, init=False)
    _opening: Deferred[None] | None = field(default=None, init=False)
    _closing: list[Deferred[None]] | None = field(default=None, init=False)
    _requests: RequestQueue = field(init=False)
    _timer: IDelayedCall | None = field(default=None, init=False)

    @_requests.default
    def _no_requests(self) -> RequestQueue:
        return RequestQueue(self.in_flight, self._deliver, self._cut)

    @property
    def path(self) -> str:
        """The connect string, for operators."""
        return f"ZooKeeper at {self.connect}"

    @property
    def credentials(self) -> tuple[int, bytes] | None:
        """The session's id and password, while it is connected: with them another client can take it over."""
        return self._link.credentials if self._link is not None else None

    @property
    def complaint(self) -> str:
        """The last error of the connection; empty: there was none."""
        return str(self._link.complaint) if self._link is not None else ""

    def open(self) -> Deferred[None]:
        """
        Connect, and create the chroot if it is missing. Waits, with warnings, as long as no server is reached.

        :raise ConfigError: the client library is not installed.
        :raise NoNode: the chroot does not exist, and :attr:`makes_chroot` is false.
        """
        require_kazoo()
        self._opening = Deferred()
        self._log.info("connecting to {store}", store=self.path)
        self._begin()
        return self._opening

    def close(self) -> Deferred[None]:
        """End the session, or just let it expire if ZooKeeper does not answer."""
        if self._closing is None:
            self._closing = []
            self._stop_timer()
            if self._link is None:
                self._closed()
            else:
                self._end_session(self._link)
        if self.state is SessionState.CLOSED:
            return succeed(None)
        waiting: Deferred[None] = Deferred()
        self._closing.append(waiting)
        return waiting

    def _end_session(self, link: Any) -> None:
        if self._requests.session is not None:
            self._requests.send_all()  # Earlier requests are served.
        patience = self.reactor.callLater(CLOSE_SECONDS, self._closed)

        def stopped() -> None:
            if patience.active():
                patience.cancel()
                self._closed()

        def stop() -> None:
            try:
                link.stop()
            except Exception as e:
                self._log.debug("the session did not end: {error}", error=e)
            if self.state is not SessionState.CLOSED:
                self.reactor.callFromThread(stopped)

        # This waits for kazoo's thread, which may wait for the network; the process must not wait for either.
        Thread(target=stop, name="zookeeper-stop", daemon=True).start()

    def _closed(self) -> None:
        self._move(SessionState.CLOSED)
        for request in self._requests.take_all():
            self._deliver(request.waiting.errback, Failure(SessionLost("the session is closed")))
        for waiting in self._closing or ():
            self._deliver(waiting.callback, None)

    # IMetadataStore.

    def get(self, path: str, watch: Watcher | None = None) -> Deferred[tuple[bytes, Stat]]:
        """Data and stat of a node."""
        return self._read(path, "get", watch, self._watches.on_data)

    def exists(self, path: str, watch: Watcher | None = None) -> Deferred[Stat | None]:
        """Stat of a node, or None."""
        return self._read(path, "exists", watch, self._watches.on_data)

    def children(self, path: str, watch: Watcher | None = None) -> Deferred[list[str]]:
        """Names of a node's children, sorted."""
        return self._read(path, "children", watch, self._watches.on_children)

    def sync(self) -> Deferred[None]:
        """Fires once later reads show all earlier writes of any client."""
        return self._request(StoreRequest(lambda link, answer: link.sync(ROOT, answer)))

    # ACLs, which only ZooKeeper has.

    def access(self, path: str) -> Deferred[NodeAccess | None]:
        """
        The access that clients without credentials have to a node; None: its ACL is none that a broker sets.

        :raise NoNode:
        """
        return self._request(StoreRequest(lambda link, answer: link.access(path, answer)))

    def set_access(self, path: str, access: NodeAccess) -> Deferred[None]:
        """
        Let clients without credentials do this with a node; it belongs to this client's credentials then.

        :raise NoNode:
        :raise NotAllowed: it belongs to others.
        """
        return self._request(StoreRequest(lambda link, answer: link.set_access(path, access, answer)))

    def _read(
        self, path: str, method: str, watch: Watcher | None, leave: Callable[[str, Watcher], None]
    ) -> Deferred[Any]:
        request = StoreRequest(lambda link, answer: getattr(link, method)(path, watch is not None, answer))
        if watch is not None:
            request.noted = lambda: leave(path, watch)
        try:
            check_path(path)
        except BadPath as error:
            request.refuse(error)
        return self._request(request)

    def _commit(self, ops: Sequence[Op]) -> Deferred[list[OpResult]]:
        request = StoreRequest(lambda link, answer: link.multi(ops, answer))
        size = 0
        for index, op in enumerate(ops):
            size += len(op.path) + (len(op.data) if isinstance(op, Create | Set) else 0)
            try:
                check_path(op.path)
                if op.path == ROOT and isinstance(op, Delete):
                    raise BadPath(ROOT, "the root cannot be deleted")
            except BadPath as error:
                request.refuse(MultiFailed(index, op, error))
                break
        if size > MAX_BYTES:
            # ZooKeeper would close the connection instead of answering, again and again.
            request.refuse(StoreUnusable(f"{size} bytes are more than ZooKeeper takes at once ({MAX_BYTES})"))
        return self._request(request)

    def _request(self, request: StoreRequest) -> Deferred[Any]:
        if self._closing is not None:
            return fail(SessionLost("the session is closed"))
        if self.state is not SessionState.CONNECTED:
            return fail(ConnectionLost("ZooKeeper is out of reach"))
        self._requests.put(request)
        return request.waiting

    # Callbacks of the session. Those of an older one are ignored.

    async def _make_chroot(self, link: Any) -> None:
        """Create it, parents first; another broker may do the same."""
        if not self.makes_chroot:
            await self._check_chroot(link)
            return
        names = self.connect.chroot.split("/")
        for depth in range(2, len(names) + 1):
            ops = [Create("/".join(names[:depth]))]
            request = StoreRequest(lambda link, answer, ops=ops: link.multi(ops, answer))  # type: ignore[misc]
            self._requests.put(request)
            try:
                await request.waiting
            except MultiFailed as failed:
                if not isinstance(failed.error, NodeExists):
                    raise
        link.enter_chroot(self.connect.chroot)

    async def _check_chroot(self, link: Any) -> None:
        chroot = self.connect.chroot
        request = StoreRequest(lambda link, answer: link.exists(chroot, False, answer))
        self._requests.put(request)
        if await request.waiting is None:
            raise NoNode(chroot)
        link.enter_chroot(chroot)

    def _begin(self) -> None:
        from logbus.metastore.kazoo_session import KazooSession

        self._link = KazooSession(
            self.connect.hosts, self.session_timeout, self.reactor.callFromThread, self, self.security
        )
        self._complain_in(FIRST_WARNING_SECONDS)
        self._link.start()

    def linked(self, link: Any, session_id: int) -> None:
        """Connected; a new session if the id is new."""
        if link is not self._link or self._closing is not None:
            return
        self._stop_timer()
        self._requests.session = link
        if link.below == self.connect.chroot:
            self._enter(session_id)
            return

        def failed(failure: Failure) -> None:
            lost = failure.check(ConnectionLost, SessionLost) is not None
            if not lost and self._opening is not None:
                opening, self._opening = self._opening, None
                opening.errback(failure)
            elif not lost and self._closing is None:
                self._log.error("{store} does not let us in: {reason}", store=self.path, reason=failure.value)
                self._timer = self.reactor.callLater(self.complain_seconds, self.linked, link, session_id)

        Deferred.fromCoroutine(self._make_chroot(link)).addCallbacks(lambda _: self._enter(session_id), failed)

    def _enter(self, session_id: int) -> None:
        if self._requests.session is None:
            return
        if session_id != self.session_id:
            if self.generation and self.state is SessionState.SUSPENDED:
                self._move(SessionState.LOST)
            self.session_id = session_id
            self.generation += 1
        self._log.info("connected to {store}, session {session:#x}", store=self.path, session=session_id)
        self._move(SessionState.CONNECTED)
        opening, self._opening = self._opening, None
        if opening is not None and not opening.called:
            self._deliver(opening.callback, None)

    def cut(self, link: object) -> None:
        """The connection is lost; the outcome of requests in flight is unknown."""
        if link is self._link:
            self._cut()

    def _cut(self) -> None:
        if self._requests.session is None:
            return
        self._requests.session = None
        failed = self._requests.take_all()
        if self._closing is None:
            self._log.warn("the connection to {store} was lost; trying again", store=self.path)
            self._complain_in(self.complain_seconds)
            if self.state is SessionState.CONNECTED:
                self._move(SessionState.SUSPENDED)
        for request in failed:
            self._deliver(
                request.waiting.errback,
                Failure(ConnectionLost("the connection to ZooKeeper was lost while a request was out")),
            )

    def expired(self, link: object) -> None:
        """ZooKeeper has ended the session; kazoo begins another."""
        if link is self._link:
            self._cut()
            if self._closing is None and self.state is SessionState.SUSPENDED and self.generation:
                self._log.warn("the session with {store} expired", store=self.path)
                self._move(SessionState.LOST)

    def ended(self, link: Any) -> None:
        """The session's thread died of an unexpected error: begin a new session."""
        if link is self._link and self._closing is None:
            self._log.error("the client for {store} failed: {reason}", store=self.path, reason=link.complaint)
            self.expired(link)
            self._link = None
            self._stop_timer()
            self._timer = self.reactor.callLater(RETRY_SECONDS, self._begin)

    def heard(self, link: object, event: WatchedEvent) -> None:
        """A watch fired."""
        if link is self._link:
            for watcher, one in self._watches.take([event]).due:
                self._deliver(self._watches.tell, watcher, one)

    # Warnings while ZooKeeper is out of reach.

    def _complain_in(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.reactor.callLater(seconds, self._complain)

    def _complain(self) -> None:
        self._timer = None
        self._log.warn(
            "waiting for {store}, which does not answer{reason}",
            store=self.path,
            reason=f" ({self._link.complaint})" if self._link.complaint else "",
        )
        self._complain_in(self.complain_seconds)

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
