"""Frames between a server of the metadata store and its clients."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logbus.metastore.operations import (
    BadVersion,
    Check,
    Create,
    DatabaseFull,
    Delete,
    EventKind,
    MultiFailed,
    NodeExists,
    NoNode,
    SessionLost,
    Set,
    StoreUnusable,
    WatchedEvent,
)
from logbus.metastore.store_codec import (
    LENGTH,
    BadFrame,
    decode_error,
    decode_event,
    decode_op,
    encode_error,
    encode_event,
    encode_op,
    frame,
    message_of,
)

PATHS, VERSIONS = st.text(), st.integers(-1, 2**31)
OPS = st.one_of(
    st.builds(Create, PATHS, st.binary(), st.booleans(), st.booleans()),
    st.builds(Set, PATHS, st.binary(), VERSIONS),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def over_the_wire(message: Any) -> Any:
    """What the other end gets."""
    data = frame(*message)
    assert LENGTH.unpack(data[: LENGTH.size]) == (len(data) - LENGTH.size,)
    return message_of(data[LENGTH.size :])


@given(OPS)
def test_operations(op: Any) -> None:
    """They come back as they were."""
    assert decode_op(over_the_wire(encode_op(op))) == op


@given(st.sampled_from(EventKind), PATHS)
def test_events(kind: EventKind, path: str) -> None:
    """So do events."""
    assert decode_event(over_the_wire(encode_event(WatchedEvent(kind, path)))) == WatchedEvent(kind, path)


@pytest.mark.parametrize(
    "error",
    [
        NoNode("/a"),
        NodeExists("/a: b"),
        BadVersion("/a", "the version is 3, not 2"),
        SessionLost("it is closed"),
        StoreUnusable("the disk is broken"),
        DatabaseFull("there is no room"),
        MultiFailed(1, Delete("/b"), NoNode("/b")),
    ],
)
def test_errors(error: Any) -> None:
    """Errors keep their class, text and operation."""
    found = decode_error(over_the_wire(encode_error(error)), [Delete("/a"), Delete("/b")])
    assert (type(found), str(found)) == (type(error), str(error))
    if isinstance(found, MultiFailed):
        assert (found.index, found.op, str(found.error)) == (error.index, error.op, str(error.error))


@given(JSON)
def test_anything(message: Any) -> None:
    """What is no message is refused with BadFrame, and nothing else is raised."""
    data = json.dumps(message).encode()
    with contextlib.suppress(BadFrame):
        message_of(data)
    for decode in (decode_op, decode_event, decode_error):
        with contextlib.suppress(BadFrame):
            decode(message)


@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    """Nor are other bytes."""
    with contextlib.suppress(BadFrame):
        message_of(data)


def test_too_deep() -> None:
    """A message nested too deeply is a bad frame."""
    with pytest.raises(BadFrame):
        message_of(b"[" * 100_000)
