"""
Fast path for repeated Fetch requests: recognizes them by a byte template, without decoding.

A consumer repeats the same Fetch of one partition with another offset, and, in a fetch session, another session epoch;
so does a follower that finds one partition busy, as long as the epochs and the start of its log stay the same.
A request that matches a known template in all other bytes is not decoded, and its response is not encoded from a
message.

Templates are learned from requests that were decoded in the general way, and only if our encoding of them has the same
bytes. Requests of several partitions, those that open or close a session, and those of followers before version 15 take
the general way.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

from logbus.records.file_slice import FileSlice, Parts, joined, total_length
from logbus.wire.connection import Request
from logbus.wire.encoder_runtime import uvarint
from logbus.wire.frame_buffer import PREFIX
from logbus.wire.headers import RequestHeader, encode_request_header
from logbus.wire.messages.records import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from logbus.wire.schema import encode

FETCH = 1
FIRST, LAST = 4, 18
"""The supported versions of Fetch."""

MAX_TEMPLATES = 4096
"""Upper bound of known templates; when it is reached, all are forgotten."""

_LOG_START = 5
_SESSIONS = 7
_LEADER_EPOCH = 9
_FLEXIBLE = 12
_BY_ID = 13
_NO_REPLICA_ID = 15
_LONGEST = 600
_SHORT_NAME = 126
_NO_EPOCH = -1
_READ_COMMITTED = 1
# API key and version, correlation id, length of the client id.
_HEAD = Struct(">Iih")
_read_head = _HEAD.unpack_from
_read_session = Struct(">ii").unpack_from
_read_offset = Struct(">q").unpack_from
_read_short = Struct(">h").unpack_from
_pack_head = Struct(">ii").pack
_pack_length = Struct(">i").pack
_pack_session = Struct(">i").pack
_pack_sessions = Struct(">ii").pack
_pack_offset = Struct(">q").pack
_JOIN = 1 << 13
"""So many bytes of records in memory are sent with what is around them: others are not copied."""
_AFTER_ID = 8
_SESSION = 8
_OFFSET = 8


class _Layout(NamedTuple):
    """
    The places of the numbers in a frame: the session's id, which its epoch follows (0: there is none), and the offset.
    """

    session: int
    offset: int


class FetchTemplate:
    """
    The repeated bytes of one kind of client's Fetch requests of one partition, made from one of them.

    :ivar client_id: of the client.
    :ivar api_version: of Fetch.
    :ivar topic: by name; empty from version 13 on, which has ``topic_id`` instead.
    :ivar topic_key: the one of them that the version has.
    :ivar partition: with the limits of this partition.
    :ivar follower: who a follower claims to be; None: they are a consumer's.
    :ivar message: the request from which it was learned, for what all have in common.
    :ivar shape: equal for templates whose responses differ only in what is before their numbers.
    :ivar prepared: what the handler derives from the template once.
    """

    __slots__ = (
        "_after",
        "_before_session",
        "_before_topic",
        "_pack",
        "_places",
        "_repeated",
        "_tag",
        "_tail",
        "api_version",
        "client_id",
        "follower",
        "message",
        "partition",
        "prepared",
        "shape",
        "topic",
        "topic_id",
        "topic_key",
    )

    def __init__(self, request: Request, client_id: str, frame: memoryview, layout: _Layout) -> None:
        message: FetchRequest = request.message
        self._places = layout
        self._repeated = _pieces(frame, layout)
        topic = message.topics[0]
        version = self.api_version = request.api_version
        self.client_id = client_id
        self.message = message
        self.topic, self.topic_id = topic.topic, topic.topic_id
        self.topic_key: str | bytes = topic.topic_id if version >= _BY_ID else topic.topic
        self.partition: FetchPartition = topic.partitions[0]
        self.follower: ReplicaState | None = message.replica_state
        self.prepared: Any = None
        self.shape = (version, message.isolation_level)
        # All responses have three consecutive numbers (two in version 4), of which encoding two responses shows the
        # position; an empty field of records follows them at a fixed distance.
        zeros, ones = (self._example(number) for number in (0, -1))
        at = next(i for i, (zero, one) in enumerate(zip(zeros, ones, strict=True)) if zero != one)
        width = 24 if version >= _LOG_START else 16
        flexible = version >= _FLEXIBLE
        self._tag = b"\0" if flexible else b""
        self._tail = bytes(3) if flexible else b""
        # No time to wait, no error, then the session.
        split = 6 if version >= _SESSIONS else at
        self._before_session = self._tag + zeros[:split]
        self._before_topic = zeros[split + 4 : at] if version >= _SESSIONS else b""
        after = zeros[at + width : len(zeros) - len(self._tail) - (1 if flexible else 4)]
        self._after = after
        self._pack = Struct(f">{width // 8}q{len(after)}s").pack

    def request(self, frame: memoryview) -> RepeatedFetch | None:
        """The request in a frame, if it differs in the numbers only, and neither opens nor closes a session."""
        session, place = self._places
        if _pieces(frame, self._places) != self._repeated:
            return None
        session_id, epoch = _read_session(frame, session) if session else (0, -1)
        offset = _read_offset(frame, place)[0]
        if offset < 0 or not _continues(session_id, epoch):
            return None
        return RepeatedFetch(self, _read_head(frame)[1], session_id, epoch, offset)

    def places(self) -> tuple[int, int]:
        """Where a request has its session's epoch (0: it has none) and its offset, from its length on."""
        session, offset = self._places
        return (PREFIX + session + 4 if session else 0), PREFIX + offset

    def repeated(self, request: RepeatedFetch) -> bytes:
        """The bytes of a request with this template, with its length."""
        first, between, behind = self._repeated
        session = _pack_sessions(request.session_id, request.session_epoch) if self._places.session else b""
        frame = b"".join(
            (
                first[:4],
                _pack_length(request.correlation_id),
                first[4:],
                session,
                between,
                _pack_offset(request.offset),
                behind,
            )
        )
        return _pack_length(len(frame)) + frame

    def _example(self, number: int) -> bytes:
        data = PartitionData(
            partition_index=self.partition.partition,
            high_watermark=number,
            last_stable_offset=number,
            log_start_offset=number,
            aborted_transactions=[] if self.message.isolation_level == _READ_COMMITTED else None,
            records=b"",
        )
        topic = FetchableTopicResponse(topic=self.topic, topic_id=self.topic_id, partitions=[data])
        return joined(encode(FetchResponse(responses=[topic]), self.api_version))

    def found(
        self, high_watermark: int, last_stable_offset: int, log_start_offset: int, records: FileSlice | None
    ) -> Parts:
        """
        The end of a response without an error, from the numbers on: equal for all templates with this :attr:`shape`.

        :param records: without aborted transactions.
        """
        numbers = self._numbers(high_watermark, last_stable_offset, log_start_offset)
        length = 0 if records is None else records.length
        numbers += uvarint(length + 1) if self._tail else _pack_length(length)
        if records is None:
            return [numbers + self._tail]
        if records.data is not None and length <= _JOIN:
            return [b"".join((numbers, records.data, self._tail))]
        return [numbers, records, self._tail] if self._tail else [numbers, records]

    def _numbers(self, high_watermark: int, last_stable_offset: int, log_start_offset: int) -> bytes:
        if self.api_version >= _LOG_START:
            return self._pack(high_watermark, last_stable_offset, log_start_offset, self._after)
        return self._pack(high_watermark, last_stable_offset, self._after)

    def around_records(
        self, session_id: int, high_watermark: int, last_stable_offset: int, log_start_offset: int
    ) -> tuple[bytes, bytes, bool]:
        """
        A response without an error, up to where the length of its records follows, and what follows the records.

        Its own length, and its correlation id, are to be set.

        :returns: these, and whether the length of records is a compact one.
        """
        numbers = self._numbers(high_watermark, last_stable_offset, log_start_offset)
        head = self.response(0, session_id, [numbers], len(numbers))[0]
        assert isinstance(head, bytes)
        return head, self._tail, bool(self._tail)

    def response(self, correlation_id: int, session_id: int, found: Parts, size: int) -> Parts:
        """
        A whole response, with its length and header.

        :param found: made by :meth:`found`, of ``size`` bytes; not changed.
        """
        if self.api_version >= _SESSIONS:
            before = self._before_session + _pack_session(session_id) + self._before_topic
        else:
            before = self._before_session
        first: Any = found[0]
        return [_pack_head(4 + len(before) + size, correlation_id) + before + first, *found[1:]]

    def unusual(self, correlation_id: int, response: FetchResponse) -> Parts:
        """Any other response, likewise."""
        body = encode(response, self.api_version)
        return [_pack_head(4 + len(self._tag) + total_length(body), correlation_id) + self._tag, *body]


