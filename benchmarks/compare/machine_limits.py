"""Measures the machine's present limits, as a reference for a broker's figures: medians of three short runs."""

from __future__ import annotations

import os
import socket
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import attrs
from crc32c import crc32c

MB = 1 << 20


@attrs.frozen
class Limit:
    """
    :ivar unit: What the figure counts, GB/s or ms.
    """

    name: str
    unit: str
    median: float
    low: float
    high: float


def measure(directory: Path) -> list[Limit]:
    """Every limit; ``directory`` lies on the disk that the brokers use."""
    path = directory / "limits"
    runs: list[tuple[str, str, Callable[[], float]]] = [
        ("append of 1 MB to the page cache", "GB/s", lambda: _append(path, MB, 256 * MB)),
        ("append of 1 KB to the page cache", "GB/s", lambda: _append(path, 1 << 10, 64 * MB)),
        ("TCP over loopback", "GB/s", lambda: _tcp(512 * MB)),
        ("sendfile over loopback", "GB/s", lambda: _sendfile(path, 512 * MB)),
        ("fdatasync after 1 KB", "ms", lambda: _sync(path, 1 << 10, 50)),
        ("fdatasync after 1 MB", "ms", lambda: _sync(path, MB, 20)),
        ("CRC-32C of 1 KB", "GB/s", lambda: _crc(1 << 10, 50_000)),
        ("CRC-32C of 1 MB", "GB/s", lambda: _crc(MB, 1000)),
    ]
    found = []
    for name, unit, run in runs:
        if name.startswith("sendfile"):
            _append(path, MB, 256 * MB)
        figures = [run() for _ in range(3)]
        found.append(Limit(name, unit, statistics.median(figures), min(figures), max(figures)))
    path.unlink()
    return found


def _sink(server: socket.socket) -> None:
    with server:
        peer, _ = server.accept()
    buffer = bytearray(MB)
    with peer:
        while peer.recv_into(buffer):
            pass


def _pair() -> tuple[socket.socket, threading.Thread]:
    server = socket.create_server(("127.0.0.1", 0))
    address = server.getsockname()
    reader = threading.Thread(target=_sink, args=(server,), daemon=True)
    reader.start()
    return socket.create_connection(address), reader


def _tcp(total: int) -> float:
    s, reader = _pair()
    data, began = bytes(MB), time.perf_counter()
    for _ in range(total // MB):
        s.sendall(data)
    s.close()
    reader.join()
    return total / (time.perf_counter() - began) / 1e9


def _sendfile(path: Path, total: int) -> float:
    s, reader = _pair()
    fd = os.open(path, os.O_RDONLY)
    size, sent, began = os.fstat(fd).st_size, 0, time.perf_counter()
    while sent < total:
        sent += os.sendfile(s.fileno(), fd, sent % size, min(MB, size - sent % size))
    s.close()
    reader.join()
    os.close(fd)
    return sent / (time.perf_counter() - began) / 1e9


def _append(path: Path, piece: int, total: int) -> float:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    data, began = bytes(piece), time.perf_counter()
    for _ in range(total // piece):
        os.write(fd, data)
    took = time.perf_counter() - began
    os.close(fd)
    return total / took / 1e9


def _sync(path: Path, piece: int, count: int) -> float:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    data, times = bytes(piece), []
    for _ in range(count):
        os.write(fd, data)
        began = time.perf_counter()
        os.fdatasync(fd)
        times.append(time.perf_counter() - began)
    os.close(fd)
    return statistics.median(times) * 1e3


def _crc(piece: int, count: int) -> float:
    data, began = bytes(piece), time.perf_counter()
    for _ in range(count):
        crc32c(data)
    return piece * count / (time.perf_counter() - began) / 1e9
