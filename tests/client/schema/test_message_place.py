"""Tests the places of Protobuf messages: they are read as written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logbus.client.schema.message_place import read_place, written_place


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=40), st.binary())
def test_places(indexes: list[int], following: bytes) -> None:
    """A place that was written is read again, and the message behind it begins where it should."""
    written = written_place(indexes)
    assert read_place(b"12345" + written + following, 5) == (indexes, 5 + len(written))
