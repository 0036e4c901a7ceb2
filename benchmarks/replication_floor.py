"""
Measures the least possible cost of replication: the same bytes through the same system calls and the same checksum, and
nothing else.

A leader receives pieces of a megabyte, checks and appends each, and sends it with ``sendfile`` to every follower; that
receives it, checks and appends it, and says so by one byte. There are no requests, no indexes and no decisions. What a
broker takes more than this is its own.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import socket
import time
from pathlib import Path
from typing import Any

import attrs
from crc32c import crc32c

PIECE = 1 << 20
SEND_BUFFER = 256 * 1024
_FORK = multiprocessing.get_context("fork")


@attrs.frozen
class Floor:
    """
    :ivar leader: CPU seconds a GB; ``follower``: of the dearest one, 0 without any.
    """

    leader: float
    follower: float


def measure(directory: Path, followers: int, pieces: int, in_flight: int) -> Floor:
    """
    Move so many pieces to so many followers.

    :param in_flight: pieces that are sent before the first one is acknowledged by all.
    """
    results: Any = _FORK.SimpleQueue()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        processes = [
            _FORK.Process(target=_follow, args=(directory / f"floor-{n}", address, results)) for n in range(followers)
        ]
        processes.append(_FORK.Process(target=_lead, args=(directory / "floor", listener, followers, pieces, results)))
        processes.append(_FORK.Process(target=_produce, args=(address, pieces, in_flight)))
        for process in processes:
            process.start()
        found = dict([results.get() for _ in range(followers + 1)])
        for process in processes:
            process.join()
    gigabytes = pieces * PIECE / 1e9
    return Floor(found.pop("leader") / gigabytes, max(found.values(), default=0.0) / gigabytes)


def _connected(address: tuple[str, int], name: bytes) -> socket.socket:
    sock = socket.create_connection(address)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(name)
    return sock


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)


def _produce(address: tuple[str, int], pieces: int, in_flight: int) -> None:
    sock = _connected(address, b"P")
    data = bytes(PIECE)
    sent = acknowledged = 0
    while acknowledged < pieces:
        while sent < min(pieces, acknowledged + in_flight):
            sock.sendall(data)
            sent += 1
        acknowledged += len(sock.recv(100))


def _follow(path: Path, address: tuple[str, int], results: Any) -> None:
    sock, file, view = _connected(address, b"F"), _opened(path), memoryview(bytearray(PIECE))
    sock.setblocking(False)
    poll = select.epoll()
    poll.register(sock.fileno(), select.EPOLLIN)
    begun, got, end = time.process_time(), 0, 0
    while True:
        # Woken for what is still missing, as a broker's follower is.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, PIECE - got)
        poll.poll()
        count = sock.recv_into(view[got:])
        if not count:
            break
        got += count
        if got == PIECE:
            crc32c(view)
            os.pwrite(file, view, end)
            got, end = 0, end + PIECE
            sock.send(b".")
    results.put((path.name, time.process_time() - begun))
    path.unlink()


@attrs.define
class _Follower:
    """A leader's state of a follower."""

    sock: socket.socket
    sent: int = 0
    acknowledged: int = 0
    waits: bool = False

    def send(self, poll: select.epoll, file: int, end: int) -> None:
        """Send as far as the socket takes it."""
        full = False
        while self.sent < end and not full:
            try:
                count = os.sendfile(self.sock.fileno(), file, self.sent, min(PIECE, end - self.sent))
            except BlockingIOError:
                count = 0
            full = count < min(PIECE, end - self.sent)
            self.sent += count
        if full != self.waits:
            self.waits = full
            poll.modify(self.sock.fileno(), select.EPOLLIN | (select.EPOLLOUT if full else 0))


def _lead(path: Path, listener: socket.socket, followers: int, pieces: int, results: Any) -> None:
    connections = [listener.accept()[0] for _ in range(followers + 1)]
    followed: dict[int, _Follower] = {}
    poll = select.epoll()
    for connection in connections:
        if connection.recv(1) == b"P":
            producer = connection
        else:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            followed[connection.fileno()] = _Follower(connection)
        connection.setblocking(False)
        poll.register(connection.fileno(), select.EPOLLIN)
    file, view = _opened(path), memoryview(bytearray(PIECE))
    begun, got, end, answered = time.process_time(), 0, 0, 0
    while answered < pieces:
        for number, events in poll.poll():
            follower = followed.get(number)
            if follower is None:
                got += producer.recv_into(view[got:])
                if got == PIECE:
                    crc32c(view)
                    os.pwrite(file, view, end)
                    got, end = 0, end + PIECE
                    for each in followed.values():
                        each.send(poll, file, end)
            else:
                if events & select.EPOLLIN:
                    follower.acknowledged += len(follower.sock.recv(100))
                if events & select.EPOLLOUT:
                    follower.send(poll, file, end)
        committed = min((each.acknowledged for each in followed.values()), default=end // PIECE)
        if committed > answered:
            producer.send(b"." * (committed - answered))
            answered = committed
    results.put(("leader", time.process_time() - begun))
    path.unlink()
