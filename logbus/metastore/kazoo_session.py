"""
A session with ZooKeeper, through kazoo.

kazoo receives answers, watches and changes of the state on its connection thread, in order. It normally dispatches them
to other threads of its own; here each goes straight to the reactor thread, so they arrive there in the same order.

Import it only where ZooKeeper is used: kazoo is an extra (``zookeeper``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from attrs import define, field
from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE

from logbus.metastore.kazoo_handler import KazooHandler
from logbus.metastore.kazoo_results import ACLS, access_from, outcome, stat_from, transaction_results, watched_event
from logbus.metastore.operations import Check, Create, Delete, NodeAccess, Op, Set, WatchedEvent
from logbus.metastore.secret_paths import access_of
from logbus.metastore.zookeeper_security import ANONYMOUS, ZooKeeperSecurity

#: The share of the session timeout for one connection attempt, so that there is time for another.
CONNECT_TIMEOUT_SHARE = 1 / 3

#: The least timeout of an attempt, in seconds: a server's first answer may be slow.
MIN_CONNECT_TIMEOUT = 1.0

#: Longest pause between two attempts to reach a server, in seconds.
MAX_PAUSE = 0.5

Answer = Callable[[Any], None]
"""Takes a result, or the :class:`.MetastoreError` instead of it, on the reactor thread."""


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


class _LastKazooError(logging.Handler):
    """Keeps kazoo's last log message, which it would repeat every half second."""

    said = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.said = with_advice(record.getMessage())


def with_advice(message: str) -> str:
    """Return a message of kazoo's, with the key to look at if it is about certificates, or what else it may mean."""
    if message.endswith("socket connection broken"):
        # A server says so only in its own log: "Refusing session request as the client has seen zxid ...".
        return (
            f"{message}; it hangs up: it is starting, has no quorum, wants TLS at this port, if there is none "
            "(zookeeper.ssl.client.enable), or was set back to older data than this broker has read, which then needs "
            "a restart"
        )
    if "[SSL: " not in message:
        return message
    if "_ALERT_" in message:
        # ZooKeeper has refused the connection, and says why in its log at best.
        return f"{message}; see zookeeper.ssl.keystore.location: it refuses that certificate, or demands one"
    if "WRONG_VERSION_NUMBER" in message:
        return f"{message}; it speaks no TLS at this port"
    if "mismatch" in message:
        return f"{message}; zookeeper.connect must have a name that the certificate is for"
    if "CERTIFICATE_VERIFY_FAILED" in message and "expired" not in message and "not yet valid" not in message:
        return f"{message}; see zookeeper.ssl.truststore.location"
    return message


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
    _handler: KazooHandler = field(init=False)

    def __attrs_post_init__(self) -> None:
        patience = max(MIN_CONNECT_TIMEOUT, self.session_timeout * CONNECT_TIMEOUT_SHARE)
        # A logger of its own, independent of the process's logging configuration.
        logger = logging.Logger("kazoo", logging.WARNING)  # noqa: LOG001
        logger.addHandler(self._words)
        handler = self._handler = KazooHandler(self._thread_ended, patience, self.security.tls, logger.warning)
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
        """Data and :class:`.Stat`."""
        self._link(
            self._client.get_async(path, self._watch(watch)),
            path,
            lambda found: (found[0] or b"", stat_from(found[1])),
            answer,
        )

    def exists(self, path: str, watch: bool, answer: Answer) -> None:
        """:class:`.Stat` or None."""
        self._link(
            self._client.exists_async(path, self._watch(watch)),
            path,
            lambda found: None if found is None else stat_from(found),
            answer,
        )

    def children(self, path: str, watch: bool, answer: Answer) -> None:
        """Names, sorted."""
        self._link(self._client.get_children_async(path, self._watch(watch)), path, sorted, answer)

    def sync(self, path: str, answer: Answer) -> None:
        """Have the server catch up with all earlier writes."""
        self._link(self._client.sync_async(path), path, lambda _: None, answer)

    def multi(self, ops: Sequence[Op], answer: Answer) -> None:
        """Apply all operations or none; the results, or :class:`.MultiFailed`."""
        transaction = self._client.transaction()
        for op in ops:
            match op:
                case Create(path, data, ephemeral, sequence):
                    acl = ACLS[access_of(path)] if self.security.set_acl else OPEN_ACL_UNSAFE
                    transaction.create(path, data, acl, ephemeral, sequence)
                case Set(path, data, version):
                    transaction.set_data(path, data, version)
                case Delete(path, version):
                    transaction.delete(path, version)
                case Check(path, version):
                    transaction.check(path, version)
        path = ops[0].path if ops else "/"
        self._link(transaction.commit_async(), path, partial(transaction_results, ops), answer)

    def access(self, path: str, answer: Answer) -> None:
        """:class:`.NodeAccess`."""
        self._link(self._client.get_acls_async(path), path, lambda found: access_from(found[0]), answer)

    def set_access(self, path: str, access: NodeAccess, answer: Answer) -> None:
        """Replace the ACL; the owner is who we are."""
        self._link(self._client.set_acls_async(path, ACLS[access]), path, lambda _: None, answer)

    def _watch(self, wanted: bool) -> Callable[[Any], object] | None:
        return self._fired if wanted else None

    def _link(self, result: Any, path: str, read: Callable[[Any], Any], answer: Answer) -> None:
        def done(result: Any) -> None:
            error = result.exception
            self.from_thread(answer, outcome(path, read, error, result.value))

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
        if (heard := watched_event(event)) is not None:
            self.from_thread(self.user.heard, self, heard)
