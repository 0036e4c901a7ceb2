"""
The frames between a :mod:`~logbus.metastore.store_server` and its clients. Pure.

A frame is four bytes of length and a JSON array. A client begins with ``hello``, and is told its session. From then on
it sends requests, which are answered in order; watched events come between the answers, each before the answer to any
later request that shows the change, and pings at any time. The last request may be ``close``, which is answered when
the session's ephemerals are deleted. Bytes are texts of the characters 0 to 255.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

from logbus.metastore import operations
from logbus.metastore.operations import (
    Check,
    Create,
    Delete,
    EventKind,
    MetastoreError,
    MultiFailed,
    NodeError,
    Op,
    OpResult,
    Set,
    Stat,
    WatchedEvent,
)

VERSION = 1
LENGTH = struct.Struct(">I")
MOST_BYTES = 64 << 20
"""Bytes of a frame: much more than any transaction of a broker."""
PINGS = 3
"""In the time for which an end may be silent."""

HELLO, PING, ANSWER, ERROR, EVENT = "hello", "ping", "answer", "error", "event"
GET, EXISTS, CHILDREN, MULTI, SYNC, CLOSE = "get", "exists", "children", "multi", "sync", "close"

_OPS: dict[str, type[Op]] = {"create": Create, "set": Set, "delete": Delete, "check": Check}
_EVENTS = frozenset(kind.value for kind in EventKind)
_NAMES: dict[type[Any], str] = {kind: name for name, kind in _OPS.items()}


class BadFrame(MetastoreError):
    """The other end does not speak this protocol, or another version of it."""


def frame(*message: Any) -> bytes:
    """
    A message with its length.

    :raise MetastoreError: it is too long.
    """
    data = json.dumps(message).encode()
    if len(data) > MOST_BYTES:
        raise MetastoreError(f"a message of {len(data)} bytes is too long for the metadata store: {MOST_BYTES} at most")
    return LENGTH.pack(len(data)) + data


def message_of(data: bytes) -> list[Any]:
    """
    The message in a frame, its kind first.

    :raise BadFrame:
    """
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise BadFrame(f"it is not JSON: {e}") from None
    if not isinstance(message, list) or not message or not isinstance(message[0], str):
        raise BadFrame(f"it is no message: {data[:40]!r}")
    return message


def encode_op(op: Op) -> list[Any]:
    """An operation as JSON."""
    match op:
        case Create(path, data, ephemeral, sequence):
            return [_NAMES[Create], path, text_of(data), ephemeral, sequence]
        case Set(path, data, version):
            return [_NAMES[Set], path, text_of(data), version]
        case Delete(path, version) | Check(path, version):
            return [_NAMES[type(op)], path, version]


def decode_op(found: Any) -> Op:
    """
    The reverse of :func:`encode_op`.

    :raise BadFrame:
    """
    match found:
        case ["create", str(path), str(data), bool(ephemeral), bool(sequence)]:
            return Create(path, bytes_of(data), ephemeral, sequence)
        case ["set", str(path), str(data), int(version)]:
            return Set(path, bytes_of(data), version)
        case ["delete", str(path), int(version)]:
            return Delete(path, version)
        case ["check", str(path), int(version)]:
            return Check(path, version)
    raise BadFrame(f"it is no operation: {found!r:.80}")


def decode_result(found: Any) -> OpResult:
    """The result of an operation: a path, a stat or None."""
    return Stat(*found) if isinstance(found, list) else found


def text_of(data: bytes) -> str:
    """Bytes as a text."""
    return data.decode("latin-1")


def bytes_of(text: str) -> bytes:
    """
    The reverse of :func:`text_of`.

    :raise BadFrame: other characters.
    """
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise BadFrame("bytes are characters up to 255") from None


def encode_error(error: MetastoreError) -> list[Any]:
    """An error as JSON: its class, its particulars, and the node or the operation."""
    if isinstance(error, MultiFailed):
        return [MultiFailed.__name__, error.index, encode_error(error.error)]
    if isinstance(error, NodeError):
        return [type(error).__name__, error.path, str(error).removeprefix(f"{error.path}: ")]
    return [type(error).__name__, str(error)]


def decode_error(found: Sequence[Any], ops: Sequence[Op] = ()) -> MetastoreError:
    """
    The reverse of :func:`encode_error`.

    :param ops: of the transaction that failed.
    :raise BadFrame:
    """
    match found:
        case ["MultiFailed", int(index), list(inner)] if 0 <= index < len(ops):
            error = decode_error(inner)
            if isinstance(error, NodeError):
                return MultiFailed(index, ops[index], error)
        case [str(name), *arguments] if arguments and all(isinstance(each, str) for each in arguments):
            kind: Callable[..., Any] | None = getattr(operations, name, None)
            if isinstance(kind, type) and issubclass(kind, MetastoreError) and kind is not MultiFailed:
                return kind(*arguments[: 2 if issubclass(kind, NodeError) else 1])
    raise BadFrame(f"it is no error: {found!r:.80}")


def encode_event(event: WatchedEvent) -> list[str]:
    """A watched event as JSON."""
    return [event.kind.value, event.path]


def decode_event(found: Sequence[str]) -> WatchedEvent:
    """
    The reverse of :func:`encode_event`.

    :raise BadFrame:
    """
    match found:
        case [str(kind), str(path)] if kind in _EVENTS:
            return WatchedEvent(EventKind(kind), path)
    raise BadFrame(f"it is no event: {found!r:.80}")
