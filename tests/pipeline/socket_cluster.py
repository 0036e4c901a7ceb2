"""Simulated brokers behind real sockets, for the blocking client; they can be made to lie."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import uuid
from collections.abc import Callable, Mapping
from random import Random
from types import TracebackType
from typing import Any

from twisted.internet.defer import Deferred

from logbus.pipeline.blocking import Brokers, ConnectionSettings
from logbus.records.file_slice import joined
from logbus.testing.held_ports import HeldPorts
from logbus.wire.connection import ServerConnection
from tests.client.memory_cluster import SERVED, MemoryCluster
from tests.client.misbehaving_brokers import Misbehavior

FETCH_BY_ID = {**SERVED, 1: (4, 16)}


class SocketCluster(MemoryCluster):
    """
    A :class:`MemoryCluster` that is reached by TCP; a context manager.

    :ivar ids: of topics that were made anew: they are not what their name says.
    :ivar misbehaviors: one of them is chosen for an answer, for ``share`` of those about the API keys in ``about``.
    """

    def __init__(self, served: Mapping[int, tuple[int, int]] = SERVED, nodes: int = 1) -> None:
        super().__init__()
        self.served = dict(served)
        self.nodes = set(range(1, nodes + 1))
        self.ids: dict[str, bytes] = {}
        self.misbehaviors: tuple[Misbehavior, ...] = ()
        self.share, self.about = 0.4, frozenset({1, 2, 3, 18})
        self.chance, self.patience, self.told = Random(1), 9.0, 0
        self.lock = threading.RLock()
        self._listening: dict[int, socket.socket] = {}
        self._ports: dict[int, int] = {}
        self._held = HeldPorts()
        self._open: set[_Peer] = set()
        self._threads: list[threading.Thread] = []

    @property
    def bootstrap(self) -> str:
        """All of them."""
        return ",".join(f"127.0.0.1:{self._ports[node]}" for node in sorted(self._ports))

    def client(self, **settings: Any) -> Brokers:
        """A client with short retries."""
        known = {
            "request_timeout": 5.0,
            "connect_timeout": settings.get("request_timeout", 5.0),
            "retry_timeout": 8.0,
            "backoff": 0.002,
            "backoff_max": 0.02,
            **settings,
        }
        return Brokers(ConnectionSettings(tuple(("127.0.0.1", port) for port in self._ports.values()), **known))

    def __enter__(self) -> SocketCluster:
        for node in sorted(self.nodes):
            self.up(node)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for node in list(self._listening):
            self.down(node)
        for thread in self._threads:
            thread.join(10)
        self._held.close()

    def up(self, node: int) -> None:
        """Begin to listen, on the port that it had."""
        if node not in self._ports:
            self._ports[node] = self._held.free("127.0.0.1")
        listening = socket.create_server(("127.0.0.1", self._ports[node]))
        self._listening[node] = listening
        self._start(self._accept, node, listening)

    def down(self, node: int) -> None:
        """Hang up, and refuse connections."""
        with contextlib.suppress(OSError):
            self._listening[node].shutdown(socket.SHUT_RDWR)
        self._listening.pop(node).close()
        with self.lock:
            for peer in [each for each in self._open if each.node == node]:
                peer.break_off()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, node: int, listening: socket.socket) -> None:
        while True:
            try:
                connected, _ = listening.accept()
            except OSError:
                return
            peer = _Peer(node, connected)
            with self.lock:
                self._open.add(peer)
            self._start(self._talk, peer)

    def _talk(self, peer: _Peer) -> None:
        server = ServerConnection(self.served)
        try:
            while True:
                (length,) = struct.unpack(">i", peer.read(4))
                request = server.receive(peer.read(length))
                with self.lock:
                    answer = self.serve(peer.node, request.api_key, request.message)
                    frame = joined(server.respond(request, answer))
                    misbehavior = self._lie(request.api_key)
                if misbehavior is None:
                    peer.heard(frame)
                else:
                    misbehavior(self, peer, frame)  # type: ignore[arg-type]
        except (OSError, EOFError):
            pass
        finally:
            peer.break_off()
            with self.lock:
                self._open.discard(peer)

    def _lie(self, key: int) -> Misbehavior | None:
        if self.misbehaviors and key in self.about and self.chance.random() < self.share:
            self.told += 1
            return self.chance.choice(self.misbehaviors)
        return None

    def _metadata(self, node: int, message: Any) -> Any:
        answer = super()._metadata(node, message)
        for broker in answer.brokers:
            broker.host, broker.port = "127.0.0.1", self._ports[broker.node_id]
        for topic in answer.topics:
            topic.topic_id = self.ids.get(topic.name, topic.topic_id)
        return answer

    def _fetch(self, node: int, message: Any) -> Any:
        answer = super()._fetch(node, message)
        if not isinstance(answer, Deferred):
            return answer
        # Nothing comes later here: say so at once.
        found: list[Any] = []
        answer.addCallback(found.append)
        for call in self.clock.getDelayedCalls():
            call.reset(0)
        self.clock.advance(0)
        return found[0]

    def _name(self, name: str, topic_id: bytes) -> str:
        anew = {self.ids[each]: each for each in self.ids}
        return anew.get(topic_id) or super()._name(name, topic_id)

    def anew(self, name: str) -> None:
        """The topic is deleted, and another made with its name."""
        self.ids[name] = uuid.uuid4().bytes
        self.add(name)


class _Peer:
    """One connection, from the broker's side."""

    def __init__(self, node: int, connected: socket.socket) -> None:
        self.node, self._socket = node, connected

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            some = self._socket.recv(size - len(data))
            if not some:
                raise EOFError
            data += some
        return data

    def heard(self, data: bytes) -> None:
        self._socket.sendall(data)

    def break_off(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
