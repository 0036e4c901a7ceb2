"""
Fast path for repeated Produce requests: recognizes them by a byte template, without decoding.

A producer repeats the same bytes before every batch it sends to a partition. The template consists of all bytes between
the correlation id and the records of a Produce request: client id, transactional id, acks, timeout, topic and
partition. A request that matches a known template is not decoded, and its response is not encoded from a message;
consecutive requests with the same template are a :class:`CoalescedProduce`, served together.

Templates are learned from requests that were decoded in the general way, and only if our encoding of them has the same
bytes. Any other request takes the general way, and so does everything unusual: several partitions, acks=0. The handler
may send requests there, too: the first batches of a transaction.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from attrs import define

from logbus.records.file_slice import joined
from logbus.wire.connection import Request
from logbus.wire.encoder_runtime import uvarint
from logbus.wire.frame_buffer import FrameBuffer
from logbus.wire.headers import RequestHeader, encode_request_header
from logbus.wire.messages.records import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from logbus.wire.schema import encode

PRODUCE = 0
FIRST, LAST = 5, 13
"""The supported versions of Produce, whose responses have all three numbers."""

MAX_TEMPLATES = 4096
"""Upper bound of known templates; when it is reached, all are forgotten."""

_FLEXIBLE = 9
_BY_ID = 13
_LONGEST = 600
_AFTER_ID = 8
_NULL = 0xFFFF
_BEFORE_PREFIX = 4 + _AFTER_ID
_NO_TAGS = bytes(3)
_ACKS = (1, -1)
# Length of the frame, API key and version, correlation id, length of the client id.
_HEAD = Struct(">iIih")
_read_head = _HEAD.unpack_from
_pack_length = Struct(">i").pack
_pack_head = Struct(">ii").pack
_NUMBERS = 24


class RequestTemplate:
    """
    The repeated bytes of one client's Produce requests to one partition, made from one of them.

    :ivar prefix: the template: from the length of the client id to the partition's index.
    :ivar tail: the bytes after the batch.
    :ivar size: of the frame that was last measured.
    :ivar head: the template and the batch's length in such a frame; None: no frame of that size matches.
    :ivar before: bytes of such a frame in front of the batch, with its own length.
    :ivar api: key and version of the API, as in the header.
    :ivar client_id: of the client.
    :ivar api_version: of Produce.
    :ivar topic: by name; empty from version 13 on, which has ``topic_id`` instead.
    :ivar index: the partition's.
    :ivar partition: equal for requests to the same partition with the same version and acks.
    :ivar acks: 1, or −1 for all in sync.
    :ivar timeout_ms: of acks −1.
    :ivar transactional_id: of the producer; None: it has none.
    """

    __slots__ = (
        "_after",
        "_before",
        "_length",
        "_pack",
        "_tag",
        "acks",
        "api",
        "api_version",
        "before",
        "client_id",
        "head",
        "index",
        "partition",
        "prefix",
        "size",
        "tail",
        "timeout_ms",
        "topic",
        "topic_id",
        "transactional_id",
    )

    def __init__(self, prefix: bytes, request: Request, client_id: str) -> None:
        message: ProduceRequest = request.message
        topic = message.topic_data[0]
        api_version = request.api_version
        self.prefix = prefix
        self.client_id = client_id
        self.api_version = api_version
        self.api = PRODUCE << 16 | api_version
        self.topic = topic.name
        self.topic_id = topic.topic_id
        self.index = topic.partition_data[0].index
        self.acks = message.acks
        self.partition = (topic.name, topic.topic_id, self.index, api_version, message.acks)
        self.timeout_ms = message.timeout_ms
        self.transactional_id = message.transactional_id
        self.tail = _NO_TAGS if api_version >= _FLEXIBLE else b""
        self.size = self.before = 0
        self.head: bytes | None = None
        # All responses differ only in three consecutive numbers: encoding two responses shows their position.
        zeros, ones = (self._answer(number) for number in (0, -1))
        at = next(i for i, (zero, one) in enumerate(zip(zeros, ones, strict=True)) if zero != one)
        self._tag = b"\0" if api_version >= _FLEXIBLE else b""
        self._before, self._after = self._tag + zeros[:at], zeros[at + _NUMBERS :]
        self._length = 4 + len(self._tag) + len(zeros)
        self._pack = Struct(f">ii{len(self._before)}sqqq{len(self._after)}s").pack

    def _answer(self, number: int) -> bytes:
        answer = PartitionProduceResponse(
            index=self.index, base_offset=number, log_append_time_ms=number, log_start_offset=number
        )
        topic = TopicProduceResponse(name=self.topic, topic_id=self.topic_id, partition_responses=[answer])
        message = ProduceResponse(responses=[topic])
        return joined(encode(message, self.api_version))

    def measure(self, size: int) -> None:
        """Compute the position of the batch in a frame of ``size`` bytes. Compare the frame with :attr:`head`, too."""
        self.size = size
        rest = size - _AFTER_ID - len(self.prefix) - len(self.tail)
        width = _width_of_length(rest) if self.tail else 4
        batch = rest - width
        if batch <= 0 or not width:
            self.head = None
            return
        self.head = self.prefix + (uvarint(batch + 1) if self.tail else _pack_length(batch))
        self.before = _BEFORE_PREFIX + len(self.head)

    def written(self, correlation_id: int, base_offset: int, append_time: int, log_start_offset: int) -> bytes:
        """
        The response to a request whose batch was written, with its length and header.

        :param append_time: ms since 1970.
        """
        return self._pack(
            self._length, correlation_id, self._before, base_offset, append_time, log_start_offset, self._after
        )

    def refused(self, correlation_id: int, response: ProduceResponse) -> bytes:
        """Any other response, likewise."""
        body = self._tag + joined(encode(response, self.api_version))
        return _pack_head(len(body) + 4, correlation_id) + body


def _prefix_without_records(request: Request, data: PartitionProduceData, frame: memoryview) -> bytes | None:
    """
    The template of a decoded request with one batch; None if our encoding of the request differs from ``frame``.

    The records are not encoded: several copies of a megabyte took as long as the rest of the first request of a
    connection. They were found in the frame where they follow our encoding of what is before them.

    :param data: that of the batch in the request.
    """
    version, records = request.api_version, data.records
    assert records is not None
    flexible = version >= _FLEXIBLE
    header = encode_request_header(RequestHeader(PRODUCE, version, request.correlation_id, request.client_id), flexible)
    data.records = b"\0"
    try:
        spelt = header + joined(encode(request.message, version))
    finally:
        data.records = records
    tail = _NO_TAGS if flexible else b""
    end = len(spelt) - len(tail) - 1 - (1 if flexible else 4)
    length = uvarint(len(records) + 1) if flexible else _pack_length(len(records))
    head = spelt[:end] + length
    if (
        len(frame) != len(head) + len(records) + len(tail)
        or frame[: len(head)] != head
        or frame[len(frame) - len(tail) :] != tail
    ):
        return None
    return spelt[_AFTER_ID:end]


def _width_of_length(rest: int) -> int:
    """Bytes of the varint before a batch, when it and the batch are ``rest`` bytes; 0: no varint fits."""
    return next((n for n in range(1, 6) if len(uvarint(max(rest - n, 0) + 1)) == n), 0)


@define(eq=False)
class CoalescedProduce:
    """
    Consecutive Produce requests with the same template. In the order of responses it has one place, like a
    :class:`.Request`.

    :ivar batches: the records of each: views of the connection's receive buffer, valid only until they are served.
    :ivar size: bytes of their frames.
    """

    template: RequestTemplate
    correlation_ids: list[int]
    batches: list[memoryview]
    size: int
    api_key = PRODUCE
    held = exclusive = False


class TemplateCache:
    """The known templates. It has no state of a peer, so that one object can serve all connections of a listener."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], RequestTemplate] = {}

    def learn(self, request: Request, frame: memoryview) -> bool:
        """Add the template of a decoded Produce request, if it is a usual one; returns whether it is."""
        message: ProduceRequest = request.message
        client_id, version = request.client_id, request.api_version
        if message.acks not in _ACKS or len(message.topic_data) != 1:
            return False
        topic: TopicProduceData = message.topic_data[0]
        if len(topic.partition_data) != 1 or client_id is None or not FIRST <= version <= LAST:
            return False
        data: Any = topic.partition_data[0]
        if not data.records:
            return False
        name = client_id.encode()
        end = self._end(frame, _AFTER_ID, len(frame), version, len(name))
        if end and (version, bytes(frame[_AFTER_ID:end])) in self._known:
            return True
        prefix = _prefix_without_records(request, data, frame)
        if prefix is None or len(prefix) > _LONGEST or end != _AFTER_ID + len(prefix):
            return False
        if len(self._known) >= MAX_TEMPLATES:
            self._known.clear()
        self._known[version, prefix] = RequestTemplate(prefix, request, client_id)
        return True

    def take(
        self, frames: FrameBuffer, last: RequestTemplate | None, most: int, most_bytes: int
    ) -> CoalescedProduce | None:
        """
        The next requests in the buffer that match one template; None if the next one matches none. They stay in the
        buffer until they are served and :meth:`passed` is called.

        :param last: the most likely template.
        :param most: upper bound of requests.
        :param most_bytes: after so many bytes no further request is taken.
        """
        buffer, view, start, end = frames.contents
        if end - start < _HEAD.size:
            return None
        size, api, correlation_id, name = _read_head(buffer, start)
        stop = start + 4 + size
        if stop > end or size > frames.limit:
            return None
        prefix = start + _BEFORE_PREFIX
        if last is not None and api == last.api and buffer[prefix : prefix + len(last.prefix)] == last.prefix:
            template = last
        else:
            found = self._find(buffer, prefix, stop, api, name)
            if found is None:
                return None
            template = found
        begun, api, tail = start, template.api, template.tail
        short = len(tail)
        ids: list[int] = []
        batches: list[memoryview] = []
        while True:
            if size != template.size:
                template.measure(size)
            at = start + template.before
            if buffer[start + _BEFORE_PREFIX : at] != template.head or buffer[stop - short : stop] != tail:
                break
            ids.append(correlation_id)
            batches.append(view[at : stop - short])
            start = stop
            if len(ids) == most or start - begun >= most_bytes or end - start < _HEAD.size:
                break
            size, next_api, correlation_id, _ = _read_head(buffer, start)
            stop = start + 4 + size
            if next_api != api or stop > end or size > frames.limit:
                break
        if not ids:
            return None
        return CoalescedProduce(template, ids, batches, start - begun - 4 * len(ids))

    @staticmethod
    def passed(run: CoalescedProduce, frames: FrameBuffer) -> None:
        """Remove served requests from the buffer."""
        frames.consume(run.size + 4 * len(run.batches))

    def _find(self, buffer: Any, at: int, stop: int, api: int, name: int) -> RequestTemplate | None:
        """The template that begins at ``at``, assuming the usual layout."""
        if api >> 16 != PRODUCE or name < 0:
            return None
        version = api & 0xFFFF
        end = self._end(buffer, at, stop, version, name)
        return self._known.get((version, bytes(buffer[at:end]))) if end else None

    @staticmethod
    def _end(buffer: Any, at: int, stop: int, version: int, name: int) -> int:
        """
        The end of a template that begins at ``at`` with a client id of that length; 0: the layout is not the usual one.
        """
        end = at + 2 + name
        if version >= _FLEXIBLE:
            if end + 1 >= stop:
                return 0
            # No tags, the transactional id (0: none; otherwise its length and 1), acks, timeout, one topic.
            end += 9 + max(buffer[end + 1] - 1, 0)
            if end >= stop:
                return 0
            # The topic, one partition, its index.
            end += 16 + 5 if version >= _BY_ID else buffer[end] + 5
        else:
            if end + 2 > stop:
                return 0
            transactional_id = buffer[end] << 8 | buffer[end + 1]
            end += 12 + (0 if transactional_id == _NULL else transactional_id)
            if end + 2 > stop:
                return 0
            end += (buffer[end] << 8 | buffer[end + 1]) + 10
        return end if end < stop else 0
