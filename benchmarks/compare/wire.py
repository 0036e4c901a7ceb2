"""
Encodes the requests to replay, and makes the few calls needed to prepare a broker.

Written out here rather than taken from the product, so that the measure does not depend on what it measures.  The
versions are ones that Apache Kafka 4.x, Kafka 3.x and logbus all serve and that name topics (Produce 9, Fetch 12), so
that the bytes are the same whichever broker they go to.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from typing import Final

import attrs
from crc32c import crc32c

PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
#: Bytes of one partition in a Fetch v12 request, and where the fetch offset lies in it.
FETCH_ENTRY_SIZE: Final = 33

_CODECS = {"none": 0, "lz4": 3, "zstd": 4}
_WORDS = (
    '{"user":',
    '"item":',
    '"price":',
    '"country":',
    '"click"',
    '"view"',
    '"purchase"',
    "true",
    "false",
    "null",
    "},",
)


def payload(size: int, seed: int = 7) -> bytes:
    """
    Text of ``size`` bytes that looks like JSON events: it compresses about threefold, as such events do.
    """
    rng = random.Random(seed)
    parts: list[str] = []
    length = 0
    while length < size:
        part = f"{rng.choice(_WORDS)}{rng.randrange(10**9):x},"
        parts.append(part)
        length += len(part)
    return "".join(parts).encode()[:size]


def varint(value: int) -> bytes:
    """A zigzag varint, as records use it."""
    return uvarint((value << 1) ^ (value >> 63))


def uvarint(value: int) -> bytes:
    """An unsigned varint, as compact lengths use it."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@attrs.frozen
class Batch:
    """
    One record batch as it goes over the wire.

    :ivar data: Header (61 bytes) and records, compressed by the codec.
    :ivar records: How many records it holds.
    """

    data: bytes
    records: int


def record_batch(count: int, size: int, codec: str = "none", seed: int = 7) -> Batch:
    """
    A batch of ``count`` records of ``size`` bytes each (no key, no headers), stamped with the present time.
    """
    text = payload(size * count, seed)
    body = bytearray()
    for i in range(count):
        record = b"\0\0" + varint(i) + varint(-1) + varint(size) + text[i * size : (i + 1) * size] + b"\0"
        body += varint(len(record)) + record
    packed = _compress(codec, bytes(body))
    stamp = int(time.time() * 1000)
    tail = struct.pack(">hiqqqhii", _CODECS[codec], count - 1, stamp, stamp, -1, -1, -1, count) + packed
    return Batch(struct.pack(">qiibI", 0, 9 + len(tail), -1, 2, crc32c(tail)) + tail, count)


def _compress(codec: str, data: bytes) -> bytes:
    if codec == "lz4":
        import lz4.frame

        # Kafka's Java reader takes independent blocks only.
        return bytes(lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False))
    if codec == "zstd":
        import zstandard

        return zstandard.ZstdCompressor().compress(data)
    return data


