"""
Serves an embedded store to other processes of this machine, over a UNIX socket in the data directory.

A session is a connection: it ends when the connection does, or when nothing is heard from the client for as long as it
said, and its ephemerals are deleted at once. So the death of a process is noticed immediately.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.protocols.basic import Int32StringReceiver
from twisted.python.failure import Failure

from logbus.errors import StorageError
from logbus.metastore.embedded_store import EmbeddedStore, StoreSession
from logbus.metastore.operations import MetastoreError, WatchedEvent, Watcher
from logbus.metastore.socket_path import SocketPath
from logbus.metastore.store_codec import (
    ANSWER,
    ERROR,
    EVENT,
    HELLO,
    MOST_BYTES,
    PING,
    PINGS,
    VERSION,
    BadFrame,
    decode_op,
    encode_error,
    encode_event,
    frame,
    message_of,
    text_of,
)

MOST_SESSIONS = 1024
MOST_WATCHES = 1_000_000
"""Of one session: much more than a worker's."""
MOST_REQUESTS = 1000
"""Of one session without an answer: further ones are read when there are fewer."""
LONGEST_TIMEOUT = 3600.0
"""Seconds for which a client may be silent, at most."""


class StoreConnection(Int32StringReceiver):
    """
    One client and its session.

    It is not read from while it does not take its answers, nor while too many of its requests wait for the disk.
    """

    MAX_LENGTH = MOST_BYTES
    _log = Logger()

    def __init__(self, server: StoreServer) -> None:
        self._server = server
        self._session: StoreSession | None = None
        self._timeout = 10.0
        self._deadline: Any = None
        self._waiting = 0
        self._closing = False
        self._unread = False

    def connectionMade(self) -> None:
        transport: Any = self.transport
        transport.registerProducer(self, True)
        self._deadline = self._server.reactor.callLater(self._timeout, self._silent)

    def stringReceived(self, string: bytes) -> None:
        self._deadline.reset(self._timeout)
        try:
            self._received(message_of(string))
        except BadFrame as e:
            self._log.error("a client of the metadata store is cut off: {error}", error=e)
            self.abort()

    def connectionLost(self, reason: Failure | None = None) -> None:
        if self._deadline.active():
            self._deadline.cancel()
        if self._session is not None:
            session, self._session = self._session, None
            session.end()
            self._server.connections.discard(self)

    def lengthLimitExceeded(self, length: int) -> None:
        self._log.error("a client of the metadata store is cut off: it sends {length} bytes", length=length)
        self.abort()

    def _received(self, message: list[Any]) -> None:
        session = self._session
        if session is None:
            self._begin(message)
            return
        match message:
            case _ if self._closing:
                raise BadFrame(f"its session is closed: {message!r:.80}")
            case ["ping"]:
                self._send(PING)
            case ["close"]:
                self._closing = True
                self._answer(session.end())
            case ["get", str(path), bool(watch)]:
                found: Deferred[Any] = session.get(path, self._watcher(session, watch))
                self._answer(found.addCallback(lambda found: [text_of(found[0]), found[1]]))
            case ["exists", str(path), bool(watch)]:
                self._answer(session.exists(path, self._watcher(session, watch)))
            case ["children", str(path), bool(watch)]:
                self._answer(session.children(path, self._watcher(session, watch)))
            case ["multi", list(ops)]:
                self._answer(session.multi([decode_op(each) for each in ops]))
            case ["sync"]:
                self._answer(session.sync())
            case _:
                raise BadFrame(f"there is no request {message!r:.80}")

    def _begin(self, message: list[Any]) -> None:
        match message:
            case ["hello", int(version), int() | float() as timeout]:
                if version != VERSION:
                    raise BadFrame(f"it speaks version {version}, and this broker {VERSION}")
                if not 0 < timeout <= LONGEST_TIMEOUT:
                    raise BadFrame(f"it would be silent for {timeout} s; at most {LONGEST_TIMEOUT:g} s")
            case _:
                raise BadFrame(f"it does not begin with {HELLO}: {message!r:.80}")
        if len(self._server.connections) >= MOST_SESSIONS:
            raise BadFrame(f"there are {MOST_SESSIONS} sessions already")
        self._timeout = timeout
        self._deadline.reset(timeout)
        self._session = self._server.store.begin_session()
        self._server.connections.add(self)
        self._send(HELLO, VERSION, self._session.session_id)

    def _answer(self, waiting: Deferred[Any]) -> None:
        self._waiting += 1
        waiting.addCallbacks(lambda found: self._send(ANSWER, found), self._failed)
        waiting.addErrback(self._unsendable).addCallback(self._answered)
        if self._waiting >= MOST_REQUESTS and not self.paused:
            self._stop_reading()
            # It is not to take this end for dead meanwhile.
            self._deadline.reset(self._timeout / PINGS)

    def _answered(self, _: object) -> None:
        self._waiting -= 1
        self._read_on_soon()

    def _failed(self, failure: Failure) -> None:
        failure.trap(MetastoreError)
        assert isinstance(failure.value, MetastoreError)
        self._send(ERROR, encode_error(failure.value))

    def _unsendable(self, failure: Failure) -> None:
        self._log.failure("an answer of the metadata store cannot be sent", failure)
        self.abort()

    def _watcher(self, session: StoreSession, watch: bool) -> Watcher | None:
        if watch and session.watches.count >= MOST_WATCHES:
            raise BadFrame(f"it has {MOST_WATCHES} watches already")
        return self._send_event if watch else None

    def _send_event(self, event: WatchedEvent) -> None:
        self._send(EVENT, encode_event(event))

    def _send(self, *message: Any) -> None:
        if self.connected and self.transport is not None:
            self.transport.write(frame(*message))

    # How fast it is read.

    def pauseProducing(self) -> None:
        """The client does not take its answers."""
        self._unread = True
        if not self.paused:
            self._stop_reading()

    def resumeProducing(self) -> None:
        """It has taken them."""
        self._unread = False
        self._read_on_soon()

    def _stop_reading(self) -> None:
        super().pauseProducing()

    def _read_on_soon(self) -> None:
        if self.paused:
            # In a turn of its own, as this may be within the delivery of another message.
            self._server.reactor.callLater(0, self._read_on)

    def _read_on(self) -> None:
        if self.paused and self._deadline.active() and not self._unread and self._waiting < MOST_REQUESTS:
            self._deadline.reset(self._timeout)
            super().resumeProducing()

    def _silent(self) -> None:
        if self.paused and not self._unread:
            # It is this end that does not listen.
            self._send(PING)
            self._deadline = self._server.reactor.callLater(self._timeout / PINGS, self._silent)
            return
        self._log.warn("a client of the metadata store was silent for {seconds:g} s", seconds=self._timeout)
        self.abort()

    def abort(self) -> None:
        """End the connection at once."""
        transport: Any = self.transport
        transport.abortConnection()


