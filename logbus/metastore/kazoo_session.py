"""
A session with ZooKeeper through kazoo; the only module that uses kazoo and its threads.

kazoo receives answers, watches and changes of the state on its connection thread, in order. It normally dispatches them
to other threads of its own; here each goes straight to the reactor thread, so they arrive there in the same order.

Import it only where ZooKeeper is used: kazoo is an extra (``zookeeper``).
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from attrs import define, field
from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import EventType, KazooState, KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Permissions

from logbus.errors import ConfigError
from logbus.metastore.operations import (
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    Delete,
    EventKind,
    MetastoreError,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeAccess,
    NodeError,
    NodeExists,
    NoNode,
    NotAllowed,
    NotEmpty,
    Op,
    OpResult,
    SessionLost,
    Set,
    Stat,
    StoreUnusable,
    WatchedEvent,
)
from logbus.metastore.secret_paths import access_of
from logbus.metastore.zookeeper_security import ANONYMOUS, ZooKeeperSecurity

if TYPE_CHECKING:
    from logbus.security.tls.zookeeper_tls import ZooKeeperTls

#: The share of the session timeout for one connection attempt, so that there is time for another.
CONNECT_TIMEOUT_SHARE = 1 / 3

#: The least timeout of an attempt, in seconds: a server's first answer may be slow.
MIN_CONNECT_TIMEOUT = 1.0

#: Longest pause between two attempts to reach a server, in seconds.
MAX_PAUSE = 0.5

Answer = Callable[[Any], None]
"""Takes a result, or the :class:`MetastoreError` instead of it, on the reactor thread."""

_NODE_ERRORS: dict[type[Exception], type[NodeError]] = {
    exceptions.BadVersionError: BadVersion,
    exceptions.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
    exceptions.NodeExistsError: NodeExists,
    exceptions.NoNodeError: NoNode,
    exceptions.NotEmptyError: NotEmpty,
}
_EVENTS = {
    EventType.CREATED: EventKind.CREATED,
    EventType.DELETED: EventKind.DELETED,
    EventType.CHANGED: EventKind.CHANGED,
    EventType.CHILD: EventKind.CHILDREN,
}
_ACLS = {
    NodeAccess.OPEN: OPEN_ACL_UNSAFE,
    NodeAccess.READABLE: CREATOR_ALL_ACL + READ_ACL_UNSAFE,
    NodeAccess.SECRET: CREATOR_ALL_ACL,
}
_WHO_WE_ARE = "zookeeper.digest.username or the certificate in zookeeper.ssl.keystore.location"
# The errors of a transaction's operations that failed because another one did.
_ROLLED_BACK = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)


class IKazooSessionUser(Protocol):
    """Callbacks of a session; all of them on the reactor thread."""

    def linked(self, link: KazooSession, session_id: int) -> None:
        """Connected: requests are served, in this session."""

    def cut(self, link: KazooSession) -> None:
        """Disconnected; requests in flight have failed or will."""

    def expired(self, link: KazooSession) -> None:
        """ZooKeeper expired the session; a new one is begun."""

    def ended(self, link: KazooSession) -> None:
        """The connection thread ended: this object is unusable."""

    def heard(self, link: KazooSession, event: WatchedEvent) -> None:
        """A watch fired."""


class _SynchronousQueue:
    """In place of kazoo's queue with a worker: runs each function at once, on the calling thread."""

    def put(self, run: Callable[[], object]) -> None:
        run()


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """
    kazoo's thread handler without worker threads, and with a callback when the connection thread ends.

    :param patience: seconds for a server to accept a connection, and to answer the first request.
    :param tls: None: connections are not encrypted.
    :param complain: takes words about keys and certificates that cannot be read any more.
    :ivar greeting: a connection was made, and the server has not answered yet.
    """

    def __init__(
        self,
        ended: Callable[[], object],
        patience: float,
        tls: ZooKeeperTls | None,
        complain: Callable[[str], object],
    ) -> None:
        super().__init__()
        self.callback_queue = self.completion_queue = _SynchronousQueue()
        self.greeting = False
        self._ended = ended
        self._patience = patience
        self._tls = tls
        self._complain = complain

    # kazoo itself waits for a whole session timeout.  A server that is just starting may accept a connection and never
    # read from it, and one that was cut off does not answer.  Either way the session would expire.

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        self.greeting = True
        timeout = min(kwargs["timeout"], self._patience)
        if self._tls is not None:
            return self._tls_connection(self._tls, kwargs["address"], kwargs["hostname"], timeout)
        return super().create_connection(*args, **{**kwargs, "timeout": timeout})

    def _tls_connection(self, tls: ZooKeeperTls, address: tuple[str, int], host: str, timeout: float) -> ssl.SSLSocket:
        # kazoo itself would take PEM files alone, and any version of TLS.
        try:
            context = tls.renew()
        except ConfigError as e:
            self._complain(f"{e}; the earlier keys and certificates are used")
            context = tls.last
        plain = socket.create_connection(address, timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return context.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise

    def select(self, reads: Any, writes: Any, errors: Any, timeout: float | None = None) -> Any:
        if self.greeting and timeout is not None:
            timeout = min(timeout, self._patience)
        if self._tls is not None:
            # What was decrypted already is not seen on the socket any more.
            decrypted = [one for one in reads if isinstance(one, ssl.SSLSocket) and one.pending()]
            if decrypted:
                found, writable, failed = super().select(reads, writes, errors, 0)
                return [*decrypted, *(one for one in found if one not in decrypted)], writable, failed
        return super().select(reads, writes, errors, timeout)

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def spawn(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def run() -> None:
            try:
                func(*args, **kwargs)
            except Exception:
                pass  # kazoo has logged it.
            finally:
                self._ended()

        return super().spawn(run)


class _LastKazooError(logging.Handler):
    """Keeps kazoo's last log message, which it would repeat every half second."""

    said = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.said = record.getMessage()


@define(eq=False)
class KazooSession:
    """
    A session with ZooKeeper, and new ones after it expires, until it is stopped.

    :ivar hosts: the servers, as ``HOST:PORT,HOST:PORT``.
    :ivar session_timeout: to request, in seconds.
    :ivar from_thread: the reactor's ``callFromThread``.
    """

    hosts: str
    session_timeout: float
    from_thread: Callable[..., object]
    user: IKazooSessionUser
    security: ZooKeeperSecurity = ANONYMOUS
    _words: _LastKazooError = field(factory=lambda: _LastKazooError(logging.WARNING), init=False)
    _stopping: bool = field(default=False, init=False)
    _client: Any = field(init=False)
    _handler: _Handler = field(init=False)

    def __attrs_post_init__(self) -> None:
        patience = max(MIN_CONNECT_TIMEOUT, self.session_timeout * CONNECT_TIMEOUT_SHARE)
        # A logger of its own, independent of the process's logging configuration.
        logger = logging.Logger("kazoo", logging.WARNING)  # noqa: LOG001
        logger.addHandler(self._words)
        handler = self._handler = _Handler(self._thread_ended, patience, self.security.tls, logger.warning)
        retry = KazooRetry(max_tries=-1, delay=0.1, max_delay=MAX_PAUSE, sleep_func=handler.sleep_func)
        self._client = KazooClient(
            self.hosts,
            timeout=self.session_timeout,
            handler=handler,
            connection_retry=retry,
            logger=logger,
            auth_data=None if self.security.digest is None else [("digest", self.security.digest)],
        )
        self._client.add_listener(self._moved)

    def start(self) -> None:
        """Begin to connect, with endless retries."""
        self._client.start_async()

    def stop(self) -> None:
        """End the session, or the attempts to connect. Blocks: call it off the reactor thread."""
        self._stopping = True
        try:
            self._client.stop()
        finally:
            self._client.close()

    @property
    def below(self) -> str:
        """The chroot; empty for ZooKeeper's own root."""
        return str(self._client.chroot)

    def enter_chroot(self, chroot: str) -> None:
        """Use this chroot for all paths from now on."""
        self._client.chroot = chroot

    @property
    def complaint(self) -> str:
        """kazoo's last message about a connection problem."""
        return self._words.said

    @property
    def credentials(self) -> tuple[int, bytes] | None:
        """The session's id and password, while it is connected."""
        found: tuple[int, bytes] | None = self._client.client_id
        return found

    # Requests.

    def get(self, path: str, watch: bool, answer: Answer) -> None:
        """Data and :class:`Stat`."""
        self._link(
            self._client.get_async(path, self._watch(watch)),
            path,
            lambda found: (found[0] or b"", _stat(found[1])),
            answer,
        )

    def exists(self, path: str, watch: bool, answer: Answer) -> None:
        """:class:`Stat` or None."""
        self._link(
            self._client.exists_async(path, self._watch(watch)),
            path,
            lambda found: None if found is None else _stat(found),
            answer,
        )

    def children(self, path: str, watch: bool, answer: Answer) -> None:
        """Names, sorted."""
        self._link(self._client.get_children_async(path, self._watch(watch)), path, sorted, answer)

    def sync(self, path: str, answer: Answer) -> None:
        """Have the server catch up with all earlier writes."""
        self._link(self._client.sync_async(path), path, lambda _: None, answer)

    def multi(self, ops: Sequence[Op], answer: Answer) -> None:
        """Apply all operations or none; the results, or :class:`MultiFailed`."""
        transaction = self._client.transaction()
        for op in ops:
            match op:
                case Create(path, data, ephemeral, sequence):
                    acl = _ACLS[access_of(path)] if self.security.set_acl else OPEN_ACL_UNSAFE
                    transaction.create(path, data, acl, ephemeral, sequence)
                case Set(path, data, version):
                    transaction.set_data(path, data, version)
                case Delete(path, version):
                    transaction.delete(path, version)
                case Check(path, version):
                    transaction.check(path, version)
        path = ops[0].path if ops else "/"
        self._link(transaction.commit_async(), path, partial(_results, ops), answer)

    def access(self, path: str, answer: Answer) -> None:
        """:class:`NodeAccess`."""
        self._link(self._client.get_acls_async(path), path, lambda found: _access(found[0]), answer)

    def set_access(self, path: str, access: NodeAccess, answer: Answer) -> None:
        """Replace the ACL; the owner is who we are."""
        self._link(self._client.set_acls_async(path, _ACLS[access]), path, lambda _: None, answer)

    def _watch(self, wanted: bool) -> Callable[[Any], object] | None:
        return self._fired if wanted else None

    def _link(self, result: Any, path: str, read: Callable[[Any], Any], answer: Answer) -> None:
        def done(result: Any) -> None:
            error = result.exception
            self.from_thread(answer, _outcome(path, read, error, result.value))

        result.rawlink(done)

    # On the connection thread.

    def _thread_ended(self) -> None:
        if not self._stopping:
            self.from_thread(self.user.ended, self)

    def _moved(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._handler.greeting = False
            # kazoo would now send the requests made while disconnected, which have failed here already.
            self._fail_queued()
            self.from_thread(self.user.linked, self, self._client._session_id)
        elif state == KazooState.SUSPENDED:
            self.from_thread(self.user.cut, self)
        elif self._client.client_state == KeeperState.EXPIRED_SESSION:
            self.from_thread(self.user.expired, self)

    def _fail_queued(self) -> None:
        queue = self._client._queue
        for _ in range(len(queue)):
            request, result = queue.popleft()
            if result is None:
                queue.append((request, None))  # The request to close the session, which stop() waits for.
            else:
                result.set_exception(exceptions.ConnectionLoss())

    def _fired(self, event: Any) -> None:
        # kazoo also calls all watches when their connection is lost.
        if event.type in _EVENTS:
            self.from_thread(self.user.heard, self, WatchedEvent(_EVENTS[event.type], event.path))


def _outcome(path: str, read: Callable[[Any], Any], error: Exception | None, value: Any) -> Any:
    if error is not None:
        return _explained(path, error)
    try:
        return read(value)
    except Exception as e:
        return StoreUnusable(f"{path}: ZooKeeper's answer {value!r:.200} cannot be read: {e}")


def _explained(path: str, error: Exception) -> MetastoreError:
    kind = _NODE_ERRORS.get(type(error))
    if kind is not None:
        return kind(path)
    if isinstance(error, exceptions.SessionExpiredError):
        return SessionLost("the session with ZooKeeper is over")
    if isinstance(
        error,
        exceptions.ConnectionLoss
        | exceptions.ConnectionClosedError
        | exceptions.OperationTimeoutError
        | exceptions.SessionMovedError,
    ):
        return ConnectionLost("the connection to ZooKeeper was lost while a request was out")
    if isinstance(error, exceptions.NoAuthError):
        return NotAllowed(f"{path}: ZooKeeper does not allow it: the node belongs to others; check {_WHO_WE_ARE}")
    if isinstance(error, exceptions.InvalidACLError):
        return NotAllowed(f"{path}: ZooKeeper does not know who we are: it takes neither {_WHO_WE_ARE}")
    return StoreUnusable(f"{path}: ZooKeeper refused: {type(error).__name__} {error}".rstrip())


def _results(ops: Sequence[Op], found: Sequence[Any]) -> list[OpResult] | MetastoreError:
    for index, (op, one) in enumerate(zip(ops, found, strict=True)):
        if isinstance(one, Exception) and not isinstance(one, _ROLLED_BACK):
            error = _explained(op.path, one)
            return MultiFailed(index, op, error) if isinstance(error, NodeError) else error
    return [
        str(one) if isinstance(op, Create) else _stat(one) if isinstance(op, Set) else None
        for op, one in zip(ops, found, strict=True)
    ]


def _access(acls: Sequence[Any]) -> NodeAccess:
    world = {acl.perms for acl in acls if acl.id.scheme == "world"}
    owners = {acl.perms for acl in acls if acl.id.scheme != "world"}
    if world == {Permissions.ALL}:
        return NodeAccess.OPEN
    if owners == {Permissions.ALL} and world <= {Permissions.READ}:
        return NodeAccess.READABLE if world else NodeAccess.SECRET
    return NodeAccess.OTHER


def _stat(found: Any) -> Stat:
    return Stat(
        found.czxid, found.mzxid, found.ctime, found.mtime, found.version, found.ephemeralOwner, found.numChildren
    )
