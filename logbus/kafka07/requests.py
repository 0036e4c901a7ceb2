"""
Decodes the requests of Kafka 0.7. Pure.

Each frame is a request: its type as an int16, then::

    0 Produce       topic | partition int32 | set's bytes int32 | set
    1 Fetch         topic | partition int32 | position int64 | most bytes int32
    2 MultiFetch    count int16 | as many of Fetch
    3 MultiProduce  count int16 | as many of Produce
    4 Offsets       topic | partition int32 | time int64 | most offsets int32

A topic is an int16 length and that many bytes. Produce and MultiProduce have no response.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from struct import Struct
from typing import NamedTuple, TypeAlias, TypeVar

from logbus.errors import DecodeError
from logbus.model import topic_name_problem

PRODUCE, FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS = range(5)

RANDOM_PARTITION = -1
"""In Produce: the broker chooses the partition."""

LATEST_TIME, EARLIEST_TIME = -1, -2
"""Times with a meaning in Offsets; others are ms since 1970."""

PARTS_PER_STEP = 50
"""Parts of a request that are decoded, or served, in one turn of the reactor; it may have 32,767."""

T = TypeVar("T")

_TYPE = Struct(">h")
_COUNT = Struct(">h")
_TOPIC = Struct(">h")
_PARTITION = Struct(">i")
_SIZE = Struct(">i")
_FROM = Struct(">qi")


class ProducePart(NamedTuple):
    """
    A message set for a partition.

    :ivar messages: the set; a view of the request.
    """

    topic: str
    partition: int
    messages: memoryview


class FetchPart(NamedTuple):
    """The messages wanted of a partition: from a byte position on, so many bytes."""

    topic: str
    partition: int
    position: int
    max_bytes: int


class Produce(NamedTuple):
    """Produce or MultiProduce."""

    parts: list[ProducePart]


class Fetch(NamedTuple):
    """Fetch."""

    part: FetchPart


class MultiFetch(NamedTuple):
    """MultiFetch."""

    parts: list[FetchPart]


class Offsets(NamedTuple):
    """
    Offsets.

    :ivar time: before which the offsets should be, or −1: the latest, −2: the earliest.
    :ivar most: how many, at most.
    """

    topic: str
    partition: int
    time: int
    most: int


Request: TypeAlias = Produce | Fetch | MultiFetch | Offsets


def decode_request(frame: bytes | memoryview) -> Request:
    """
    Return the request in a frame.

    :raises DecodeError: it is malformed, or of an unknown type.
    """
    steps = decode_in_steps(frame)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: Request = done.value
            return found


def decode_in_steps(frame: bytes | memoryview) -> Generator[None, None, Request]:
    """
    Decode the request in a frame, :data:`PARTS_PER_STEP` of its parts at a time.

    :raises DecodeError: as :func:`decode_request`.
    """
    reader = _Reader(memoryview(frame))
    (kind,) = reader.take(_TYPE, "type")
    found: Request
    if kind == PRODUCE:
        found = Produce([reader.produce()])
    elif kind == FETCH:
        found = Fetch(reader.fetch())
    elif kind == MULTIFETCH:
        found = MultiFetch((yield from reader.parts(reader.fetch)))
    elif kind == MULTIPRODUCE:
        found = Produce((yield from reader.parts(reader.produce)))
    elif kind == OFFSETS:
        found = Offsets(reader.topic(), *reader.take(_PARTITION, "partition"), *reader.take(_FROM, "time"))
    else:
        raise DecodeError(
            f"a request has type {kind}; 0.7 has 0 to 4: produce, fetch, multifetch, multiproduce, offsets"
        )
    reader.end()
    return found


class _Reader:
    """Reads a frame from front to end."""

    __slots__ = ("_pos", "_view")

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._pos = 0

    def take(self, struct: Struct, what: str) -> tuple[int, ...]:
        try:
            found = struct.unpack_from(self._view, self._pos)
        except Exception as error:
            raise DecodeError(f"a request of {len(self._view)} bytes ends within a {what}") from error
        self._pos += struct.size
        return found

    def bytes(self, size: int, what: str) -> memoryview:
        left = len(self._view) - self._pos
        if not 0 <= size <= left:
            raise DecodeError(f"a request announces a {what} of {size} bytes, {left} are left")
        self._pos += size
        return self._view[self._pos - size : self._pos]

    def count(self) -> int:
        (count,) = self.take(_COUNT, "count")
        if count < 0:
            raise DecodeError(f"a request announces {count} parts")
        return count

    def parts(self, read: Callable[[], T]) -> Generator[None, None, list[T]]:
        found: list[T] = []
        for n in range(self.count()):
            if n and n % PARTS_PER_STEP == 0:
                yield
            found.append(read())
        return found

    def topic(self) -> str:
        (size,) = self.take(_TOPIC, "topic's length")
        raw = bytes(self.bytes(size, "topic"))
        try:
            name = raw.decode("ascii")
        except UnicodeDecodeError:
            raise DecodeError(f"a request's topic {raw[:64]!r} is not ASCII") from None
        problem = topic_name_problem(name)
        if problem is not None:
            raise DecodeError(f"a request's topic cannot exist: {problem}")
        return name

    def produce(self) -> ProducePart:
        topic = self.topic()
        (partition,) = self.take(_PARTITION, "partition")
        (size,) = self.take(_SIZE, "set's size")
        return ProducePart(topic, partition, self.bytes(size, "message set"))

    def fetch(self) -> FetchPart:
        topic = self.topic()
        (partition,) = self.take(_PARTITION, "partition")
        position, size = self.take(_FROM, "position")
        return FetchPart(topic, partition, position, size)

    def end(self) -> None:
        left = len(self._view) - self._pos
        if left:
            raise DecodeError(f"{left} bytes follow a request of {self._pos}")
