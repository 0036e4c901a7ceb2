"""Encodes and decodes the requests and responses of a connection, for servers and clients, without any I/O."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field

from logbus.errors import BudgetExceeded, DecodeError, ErrorCode, ProtocolError
from logbus.records.file_slice import Parts, total_length
from logbus.wire.element_budget import REQUEST_ELEMENTS, RESPONSE_ELEMENTS, element_budget
from logbus.wire.error_codes import error_finder, incremental_error_finder
from logbus.wire.headers import (
    API_VERSIONS,
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    response_is_tagged,
)
from logbus.wire.messages import api, api_name
from logbus.wire.schema import Steps, decoder, encoder, incremental_decoder, incremental_encoder, message_spec

_Frame = bytes | bytearray | memoryview
_read_request_head = struct.Struct(">hhih").unpack_from
_read_correlation = struct.Struct(">i").unpack_from
_pack_length = struct.Struct(">i").pack
_pack_response_head = struct.Struct(">ii").pack
_pack_tagged_response_head = struct.Struct(">iix").pack
_REQUEST_HEAD = 10
_SMALL = 1 << 16
"""Bytes of a response that are copied behind its header."""
_SHOWN = 100
"""Bytes of a client id in a message."""
_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


class _Codec:
    """The functions that read and write one version of one API."""

    __slots__ = ("api_key", "api_version", "decode", "encode", "find_errors", "flexible", "tagged_response")

    def __init__(self, api_key: int, api_version: int) -> None:
        known = api(api_key)
        self.api_key = api_key
        self.api_version = api_version
        self.flexible = known.flexible.includes(api_version)
        self.tagged_response = response_is_tagged(api_key, self.flexible)
        self.decode: Callable[..., tuple[Any, int]] = decoder(known.request, api_version)
        self.encode: Callable[[Any], Parts] = encoder(known.response, api_version)
        self.find_errors = error_finder(api_key, api_version)

    def decode_steps(self, frame: _Frame, pos: int, budget: int) -> Steps[tuple[Any, int]]:
        return incremental_decoder(api(self.api_key).request, self.api_version)(frame, pos, budget)

    def encode_steps(self, response: Any) -> Steps[Parts]:
        return incremental_encoder(api(self.api_key).response, self.api_version)(response)


class Request:
    """
    A received request.

    :ivar api_key: of the API.
    :ivar api_version: of the request, and of its response.
    :ivar correlation_id: sent back with the response.
    :ivar client_id: sent by the client; may be None.
    :ivar message: the decoded body. Records in it are views of the connection's receive buffer, valid only until the
        router returns. None until ``decoding`` has finished, if that is set.
    :ivar decoding: set if the message has more elements than may be decoded in one go: it decodes some of them each
        time it is advanced, and sets ``message`` at its end. The frame must not change until then; records in the
        message are views of the frame.
    :ivar sliced: set if serving the request took more than one time slice; its response is encoded in slices, too.
    :ivar size: bytes of the frame.
    :ivar unsupported: an ApiVersions request of an unknown version. ``message`` has defaults, and the response
        (UNSUPPORTED_VERSION and the supported range) is encoded in version 0.
    :ivar exclusive: set by the handler of a Produce whose response waits for other reasons than its acks: later
        requests wait.
    :ivar charge: set if its client pays for processor time: takes the seconds of each later time slice.
    :ivar held: set by the handler of a Produce that is not written completely yet: it is cancelled if the client
        disconnects.
    """

    __slots__ = (
        "_codec",
        "api_key",
        "api_version",
        "charge",
        "client_id",
        "correlation_id",
        "decoding",
        "exclusive",
        "held",
        "message",
        "size",
        "sliced",
        "unsupported",
    )

    def __init__(
        self, codec: _Codec, correlation_id: int, client_id: str | None, message: Any, size: int, unsupported: bool
    ) -> None:
        self._codec = codec
        self.api_key = codec.api_key
        self.api_version = codec.api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.message = message
        self.size = size
        self.unsupported = unsupported
        self.decoding: Steps[None] | None = None
        self.exclusive = False
        self.held = False
        self.sliced = False
        self.charge: Callable[[float], object] | None = None

    def __repr__(self) -> str:
        return f"<Request {self.correlation_id}: api {self.api_key} version {self.api_version}, {self.size} bytes>"


class ServerConnection:
    """
    Reads requests and writes their responses.

    It has no state of a peer, so that one object can serve all connections of a listener.

    :ivar served: the lowest and the highest supported version by API key.
    :ivar max_elements: upper bound of array elements in a request (100,000 once a client is authenticated).
    :param max_elements_at_once: elements that :meth:`receive` decodes in one go; for a request with more it sets
        ``Request.decoding``. None: all.
    :ivar count_error: called with API key and code of each error in a response, and of each request of an unsupported
        version; None: they are not looked for.
    """

    __slots__ = ("_at_once", "_codecs", "count_error", "max_elements", "served")

    def __init__(
        self,
        served: Mapping[int, tuple[int, int]],
        max_elements: int = REQUEST_ELEMENTS,
        max_elements_at_once: int | None = None,
        count_error: Callable[[int, int], object] | None = None,
    ) -> None:
        self.count_error = count_error
        self.served = dict(served)
        self._codecs: dict[int, _Codec] = {}
        self.max_elements = max_elements
        self._at_once = max_elements if max_elements_at_once is None else min(max_elements_at_once, max_elements)

    def receive(self, frame: _Frame) -> Request:
        """
        Decode one frame (without its length prefix).

        :raises ProtocolError: the API or its version is not supported, or the bytes are not a request of it. The caller
            should close the connection then, as Kafka does; the only exception is an ApiVersions request of an unknown
            version.
        """
        size = len(frame)
        try:
            key, version, correlation_id, length = _read_request_head(frame, 0)
        except struct.error:
            raise DecodeError(f"a request of {size} bytes is shorter than its header") from None
        codec = self._codecs.get(key << 16 | version)
        if codec is None:
            codec = self._codec(key, version, frame[_REQUEST_HEAD : _REQUEST_HEAD + max(length, 0)])
            if codec is None:
                # The rest of the header may have an unknown format; it is not needed.
                return self._unsupported(correlation_id, size)
        pos = _REQUEST_HEAD + length
        if length < 0 or pos >= size or (codec.flexible and frame[pos]):
            # Not the usual header: no client id, tagged fields, or invalid.
            header, pos = decode_request_header(frame, 0, codec.flexible)
            client_id = header.client_id
        else:
            try:
                client_id = str(frame[_REQUEST_HEAD:pos], "utf-8")
            except UnicodeDecodeError:
                raise DecodeError("the client id is not UTF-8") from None
            if codec.flexible:
                pos += 1
        # Bytes left over are ignored, as in Kafka: librdkafka's flexible Metadata request for all topics has three
        # bytes too many at its end.
        try:
            message, _ = codec.decode(frame, pos, element_budget(size, self._at_once))
        except BudgetExceeded:
            budget = element_budget(size, self.max_elements)
            if budget <= self._at_once:
                raise
            request = Request(codec, correlation_id, client_id, None, size, False)
            request.decoding = self._decode(request, frame, pos, budget)
            return request
        return Request(codec, correlation_id, client_id, message, size, False)

    def _decode(self, request: Request, frame: _Frame, pos: int, budget: int) -> Steps[None]:
        request.message, _ = yield from request._codec.decode_steps(frame, pos, budget)
        request.decoding = None

    def respond(self, request: Request, response: Any, encoded: Parts | None = None) -> Parts:
        """
        Encode the response to ``request``, with its length prefix and header.

        :param response: the API's response message; or ``bytes``, a body already encoded in ``request.api_version``.
        :param encoded: the message's encoding, if already known.
        """
        codec = request._codec
        if isinstance(response, bytes):
            pack, extra = (_pack_tagged_response_head, 5) if codec.tagged_response else (_pack_response_head, 4)
            return [pack(len(response) + extra, request.correlation_id) + response]
        if encoded is None:
            body: Parts = codec.encode(response)
            if self.count_error is not None and codec.find_errors is not None:
                codec.find_errors(response, self.count_error)
        else:
            body = encoded
        size = len(body[0]) if len(body) == 1 else total_length(body)
        if codec.tagged_response:
            head = _pack_tagged_response_head(size + 5, request.correlation_id)
        else:
            head = _pack_response_head(size + 4, request.correlation_id)
        if body and isinstance(first := body[0], bytes) and len(first) <= _SMALL:
            body[0] = head + first
        else:
            body.insert(0, head)
        return body

    def respond_in_steps(self, request: Request, response: Any) -> Steps[Parts]:
        """Encode the response as :meth:`respond` does, some elements at a time."""
        if isinstance(response, bytes):
            return self.respond(request, response)
        yield from self.count_errors_in_steps(request, response)
        encoded = yield from request._codec.encode_steps(response)
        return self.respond(request, response, encoded)

    def count_errors_in_steps(self, request: Request, response: Any) -> Steps[None]:
        """Count the errors in the response to ``request``, some elements at a time; it is not encoded here."""
        find = incremental_error_finder(request.api_key, request.api_version)
        if self.count_error is not None and find is not None:
            yield from find(response, self.count_error)

    def _codec(self, key: int, version: int, client_id: _Frame) -> _Codec | None:
        """
        The codec of an API's version; None for ApiVersions in an unsupported version.

        :param client_id: of the request, for the error.
        """
        served = self.served.get(key)
        if served is None:
            raise ProtocolError(f"a request of the API {api_name(key)}, which is not served here{_by(client_id)}")
        lowest, highest = served
        if not lowest <= version <= highest:
            if key == API_VERSIONS:
                return None
            if self.count_error is not None:
                self.count_error(key, ErrorCode.UNSUPPORTED_VERSION)
            raise ProtocolError(
                f"a {api_name(key)} request of version {version}; served are versions {lowest} to {highest}"
                f"{_by(client_id)}"
            )
        codec = self._codecs[key << 16 | version] = _Codec(key, version)
        return codec

    def _unsupported(self, correlation_id: int, size: int) -> Request:
        codec = self._codecs.get(API_VERSIONS << 16)
        if codec is None:
            codec = _Codec(API_VERSIONS, 0)
        return Request(codec, correlation_id, None, api(API_VERSIONS).request(), size, True)


def _by(client_id: _Frame) -> str:
    """Which client that is, as the end of a message; the id may be any bytes."""
    text = bytes(client_id[:_SHOWN]).decode("utf-8", "replace")
    return f"; its client id is {text!r}" if text else ""


@define
class _Sent:
    """A request that was sent, and has no response yet."""

    name: str
    tagged: bool
    decode: Callable[..., tuple[Any, int]]


@define
class ClientConnection:
    """
    Encodes requests and decodes their responses, which come in the order of the requests.

    :ivar client_id: sent with each request.
    """

    client_id: str | None = None
    _next_id: int = field(default=0, init=False)
    _sent: dict[int, _Sent] = field(factory=dict, init=False)

    @property
    def outstanding(self) -> int:
        """Number of requests without a response."""
        return len(self._sent)

    def request(self, message: Any, version: int, *, expects_response: bool = True) -> tuple[int, Parts]:
        """
        Encode a request.

        :param message: a request message; its declaration names the API.
        :param expects_response: False for a Produce with acks=0.
        :returns: its correlation id, and the frame with its length prefix.
        :raises EncodeError: the message has values that ``version`` cannot express.
        """
        key = api_key_of(message)
        known = api(key)
        flexible = known.flexible.includes(version)
        body = encoder(known.request, version)(message)
        correlation_id = self._next_id
        head = encode_request_header(RequestHeader(key, version, correlation_id, self.client_id), flexible)
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        if expects_response:
            tagged = response_is_tagged(key, flexible)
            self._sent[correlation_id] = _Sent(known.name, tagged, decoder(known.response, version))
        return correlation_id, [_pack_length(len(head) + total_length(body)) + head, *body]

    def receive(self, frame: _Frame) -> tuple[int, Any]:
        """
        Decode one frame (without its length prefix).

        :returns: the correlation id and the decoded response. Records in it are views of ``frame``.
        :raises ProtocolError: it is not the response to the oldest request, or cannot be decoded.
        """
        size = len(frame)
        if size < 4:
            raise DecodeError(f"a response of {size} bytes is shorter than its header")
        correlation_id: int = _read_correlation(frame, 0)[0]
        expected = next(iter(self._sent), None)
        if correlation_id != expected:
            wanted = "none is outstanding" if expected is None else f"the next is to {expected}"
            raise ProtocolError(f"a response to the request {correlation_id}, but {wanted}")
        sent = self._sent.pop(correlation_id)
        if sent.name == "ApiVersions" and size >= 6 and frame[4:6] == _UNSUPPORTED_VERSION:
            # The response to an unknown version is encoded in version 0 (KIP-511).
            sent.decode = decoder(api(API_VERSIONS).response, 0)
        _, pos = decode_response_header(frame, 0, sent.tagged)
        response, pos = sent.decode(frame, pos, element_budget(size, RESPONSE_ELEMENTS))
        if pos != size:
            raise DecodeError(f"{size - pos} bytes are left over after the {sent.name} response")
        return correlation_id, response


def api_key_of(message: Any) -> int:
    """
    The API key of a message.

    :raises TypeError: it is neither a request nor a response.
    """
    key = message_spec(type(message)).api_key
    if key is None:
        raise TypeError(f"{type(message).__name__} is neither a request nor a response")
    return key