@define(eq=False)
class StoreServer:
    """
    The server.

    :ivar store: is open, and stays so until this is stopped.
    :ivar path: of the socket; one that a dead server left is replaced. The caller holds a lock against other servers.
    """

    store: EmbeddedStore
    path: Path
    reactor: Any
    connections: set[StoreConnection] = field(factory=set, init=False)
    _port: Any = field(default=None, init=False)
    _address: SocketPath = field(init=False)

    @_address.default
    def _at_path(self) -> SocketPath:
        return SocketPath(self.path)

    def factory(self) -> Factory[StoreConnection]:
        """Makes connections."""
        made: Factory[StoreConnection] = Factory.forProtocol(lambda: StoreConnection(self))
        made.noisy = False
        return made

    def start(self) -> None:
        """
        Listen.

        :raise StorageError: the socket cannot be made.
        """
        try:
            self.path.unlink(missing_ok=True)
            before = os.umask(0o177)  # Nobody else may connect, not even before its mode is set.
            try:
                self._port = self.reactor.listenUNIX(self._address.address(), self.factory(), mode=0o600)
            finally:
                os.umask(before)
        except Exception as e:
            self._address.close()
            raise StorageError(f"the socket of the metadata store, {self.path}: {e}") from e

    def stop(self) -> Deferred[None]:
        """Stop listening, if it does, and end all sessions."""
        if self._port is None:
            return succeed(None)
        for connection in list(self.connections):
            connection.abort()
        waiting: Deferred[Any] = maybeDeferred(self._port.stopListening)
        return waiting.addCallback(lambda _: self._address.close())
