"""A pool of connections, each used by one thread at a time."""

from __future__ import annotations

import threading
import time
from itertools import chain

from logbus.pipeline.blocking.connection import Connection
from logbus.pipeline.blocking.connection_settings import ConnectionSettings

IDLE_PER_ADDRESS = 4
"""Idle connections that are kept; more are closed."""

Address = tuple[str, int]


class ConnectionPool:
    """
    Threads take connections and hold them until they are :meth:`released <release>`; or one is :meth:`lent <lend>`,
    until it is :meth:`given back <give_back>`.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._held: dict[tuple[int, Address], Connection] = {}
        self._lent: dict[Connection, Address] = {}
        self._idle: dict[Address, list[Connection]] = {}

    def get(self, address: Address) -> Connection:
        """
        The calling thread's connection to an address: its own, an idle one, or a new one. A connection with outstanding
        requests is always returned again.

        :raises Disconnected: it cannot be connected to.
        """
        key = threading.get_ident(), address
        with self._lock:
            connection = self._held.pop(key, None)
            if connection is None or not (connection.outstanding and connection.usable):
                connection = self._open_one(address, connection)
            if connection is not None:
                self._held[key] = connection
                return connection
        connection = Connection(self._settings, *address)
        with self._lock:
            self._held[key] = connection
        return connection

    def lend(self, address: Address) -> Connection:
        """
        A connection to an address that is the caller's only, in whatever thread: the calling thread's if that is idle,
        another idle one, or a new one.

        :raises Disconnected: it cannot be connected to.
        """
        key = threading.get_ident(), address
        with self._lock:
            held = self._held.get(key)
            if held is not None and not held.outstanding:
                del self._held[key]
            else:
                held = None
            connection = self._open_one(address, held)
            if connection is not None:
                self._lent[connection] = address
                return connection
        connection = Connection(self._settings, *address)
        with self._lock:
            self._lent[connection] = address
        return connection

    def give_back(self, connection: Connection) -> None:
        """Make a lent connection available; it is closed if it has requests outstanding, or an error closed it."""
        with self._lock:
            address = self._lent.pop(connection, None)
            if address is None:
                connection.close()
            else:
                self._keep(address, connection)

    def _open_one(self, address: Address, connection: Connection | None) -> Connection | None:
        """``connection``, or else an idle one, if it is still open; those that are not are closed."""
        oldest = time.monotonic() - self._settings.max_idle
        waiting = self._idle.get(address, [])
        while connection is not None or waiting:
            connection = waiting.pop() if connection is None else connection
            if connection.used > oldest and connection.is_idle():
                return connection
            connection.close()
            connection = None
        return None

    def _keep(self, address: Address, connection: Connection) -> None:
        waiting = self._idle.setdefault(address, [])
        if len(waiting) < IDLE_PER_ADDRESS and connection.is_idle():
            waiting.append(connection)
        else:
            connection.close()

    def held(self) -> Address | None:
        """An address to which the calling thread has an idle connection."""
        me = threading.get_ident()
        with self._lock:
            for (thread, address), connection in self._held.items():
                if thread == me and connection.is_idle():
                    return address
        return None

    def release(self) -> None:
        """Make the calling thread's connections available to other threads."""
        me = threading.get_ident()
        with self._lock:
            for key in [key for key in self._held if key[0] == me]:
                self._keep(key[1], self._held.pop(key))

    def drop(self, address: Address) -> None:
        """Close the calling thread's connection to an address, and the idle ones."""
        with self._lock:
            connection = self._held.pop((threading.get_ident(), address), None)
            for each in [*([] if connection is None else [connection]), *self._idle.pop(address, [])]:
                each.close()

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for connection in chain(self._held.values(), self._lent, *self._idle.values()):
                connection.close()
            self._held.clear()
            self._lent.clear()
            self._idle.clear()
