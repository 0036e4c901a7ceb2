"""
A producer says the same words before every batch it sends to a partition: they are read once.

The words are all there is between the correlation id and the records of a Produce request: client, transactional id,
acks, timeout, topic and partition. A request that begins with words known from an earlier one needs no decoding, nor
does its answer need encoding; and requests that follow each other with the same words are a :class:`CoalescedProduce`,
served together.

What is known was learned from requests that were decoded in the general way, and only of those that are spelt exactly
as we would spell them. Whatever differs in a byte goes the general way again, and so does all that is not usual:
several partitions, acks=0. Whoever is to serve a run may send it there, too: the first batches of a transaction.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from logbus.records.file_slice import joined
from logbus.wire.connection import Request
from logbus.wire.encoder_runtime import uvarint
from logbus.wire.frame_buffer import FrameBuffer
from logbus.wire.headers import RequestHeader, encode_request_header
from logbus.wire.messages.records import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from logbus.wire.schema import ZERO_UUID, encode

PRODUCE = 0
FIRST, LAST = 5, 13
"""The versions that are learned: answers have all three numbers."""

MAX_TEMPLATES = 4096
"""Sets of words known at a time; when there are more, all are forgotten."""

_FLEXIBLE = 9
_BY_ID = 13
_LONGEST = 600
_AFTER_ID = 8
_NULL = 0xFFFF
_BEFORE_WORDS = 4 + _AFTER_ID
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
    Words that were said before.

    :ivar words: from the length of the client id to the partition's index.
    :ivar tail: what follows the batch.
    :ivar size: of the frame that was last measured.
    :ivar head: the words and the batch's length in such a frame; None: there is no usual frame of that size.
    :ivar before: bytes of such a frame in front of the batch, with its own length.
    :ivar api: key and version of the API, as they are in the header.
    :ivar client_id: what the client calls itself.
    :ivar api_version: of Produce.
    :ivar topic: where the batches go, by name; empty from version 13 on, which has ``topic_id`` instead.
    :ivar index: the partition's.
    :ivar acks: 1, or −1 for all in sync.
    :ivar timeout_ms: how long these may take.
    :ivar transactional: whether the words name a transactional id.
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
        "size",
        "tail",
        "timeout_ms",
        "topic",
        "topic_id",
        "transactional",
        "words",
    )

    def __init__(
        self,
        words: bytes,
        client_id: str,
        api_version: int,
        topic: str,
        index: int,
        topic_id: bytes = ZERO_UUID,
        acks: int = 1,
        timeout_ms: int = 0,
        transactional: bool = False,
    ) -> None:
        self.words = words
        self.client_id = client_id
        self.api_version = api_version
        self.api = PRODUCE << 16 | api_version
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.transactional = transactional
        self.tail = _NO_TAGS if api_version >= _FLEXIBLE else b""
        self.size = self.before = 0
        self.head: bytes | None = None
        # All answers are alike but for three numbers in a row: where they are is seen by spelling two.
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
        """Know where the batch is in a frame of ``size`` bytes. What else there is in it is told by :attr:`head`."""
        self.size = size
        rest = size - _AFTER_ID - len(self.words) - len(self.tail)
        width = 4 if not self.tail else next((n for n in range(1, 6) if len(uvarint(max(rest - n, 0) + 1)) == n), 0)
        batch = rest - width
        if batch <= 0 or not width:
            self.head = None
            return
        self.head = self.words + (uvarint(batch + 1) if self.tail else _pack_length(batch))
        self.before = _BEFORE_WORDS + len(self.head)

    def written(self, correlation_id: int, base_offset: int, append_time: int, log_start_offset: int) -> bytes:
        """
        The answer to a request whose batch was written, with its length and header.

        :param append_time: ms since 1970.
        """
        return self._pack(
            self._length, correlation_id, self._before, base_offset, append_time, log_start_offset, self._after
        )

    def refused(self, correlation_id: int, response: ProduceResponse) -> bytes:
        """Any other answer, likewise."""
        body = self._tag + joined(encode(response, self.api_version))
        return _pack_head(len(body) + 4, correlation_id) + body


class CoalescedProduce:
    """
    Requests with the same words, in the order they came. In a queue of those whose answers are not ready it has one
    place, like a :class:`.Request`.

    :ivar batches: the records of each: views of the connection's receive buffer, valid only until they are served.
    :ivar size: bytes of their frames.
    """

    __slots__ = ("batches", "correlation_ids", "size", "template")
    api_key = PRODUCE
    held = exclusive = False

    def __init__(
        self, template: RequestTemplate, correlation_ids: list[int], batches: list[memoryview], size: int
    ) -> None:
        self.template = template
        self.correlation_ids = correlation_ids
        self.batches = batches
        self.size = size


class TemplateCache:
    """
    The words that producers repeat. It remembers nothing of a peer, so that one object can serve all connections of a
    listener.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], RequestTemplate] = {}

    def learn(self, request: Request, frame: memoryview) -> bool:
        """Take note of the words of a Produce that was decoded, if they are usual ones; says whether they are."""
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
        flexible = version >= _FLEXIBLE
        header = encode_request_header(RequestHeader(PRODUCE, version, request.correlation_id, client_id), flexible)
        spelt = header + joined(encode(message, version))
        if spelt != frame:
            return False
        # In front of the batch is its length.
        end = len(spelt) - len(data.records) - (len(_NO_TAGS) if flexible else 0)
        end -= len(uvarint(len(data.records) + 1)) if flexible else 4
        words = spelt[_AFTER_ID:end]
        if len(words) > _LONGEST or self._end(frame, _AFTER_ID, len(frame), version, len(client_id.encode())) != end:
            return False
        if len(self._known) >= MAX_TEMPLATES:
            self._known.clear()
        self._known[version, words] = RequestTemplate(
            words,
            client_id,
            version,
            topic.name,
            data.index,
            topic.topic_id,
            message.acks,
            message.timeout_ms,
            message.transactional_id is not None,
        )
        return True

    def take(
        self, frames: FrameBuffer, last: RequestTemplate | None, most: int, most_bytes: int
    ) -> CoalescedProduce | None:
        """
        The next requests in the buffer, as far as they are of one refrain; None if the next one is of none. They stay
        where they are until somebody serves them and calls :meth:`passed`.

        :param last: the refrain that is most likely.
        :param most: no more requests than that.
        :param most_bytes: with which one begins no further request.
        """
        buffer, view, start, end = frames.contents
        if end - start < _HEAD.size:
            return None
        size, api, correlation_id, name = _read_head(buffer, start)
        stop = start + 4 + size
        if stop > end or size > frames.limit:
            return None
        words = start + _BEFORE_WORDS
        if last is not None and api == last.api and buffer[words : words + len(last.words)] == last.words:
            template = last
        else:
            found = self._find(buffer, words, stop, api, name)
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
            if buffer[start + _BEFORE_WORDS : at] != template.head or buffer[stop - short : stop] != tail:
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
        """A run was served: its requests leave the buffer."""
        frames.pass_over(run.size + 4 * len(run.batches))

    def _find(self, buffer: Any, at: int, stop: int, api: int, name: int) -> RequestTemplate | None:
        """The refrain that begins at ``at``: its end is where the usual request has it."""
        if api >> 16 != PRODUCE or name < 0:
            return None
        version = api & 0xFFFF
        end = self._end(buffer, at, stop, version, name)
        return self._known.get((version, bytes(buffer[at:end]))) if end else None

    @staticmethod
    def _end(buffer: Any, at: int, stop: int, version: int, name: int) -> int:
        """Where words end that begin at ``at`` with a name of that length, if they are usual; 0: they are not."""
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
