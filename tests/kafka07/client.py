"""
A client of Kafka 0.7, written from its documents and not from ``logbus.kafka07``: the design page's "Messages" and
"Network layer", and the wire format that client authors of that time described.
"""

from __future__ import annotations

import gzip
import socket
import struct
import zlib
from typing import Any, NamedTuple, Self

import snappy

GZIP, SNAPPY = 1, 2
LATEST, EARLIEST = -1, -2


class Failed(Exception):
    """An error code of the broker."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error code {code}")
        self.code = code


class Message(NamedTuple):
    """A message, and the offset of the one after it."""

    payload: bytes
    next_offset: int


def message(payload: bytes, magic: int = 1, attributes: int = 0) -> bytes:
    """A message as it is in a set."""
    crc = struct.pack(">I", zlib.crc32(payload) & 0xFFFFFFFF)
    content = bytes([0]) + crc + payload if magic == 0 else bytes([1, attributes]) + crc + payload
    return struct.pack(">i", len(content)) + content


def compressed(codec: int, *messages: bytes) -> bytes:
    """A compressed set, as a message."""
    inner = b"".join(messages)
    return message(gzip.compress(inner) if codec == GZIP else snappy.compress(inner), 1, codec)


def read_set(data: bytes, offset: int) -> tuple[list[Message], int]:
    """
    The whole messages of a fetched set, and the offset to go on at.

    The messages in a compressed one have its offset: there is none between them.
    """
    found: list[Message] = []
    pos = 0
    while len(data) - pos >= 4:
        (size,) = struct.unpack_from(">i", data, pos)
        if len(data) - pos - 4 < size:
            break
        body = data[pos + 4 : pos + 4 + size]
        pos += 4 + size
        magic, codec, rest = body[0], 0, body[1:]
        if magic == 1:
            codec, rest = rest[0] & 3, rest[1:]
        crc, payload = struct.unpack(">I", rest[:4])[0], rest[4:]
        assert zlib.crc32(payload) & 0xFFFFFFFF == crc
        if codec:
            inner = gzip.decompress(payload) if codec == GZIP else snappy.uncompress(payload)
            found += [Message(each.payload, offset + pos) for each in read_set(inner, 0)[0]]
        else:
            found.append(Message(payload, offset + pos))
    return found, offset + pos


def named(kind: int, topic: str, partition: int, *rest: bytes) -> bytes:
    """A request about one partition."""
    return framed(struct.pack(">h", kind) + about(topic, partition, *rest))


def about(topic: str, partition: int, *rest: bytes) -> bytes:
    """A part of a request about a partition."""
    name = topic.encode()
    return struct.pack(">h", len(name)) + name + struct.pack(">i", partition) + b"".join(rest)


def framed(body: bytes) -> bytes:
    """A request with its length."""
    return struct.pack(">i", len(body)) + body


def produce(topic: str, partition: int, *messages: bytes) -> bytes:
    """A produce request."""
    data = b"".join(messages)
    return named(0, topic, partition, struct.pack(">i", len(data)), data)


def multi_produce(*parts: tuple[str, int, bytes]) -> bytes:
    """A multi-produce request; parts are topic, partition and set."""
    bodies = [about(topic, number, struct.pack(">i", len(data)), data) for topic, number, data in parts]
    return framed(struct.pack(">hh", 3, len(parts)) + b"".join(bodies))


def fetch(topic: str, partition: int, offset: int, size: int = 300_000) -> bytes:
    """A fetch request."""
    return named(1, topic, partition, struct.pack(">qi", offset, size))


def multi_fetch(*parts: tuple[str, int, int, int]) -> bytes:
    """A multi-fetch request; parts are topic, partition, offset and size."""
    bodies = [about(topic, number, struct.pack(">qi", offset, size)) for topic, number, offset, size in parts]
    return framed(struct.pack(">hh", 2, len(parts)) + b"".join(bodies))


def offsets(topic: str, partition: int, time: int, most: int = 1) -> bytes:
    """An offsets request."""
    return named(4, topic, partition, struct.pack(">qi", time, most))


def checked(body: bytes) -> bytes:
    """The content of a response without its error code, which is 0."""
    (code,) = struct.unpack_from(">h", body)
    if code:
        raise Failed(code)
    return body[2:]


def read_offsets(body: bytes) -> list[int]:
    """The offsets in a response."""
    content = checked(body)
    (count,) = struct.unpack_from(">i", content)
    return list(struct.unpack(f">{count}q", content[4:]))


def read_multi(body: bytes) -> list[bytes]:
    """The parts of a multi-fetch response, each with its code."""
    content, parts = checked(body), []
    while content:
        (size,) = struct.unpack_from(">i", content)
        parts.append(content[4 : 4 + size])
        content = content[4 + size :]
    return parts


class Client:
    """A connection."""

    def __init__(self, address: str, timeout: float = 60.0, source: str | None = None) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout, source and (source, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._socket.close()

    def send(self, request: bytes) -> None:
        """Send a request that has no response."""
        self._socket.sendall(request)

    def ask(self, request: bytes) -> bytes:
        """Send a request; its response, with the error code."""
        self.send(request)
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def fetch(self, topic: str, partition: int, offset: int, size: int = 300_000) -> tuple[list[Message], int]:
        """The messages from an offset on, and the offset to go on at."""
        return read_set(checked(self.ask(fetch(topic, partition, offset, size))), offset)

    def offsets(self, topic: str, partition: int, time: int, most: int = 1) -> list[int]:
        """Offsets before a time."""
        return read_offsets(self.ask(offsets(topic, partition, time, most)))

    def read_all(self, topic: str, partition: int, offset: int, count: int, size: int = 300_000) -> list[Message]:
        """The next ``count`` messages; a topic's new ones are waited for by asking again."""
        found: list[Message] = []
        while len(found) < count:
            messages, offset = self.fetch(topic, partition, offset, size)
            found += messages
        return found

    def is_closed(self) -> bool:
        """Wait until the broker closes the connection; False if it sends something instead."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = self._socket.recv(size - len(found))
            if not more:
                raise ConnectionError("the broker closed the connection")
            found += more
        return found
