"""
The metadata store of a worker: the embedded store of its supervisor, behind a socket.

When the connection is lost, so is the session: the client connects again, and begins another. Requests fail meanwhile,
those in flight, too, as with ZooKeeper.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.protocols.basic import Int32StringReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from logbus.metastore.base_store import BaseStore
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import (
    ConnectionLost,
    MetastoreError,
    Op,
    OpResult,
    SessionLost,
    SessionState,
    Stat,
    Watcher,
)
from logbus.metastore.socket_path import SocketPath
from logbus.metastore.store_codec import (
    CHILDREN,
    CLOSE,
    EXISTS,
    GET,
    HELLO,
    MOST_BYTES,
    MULTI,
    PING,
    PINGS,
    SYNC,
    VERSION,
    BadFrame,
    bytes_of,
    decode_error,
    decode_event,
    decode_result,
    encode_op,
    frame,
    message_of,
)

RETRY_SECONDS = 0.2


class _Connection(Int32StringReceiver):
    MAX_LENGTH = MOST_BYTES

    def __init__(self, store: LocalStore) -> None:
        self._store = store

    def stringReceived(self, string: bytes) -> None:
        self._store.received(message_of(string))

    def connectionLost(self, reason: Failure | None = None) -> None:
        self._store.disconnected(self)

    def cut(self) -> None:
        """End it at once."""
        transport: Any = self.transport
        transport.abortConnection()


@implementer(IStreamClientEndpoint)
@define(eq=False)
class _SocketEndpoint:
    reactor: Any
    socket: SocketPath

    def connect(self, protocolFactory: Any) -> Deferred[Any]:
        """Connect; the address serves only for that."""

        def done(outcome: Any) -> Any:
            self.socket.close()
            return outcome

        try:
            endpoint = UNIXClientEndpoint(self.reactor, self.socket.address())
        except OSError:
            return fail()
        connecting: Deferred[Any] = endpoint.connect(protocolFactory)
        return connecting.addBoth(done)


@define(eq=False)
class _Request:
    message: tuple[Any, ...]
    decode: Callable[[Any], Any]
    ops: Sequence[Op] = ()
    noted: Callable[[], None] | None = None
    waiting: Deferred[Any] = field(factory=Deferred)


@implementer(IMetadataStore)
@define(eq=False)
class LocalStore(BaseStore):
    """
    A client of a :class:`~logbus.metastore.store_server.StoreServer`; it connects again by itself until it is closed.

    :param endpoint: connects to the server.
    :param session_timeout: seconds for which either end may be silent.
    :ivar path: names the store, for operators.
    """

    _endpoint: IStreamClientEndpoint
    _reactor: Any
    _session_timeout: float
    path: str
    _connection: _Connection | None = field(default=None, init=False)
    _out: deque[_Request] = field(factory=deque, init=False)
    _opening: Deferred[None] | None = field(default=None, init=False)
    _closing: list[Deferred[None]] = field(factory=list, init=False)
    _closed: bool = field(default=False, init=False)
    _timer: Any = field(default=None, init=False)
    _deadline: Any = field(default=None, init=False)

    @classmethod
    def at(cls, path: str, reactor: Any, session_timeout: float) -> LocalStore:
        """The client of the server at a socket."""
        return cls(_SocketEndpoint(reactor, SocketPath(Path(path))), reactor, session_timeout, path)

    def open(self) -> Deferred[None]:
        """Connect; waits as long as there is no server."""
        opening = self._opening = Deferred()
        self._connect()
        return opening

    def close(self) -> Deferred[None]:
        """End the session, once the earlier requests are served; fires when its ephemerals are deleted."""
        if self._closed:
            return succeed(None)
        if self._connection is None:
            self._end()
            return succeed(None)
        closing: Deferred[None] = Deferred()
        self._closing.append(closing)
        if len(self._closing) == 1:
            self._submit(_Request((CLOSE,), lambda _: None)).addBoth(lambda _: self._end())
        return closing

    def abandon(self) -> None:
        """End at once, as the server is gone, even if the connection does not show that yet."""
        if not self._closed:
            self._end()

    def _end(self) -> None:
        self._closed = True
        self._stop_timers()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.cut()
        if self.state is not SessionState.CLOSED:
            self._move(SessionState.CLOSED)
        self._fail(SessionLost("the metadata store is closed"))
        closing, self._closing = self._closing, []
        for waiting in closing:
            self._deliver(waiting.callback, None)

    # The connection.

    def _connect(self) -> None:
        self._timer = None
        factory = Factory.forProtocol(lambda: _Connection(self))
        factory.noisy = False
        self._endpoint.connect(factory).addCallbacks(self._connected, self._not_connected)

    def _not_connected(self, failure: Failure) -> None:
        if not self._closed:
            self._log.debug("{path}: {error}", path=self.path, error=failure.value)
            self._timer = self._reactor.callLater(RETRY_SECONDS, self._connect)

    def _connected(self, connection: _Connection) -> None:
        if self._closed:
            connection.cut()
            return
        self._connection = connection
        self._deadline = self._reactor.callLater(self._session_timeout, self._silent)
        self._send(HELLO, VERSION, self._session_timeout)

    def disconnected(self, connection: _Connection) -> None:
        """The connection is lost, and the session with it."""
        if connection is not self._connection:
            return
        self._connection = None
        self._stop_timers()
        # Whoever hears of it may close the store, which ends this timer.
        self._timer = self._reactor.callLater(RETRY_SECONDS, self._connect)
        if self.state is SessionState.CONNECTED:
            self._log.warn("the connection to the metadata store {path} is lost", path=self.path)
            self._move(SessionState.SUSPENDED)
        self._fail(ConnectionLost("the connection was lost while a request was out"))

    def _fail(self, error: MetastoreError) -> None:
        out, self._out = self._out, deque()
        for request in out:
            self._deliver(request.waiting.errback, Failure(error))

    def _silent(self) -> None:
        self._log.error(
            "the metadata store {path} was silent for {seconds:g} s", path=self.path, seconds=self._session_timeout
        )
        if self._connection is not None:
            self._connection.cut()

    def _stop_timers(self) -> None:
        for timer in (self._timer, self._deadline):
            if timer is not None and timer.active():
                timer.cancel()
        self._timer = self._deadline = None

    def _ping(self) -> None:
        self._timer = self._reactor.callLater(self._session_timeout / PINGS, self._ping)
        self._send(PING)

    # Messages.

    def received(self, message: list[Any]) -> None:
        """Take an answer, an event, or the session."""
        if self._deadline is None:
            return
        self._deadline.reset(self._session_timeout)
        match message:
            case ["ping"]:
                pass
            case ["hello", int(version), int(session_id)] if version == VERSION:
                self._begun(session_id)
            case ["event", list(found)]:
                event = decode_event(found)
                for watcher, each in self._watches.take([event]).due:
                    self._deliver(self._watches.tell, watcher, each)
            case ["answer", found] if self._out:
                request = self._out.popleft()
                if request.noted is not None:
                    request.noted()
                self._deliver(request.waiting.callback, request.decode(found))
            case ["error", list(found)] if self._out:
                request = self._out.popleft()
                self._deliver(request.waiting.errback, Failure(decode_error(found, request.ops)))
            case _:
                raise BadFrame(f"{self.path} answers {message!r:.80}")

    def _begun(self, session_id: int) -> None:
        if self.generation:
            self._move(SessionState.LOST)
        self.session_id = session_id
        self.generation += 1
        self._move(SessionState.CONNECTED)
        self._ping()
        if self._opening is not None:
            opening, self._opening = self._opening, None
            opening.callback(None)

    def _send(self, *message: Any) -> None:
        self._write(frame(*message))

    def _write(self, data: bytes) -> None:
        if self._connection is not None and self._connection.transport is not None:
            self._connection.transport.write(data)

    def _request(self, request: _Request) -> Deferred[Any]:
        if self._closing:
            # The server takes nothing after the end of a session, and would cut off what is before it.
            return fail(SessionLost("the metadata store is being closed"))
        return self._submit(request)

    def _submit(self, request: _Request) -> Deferred[Any]:
        if self._closed or self.state is SessionState.CLOSED:
            return fail(SessionLost("the metadata store is closed"))
        if self.state is not SessionState.CONNECTED:
            return fail(ConnectionLost("the metadata store is out of reach"))
        try:
            data = frame(*request.message)
        except MetastoreError:
            return fail()
        self._out.append(request)
        self._write(data)
        return request.waiting

    # IMetadataStore.

    def get(self, path: str, watch: Watcher | None = None) -> Deferred[tuple[bytes, Stat]]:
        """Data and stat of a node."""
        noted = None if watch is None else lambda: self._watches.on_data(path, watch)
        decode = lambda found: (bytes_of(found[0]), Stat(*found[1]))  # noqa: E731
        return self._request(_Request((GET, path, watch is not None), decode, noted=noted))

    def exists(self, path: str, watch: Watcher | None = None) -> Deferred[Stat | None]:
        """Stat of a node, or None."""
        noted = None if watch is None else lambda: self._watches.on_data(path, watch)
        return self._request(_Request((EXISTS, path, watch is not None), decode_result, noted=noted))

    def children(self, path: str, watch: Watcher | None = None) -> Deferred[list[str]]:
        """Names of a node's children, sorted."""
        noted = None if watch is None else lambda: self._watches.on_children(path, watch)
        return self._request(_Request((CHILDREN, path, watch is not None), list, noted=noted))

    def sync(self) -> Deferred[None]:
        """There is one tree, so being next in order is enough."""
        return self._request(_Request((SYNC,), lambda _: None))

    def _commit(self, ops: Sequence[Op]) -> Deferred[list[OpResult]]:
        message = (MULTI, [encode_op(op) for op in ops])
        return self._request(_Request(message, lambda found: [decode_result(each) for each in found], ops))
