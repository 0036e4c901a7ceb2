"""A pool of connections, each used by one thread at a time."""

from __future__ import annotations

import threading
import time

from logbus.pipeline.blocking.connection import Connection
from logbus.pipeline.blocking.connection_settings import ConnectionSettings

IDLE_PER_ADDRESS = 4
"""Idle connections that are kept; more are closed."""

Address = tuple[str, int]


class ConnectionPool:
    """Threads take connections and hold them until they are :meth:`released <release>`."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._held: dict[tuple[int, Address], Connection] = {}
        self._idle: dict[Address, list[Connection]] = {}

    def get(self, address: Address) -> Connection:
        """
        The calling thread's connection to an address: its own, an idle one, or a new one. A connection with outstanding
        requests is always returned again.

        :raises Disconnected: it cannot be connected to.
        """
        key = threading.get_ident(), address
        oldest = time.monotonic() - self._settings.max_idle
        with self._lock:
            connection = self._held.pop(key, None)
            if connection is not None and connection.outstanding and connection.usable:
                self._held[key] = connection
                return connection
            waiting = self._idle.get(address, [])
            while connection is not None or waiting:
                connection = waiting.pop() if connection is None else connection
                if connection.used > oldest and connection.is_idle():
                    self._held[key] = connection
                    return connection
                connection.close()
                connection = None
        connection = Connection(self._settings, *address)
        with self._lock:
            self._held[key] = connection
        return connection

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
                connection = self._held.pop(key)
                waiting = self._idle.setdefault(key[1], [])
                if len(waiting) < IDLE_PER_ADDRESS and connection.is_idle():
                    waiting.append(connection)
                else:
                    connection.close()

    def drop(self, address: Address) -> None:
        """Close the calling thread's connection to an address, and the idle ones."""
        with self._lock:
            connection = self._held.pop((threading.get_ident(), address), None)
            for each in [*([] if connection is None else [connection]), *self._idle.pop(address, [])]:
                each.close()

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for connection in [*self._held.values(), *(each for some in self._idle.values() for each in some)]:
                connection.close()
            self._held.clear()
            self._idle.clear()
