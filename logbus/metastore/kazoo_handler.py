"""
The threads of a kazoo client: one for the connection, and none beside it.

kazoo asks its handler for sockets, and for threads that run callbacks. This one makes connections over TLS, and waits
less long for a server than a session lasts.

Import it only where ZooKeeper is used: kazoo is an extra (``zookeeper``).
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kazoo.handlers.threading import SequentialThreadingHandler

from logbus.errors import ConfigError

if TYPE_CHECKING:
    from logbus.security.tls.zookeeper_tls import ZooKeeperTls


class SynchronousQueue:
    """In place of kazoo's queue with a worker: runs each function at once, on the calling thread."""

    def put(self, run: Callable[[], object]) -> None:
        run()


class KazooHandler(SequentialThreadingHandler):  # type: ignore[misc]
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
        self.callback_queue = self.completion_queue = SynchronousQueue()
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