class RepeatedFetch:
    """
    A Fetch request that was recognized. In the order of responses it has its place like a :class:`.Request`.

    :ivar session_id: 0 without a session.
    :ivar session_epoch: −1 without a session; otherwise greater than 0.
    :ivar read_to: once it is answered, where its next one begins if there is more to read already; otherwise −1.
    """

    __slots__ = ("correlation_id", "offset", "read_to", "session_epoch", "session_id", "template")

    api_key = FETCH
    held = exclusive = sliced = False

    def __init__(
        self, template: FetchTemplate, correlation_id: int, session_id: int, session_epoch: int, offset: int
    ) -> None:
        self.template = template
        self.correlation_id = correlation_id
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.offset = offset
        self.read_to = -1


class FetchTemplateCache:
    """The known templates. It has no state of a peer, so that one object can serve all connections of a listener."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[_Layout, tuple[bytes, bytes, bytes]], FetchTemplate] = {}

    def learn(self, request: Request, frame: memoryview) -> bool:
        """Add the template of a decoded Fetch request, if it is a usual one; returns whether it is."""
        message: FetchRequest = request.message
        client_id, version = request.client_id, request.api_version
        if client_id is None or len(message.topics) != 1 or not FIRST <= version <= LAST or len(frame) > _LONGEST:
            return False
        topic: FetchTopic = message.topics[0]
        state = message.replica_state
        if (
            len(topic.partitions) != 1
            or (state is None and topic.partitions[0].last_fetched_epoch != _NO_EPOCH)
            or message.replica_id >= 0
            or (state is not None and state.replica_id < 0)
            or message.forgotten_topics_data
            or not _continues(message.session_id, message.session_epoch)
        ):
            return False
        header = encode_request_header(
            RequestHeader(FETCH, version, request.correlation_id, client_id), version >= _FLEXIBLE
        )
        if header + joined(encode(message, version)) != bytes(frame):
            return False
        layout = _layout(frame)
        if layout is None or _read_offset(frame, layout.offset)[0] != topic.partitions[0].fetch_offset:
            return False
        if layout.session and _read_session(frame, layout.session) != (message.session_id, message.session_epoch):
            return False
        if len(self._known) >= MAX_TEMPLATES:
            self._known.clear()
        self._known[layout, _pieces(frame, layout)] = FetchTemplate(request, client_id, frame, layout)
        return True

    def recognize(self, frame: memoryview, last: FetchTemplate | None = None) -> RepeatedFetch | None:
        """
        The request in a frame, if it matches a template.

        :param last: what the connection's last one matched, which is looked at first.
        """
        if last is not None and (request := last.request(frame)) is not None:
            return request
        layout = _layout(frame)
        if layout is None:
            return None
        template = self._known.get((layout, _pieces(frame, layout)))
        return None if template is None else template.request(frame)


def _continues(session_id: int, epoch: int) -> bool:
    """Whether a request neither opens nor closes a session."""
    return epoch > 0 if session_id else epoch == -1


def _pieces(frame: memoryview, layout: _Layout) -> tuple[bytes, bytes, bytes]:
    """All bytes but those of the numbers: up to the first, between them, and behind them."""
    session, offset = layout
    data = bytes(frame)
    end = session or offset
    begin = session + _SESSION if session else offset
    return data[:4] + data[_AFTER_ID:end], data[begin:offset], data[offset + _OFFSET :]


def _layout(frame: memoryview) -> _Layout | None:
    """The layout of a Fetch of one partition; None: it is something else, or too unusual."""
    size = len(frame)
    if size < _HEAD.size:
        return None
    api, _, name = _read_head(frame)
    version = api & 0xFFFF
    if api >> 16 != FETCH or name < 0 or size > _LONGEST or not FIRST <= version <= LAST:
        return None
    # After the header: replica id, time to wait, least and most bytes, isolation level.
    pos = _HEAD.size + name + (1 if version >= _FLEXIBLE else 0) + (13 if version >= _NO_REPLICA_ID else 17)
    session = 0
    if version >= _SESSIONS:
        session, pos = pos, pos + _SESSION
    # One topic, its name or id, one partition, its index and its leader's epoch.
    if version >= _BY_ID:
        pos += 1 + 16 + 1 + 8
    elif version >= _FLEXIBLE:
        if pos + 1 >= size or frame[pos + 1] > _SHORT_NAME:
            return None
        pos += 1 + frame[pos + 1] + 1 + 8
    else:
        if pos + 6 > size:
            return None
        pos += 4 + 2 + _read_short(frame, pos + 4)[0] + 4 + (8 if version >= _LEADER_EPOCH else 4)
    if not session < pos or pos + _OFFSET > size:
        return None
    return _Layout(session, pos)
