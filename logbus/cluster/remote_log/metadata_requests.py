"""Requests between brokers about ``__remote_log_metadata``, as bytes. Pure."""

from __future__ import annotations

from struct import Struct

from attrs import frozen

from logbus.errors import ApiError, ErrorCode

_APPEND, _READ, _END = b"A", b"R", b"E"

_HEAD = Struct(">ci")
_OFFSET = Struct(">q")
_APPENDED = Struct(">bi")
_READ_ANSWER = Struct(">qq")

ANY_STATE = -1
"""Stands for any present state of a segment."""


@frozen
class AppendState:
    """
    Append a segment's state to a partition of the topic; answered by the offset behind it.

    :ivar expected: the segment's present state, or :data:`ANY_STATE`.
    :ivar value: None: a deletion is complete.
    """

    number: int
    expected: int
    key: bytes
    value: bytes | None

    def encode(self) -> bytes:
        """The request."""
        return (
            _HEAD.pack(_APPEND, self.number)
            + _APPENDED.pack(self.expected, len(self.key))
            + self.key
            + (self.value or b"")
        )


@frozen
class ReadStates:
    """Read batches of a partition from an offset on, up to its high watermark."""

    number: int
    offset: int

    def encode(self) -> bytes:
        """The request."""
        return _HEAD.pack(_READ, self.number) + _OFFSET.pack(self.offset)


@frozen
class StatesEnd:
    """The end of a partition: a state that was acknowledged is before it."""

    number: int

    def encode(self) -> bytes:
        """The request."""
        return _HEAD.pack(_END, self.number)


def decode_request(body: bytes) -> AppendState | ReadStates | StatesEnd:
    """
    Read a request.

    :raise ApiError: INVALID_REQUEST.
    """
    try:
        kind, number = _HEAD.unpack_from(body)
        at = _HEAD.size
        if kind == _APPEND:
            expected, length = _APPENDED.unpack_from(body, at)
            at += _APPENDED.size
            return AppendState(number, expected, body[at : at + length], body[at + length :] or None)
        if kind == _READ:
            return ReadStates(number, _OFFSET.unpack_from(body, at)[0])
        if kind == _END:
            return StatesEnd(number)
    except Exception as problem:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"a request about remote log metadata: {problem}") from None
    raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no request {kind!r} about remote log metadata")


@frozen
class States:
    """
    Batches of a partition.

    :ivar offset: where they begin; ``end_offset``: the end of what can be read now.
    """

    offset: int
    end_offset: int
    data: bytes

    def encode(self) -> bytes:
        """The answer."""
        return _READ_ANSWER.pack(self.offset, self.end_offset) + self.data

    @classmethod
    def decode(cls, body: bytes) -> States:
        """Read the answer."""
        offset, end_offset = _READ_ANSWER.unpack_from(body)
        return cls(offset, end_offset, body[_READ_ANSWER.size :])


def encode_offset(offset: int) -> bytes:
    """The answer that is an offset."""
    return _OFFSET.pack(offset)


def decode_offset(body: bytes) -> int:
    """Read the answer that is an offset."""
    found: int = _OFFSET.unpack(body)[0]
    return found
