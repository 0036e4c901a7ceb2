"""
Reads and writes the headers of requests and responses, by hand-written code, since each message has one.

Request header: version 2 (client id, then tagged fields) where the API's body is flexible, else version 1; the client
id is never a compact string. Response header: version 1 (tagged fields) where the body is flexible, else 0; for
ApiVersions always 0, because the client does not know yet which versions the server supports (KIP-511).
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from logbus.errors import DecodeError
from logbus.wire.decoder_runtime import Buffer, skip_tags
from logbus.wire.encoder_runtime import EncodeError

API_VERSIONS = 18

_REQUEST = Struct(">hhih")
_RESPONSE = Struct(">i")
_HEADER_TAGS = 100


class RequestHeader(NamedTuple):
    """
    The header of a request.

    :ivar correlation_id: sent back with the response.
    :ivar client_id: of the client; may be None.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def response_is_tagged(api_key: int, flexible: bool) -> bool:
    """Whether the response header of an API, in a version that is flexible or not, has tagged fields."""
    return flexible and api_key != API_VERSIONS


def decode_request_header(buf: Buffer, pos: int, flexible: bool) -> tuple[RequestHeader, int]:
    """
    Decode a request header.

    :param flexible: whether the body is flexible in this version of this API.
    :returns: the header, and the position of the body.
    :raises DecodeError: the bytes are not a header.
    """
    size = len(buf)
    if size - pos < _REQUEST.size:
        raise DecodeError(f"a request of {size - pos} bytes is shorter than its header")
    api_key, api_version, correlation_id, length = _REQUEST.unpack_from(buf, pos)
    pos += _REQUEST.size
    client_id: str | None = None
    if length >= 0:
        end = pos + length
        if end > size:
            raise DecodeError(f"the client id has {length} bytes, but the request ends before")
        try:
            client_id = str(buf[pos:end], "utf-8")
        except UnicodeDecodeError:
            raise DecodeError("the client id is not UTF-8") from None
        pos = end
    elif length != -1:
        raise DecodeError(f"the client id has the length {length}")
    if flexible:
        pos = _skip_header_tags(buf, pos, "RequestHeader")
    return RequestHeader(api_key, api_version, correlation_id, client_id), pos


def encode_request_header(header: RequestHeader, flexible: bool) -> bytes:
    """
    Encode a request header.

    :raises EncodeError: the client id is too long.
    """
    key, version, correlation_id, client_id = header
    name = b"" if client_id is None else client_id.encode()
    if len(name) > 32767:
        raise EncodeError(f"the client id has {len(name)} bytes; a string has at most 32767")
    length = -1 if client_id is None else len(name)
    return _REQUEST.pack(key, version, correlation_id, length) + name + (b"\0" if flexible else b"")


def decode_response_header(buf: Buffer, pos: int, is_tagged: bool) -> tuple[int, int]:
    """
    Decode a response header.

    :param is_tagged: see :func:`response_is_tagged`.
    :returns: the correlation id, and the position of the body.
    :raises DecodeError: the bytes are not a header.
    """
    if len(buf) - pos < _RESPONSE.size:
        raise DecodeError(f"a response of {len(buf) - pos} bytes is shorter than its header")
    (correlation_id,) = _RESPONSE.unpack_from(buf, pos)
    pos += _RESPONSE.size
    if is_tagged:
        pos = _skip_header_tags(buf, pos, "ResponseHeader")
    return correlation_id, pos


def _skip_header_tags(buf: Buffer, pos: int, header: str) -> int:
    try:
        count = buf[pos]
        pos += 1
        if count:
            pos, _ = skip_tags(buf, pos, count, _HEADER_TAGS, header)
    except IndexError:
        pos = len(buf) + 1
    if pos > len(buf):
        raise DecodeError(f"the bytes end within the tagged fields of the {header}")
    return pos