def _framed(api_key: int, version: int, body: bytes, *, flexible: bool) -> bytes:
    client = b"compare"
    header = struct.pack(">hhih", api_key, version, 1, len(client)) + client + (b"\0" if flexible else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


def _compact(data: bytes) -> bytes:
    return uvarint(len(data) + 1) + data


def produce_request(topic: str, batches: dict[int, Batch], acks: int) -> bytes:
    """
    A Produce v9 frame, length prefix included.

    :param batches: One batch by partition.
    :param acks: 1, or -1 for all.
    """
    parts = b"".join(struct.pack(">i", p) + _compact(b.data) + b"\0" for p, b in batches.items())
    body = b"\0" + struct.pack(">hi", acks, 30000) + uvarint(2) + _compact(topic.encode())
    body += uvarint(len(batches) + 1) + parts + b"\0\0"
    return _framed(0, PRODUCE_VERSION, body, flexible=True)


@attrs.frozen
class FetchFrame:
    """
    A Fetch v12 frame and where the parts lie that a load writes anew.

    :ivar entries_at: Position of the first partition's entry.
    :ivar session_at: Position of the session id, which its epoch follows.
    """

    data: bytes
    entries_at: int
    session_at: int


def fetch_request(
    topic: str,
    partitions: list[int],
    *,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    partition_max_bytes: int = 1 << 20,
    session_epoch: int = -1,
) -> FetchFrame:
    """
    A Fetch v12 request for offset 0 of each partition.  The limits' defaults are the common clients' own.

    :param session_epoch: -1 without a session, 0 to open one.
    """
    head = struct.pack(">iiiib", -1, max_wait_ms, min_bytes, max_bytes, 0)
    opening = head + struct.pack(">ii", 0, session_epoch) + uvarint(2) + _compact(topic.encode())
    opening += uvarint(len(partitions) + 1)
    entries = b"".join(struct.pack(">iiqiqib", p, -1, 0, -1, -1, partition_max_bytes, 0) for p in partitions)
    frame = _framed(1, FETCH_VERSION, opening + entries + b"\0\1\1\0", flexible=True)
    before = len(frame) - len(opening) - len(entries) - 4
    return FetchFrame(frame, before + len(opening), before + len(head))


def metadata_leaders(answer: bytes) -> dict[int, int]:
    """The port of each partition's leader in a Metadata v1 response, without its correlation id, for one topic."""
    (count,) = struct.unpack_from(">i", answer)
    at, ports = 4, {-1: 0}
    for _ in range(count):
        node, length = struct.unpack_from(">ih", answer, at)
        at += 6 + length
        port, rack = struct.unpack_from(">ih", answer, at)
        at += 6 + max(0, rack)
        ports[node] = port
    at += 4 + 4 + 2  # the controller, the number of topics, the topic's error
    at += 2 + struct.unpack_from(">h", answer, at)[0] + 1
    (count,) = struct.unpack_from(">i", answer, at)
    at, leaders = at + 4, {}
    for _ in range(count):
        partition, leader = struct.unpack_from(">ii", answer, at + 2)
        at += 10
        for _ in range(2):  # replicas, in-sync replicas
            at += 4 + 4 * struct.unpack_from(">i", answer, at)[0]
        if ports.get(leader):
            leaders[partition] = ports[leader]
    return leaders


class BrokerRefusal(Exception):
    """A broker answered an administrative request with a Kafka error; the text has its code."""


@attrs.define
class Admin:
    """
    Blocking administration of brokers on loopback, a fresh connection to one of them for each call.
    """

    port: int
    timeout: float = 30.0

    def _ask(self, api_key: int, version: int, body: bytes) -> bytes:
        return self.replay(_framed(api_key, version, body, flexible=False))[4:]

    def versions(self) -> dict[int, tuple[int, int]]:
        """The API keys the broker serves, with lowest and highest version."""
        answer = self._ask(18, 0, b"")
        error, count = struct.unpack_from(">hi", answer)
        if error:
            raise BrokerRefusal(f"ApiVersions: error {error}")
        rows = [struct.unpack_from(">hhh", answer, 6 + 6 * i) for i in range(count)]
        return {key: (low, high) for key, low, high in rows}

    def brokers(self) -> int:
        """The number of brokers in the cluster's metadata: 0 until a broker can serve."""
        count: int = struct.unpack_from(">i", self._ask(3, 1, struct.pack(">i", 0)))[0]
        return count

    def leaders(self, topic: str) -> dict[int, int]:
        """The port of the broker that leads, by partition; those without a leader are left out."""
        name = topic.encode()
        return metadata_leaders(self._ask(3, 1, struct.pack(">ih", 1, len(name)) + name))

    def leader(self, topic: str) -> Admin:
        """For the broker that leads partition 0."""
        return Admin(self.leaders(topic)[0], self.timeout)

    def ends(self, topic: str) -> dict[int, int]:
        """The end offset of the partitions whose leaders give it: metadata may be ahead of the logs."""
        led: dict[int, list[int]] = {}
        for partition, port in self.leaders(topic).items():
            led.setdefault(port, []).append(partition)
        found: dict[int, int] = {}
        for port, partitions in led.items():
            found |= Admin(port, self.timeout)._own_ends(topic, partitions)
        return found

    def _own_ends(self, topic: str, partitions: list[int]) -> dict[int, int]:
        name = topic.encode()
        body = struct.pack(">iih", -1, 1, len(name)) + name + struct.pack(">i", len(partitions))
        answer = self._ask(2, 1, body + b"".join(struct.pack(">iq", p, -1) for p in partitions))
        entries = struct.iter_unpack(">ihqq", answer[4 + 2 + len(name) + 4 :])
        return {partition: end for partition, error, _, end in entries if not error}

    def create_topic(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        """
        Create a topic with one replica and wait until every partition is served.

        :raise BrokerRefusal: The broker refused, or a partition was not served within the timeout.
        """
        name = topic.encode()
        body = struct.pack(">ih", 1, len(name)) + name + struct.pack(">ihi", partitions, 1, 0)
        body += struct.pack(">i", len(configs))
        for key, value in configs.items():
            body += struct.pack(">h", len(key)) + key.encode() + struct.pack(">h", len(value)) + value.encode()
        answer = self._ask(19, 4, body + struct.pack(">ib", 30000, 0))
        error = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(name))[0]
        if error:
            raise BrokerRefusal(f"CreateTopics {topic}: error {error}")
        deadline = time.monotonic() + self.timeout
        while len(self.ends(topic)) < partitions:
            if time.monotonic() > deadline:
                raise BrokerRefusal(f"{topic}: not every partition is served after {self.timeout:g} s")
            time.sleep(0.02)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic; its files may go later."""
        name = topic.encode()
        answer = self._ask(20, 3, struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", 30000))
        error = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(name))[0]
        if error:
            raise BrokerRefusal(f"DeleteTopics {topic}: error {error}")

    def replay(self, frame: bytes) -> bytes:
        """Send one whole frame and return its answer, without the length."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=self.timeout) as s:
            s.sendall(frame)
            return _take(s, struct.unpack(">i", _take(s, 4))[0])

    def first_batch(self, topic: str) -> bytes:
        """The first batch stored in partition 0, as it comes back, without base offset and leader epoch."""
        answer = self.leader(topic).replay(fetch_request(topic, [0], partition_max_bytes=4 << 20).data)
        # correlation id, tags, throttle, error, session; topics, name; partitions; fields; aborted; replica; records
        at = 4 + 1 + 4 + 2 + 4 + 1 + 1 + len(topic) + 1
        error = struct.unpack_from(">h", answer, at + 4)[0]
        if error:
            raise BrokerRefusal(f"Fetch {topic}: error {error}")
        at += 4 + 2 + 24 + 1 + 4
        while answer[at] & 0x80:
            at += 1
        at += 1
        size = 12 + struct.unpack_from(">i", answer, at + 8)[0]
        return answer[at + 8 : at + 12] + answer[at + 16 : at + size]


def _take(s: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = s.recv(min(1 << 20, count - len(data)))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        data += piece
    return bytes(data)
