"""The compiled kernel equals its Python source for all inputs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logbus.errors import DecodeError
from logbus.records import implementations, kernel

INT64 = st.integers(-(2**63), 2**63 - 1)
MAYBE_BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=10), MAYBE_BYTES), max_size=3).map(tuple)
RECORDS = st.lists(st.tuples(INT64, st.integers(0, 3), MAYBE_BYTES, MAYBE_BYTES, HEADERS), max_size=5)


def outcome(fn: Callable[..., Any], *args: Any) -> Any:
    """What a call gives, or how it fails."""
    try:
        return fn(*args)
    except (DecodeError, ValueError) as e:
        return type(e), str(e)


class CompiledKernelTests(SynchronousTestCase):
    """Both, side by side."""

    def setUp(self) -> None:
        if not implementations.IS_COMPILED:
            why = "LOGBUS_PURE is set" if os.environ.get("LOGBUS_PURE") else "the installation found no C compiler"
            raise SkipTest(why)

    @given(INT64 | st.integers(), st.integers(0, 2**31 - 1), MAYBE_BYTES, MAYBE_BYTES, HEADERS)
    def test_encode(self, timestamp_delta: int, offset_delta: int, key: Any, value: Any, headers: Any) -> None:
        """The same bytes, or the same error."""
        args = timestamp_delta, offset_delta, key, value, headers
        self.assertEqual(outcome(implementations.encode_record, *args), outcome(kernel.encode_record, *args))

    @given(RECORDS, INT64, INT64, st.none() | INT64, st.data())
    def test_decode(self, records: Any, base_offset: int, base_timestamp: int, append_time: Any, data: Any) -> None:
        """The same records; of damaged bytes, or wrong counts, the same error."""
        delta = 0
        encoded = bytearray()
        for timestamp_delta, step, *rest in records:
            encoded += kernel.encode_record(timestamp_delta, delta, *rest)
            delta += step
        for _ in range(data.draw(st.integers(0, 2))):
            if encoded:
                encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
        del encoded[len(encoded) - data.draw(st.integers(0, min(3, len(encoded)))) :]
        count = len(records) + data.draw(st.integers(-1, 1))
        args = bytes(encoded), count, base_offset, delta + 1, base_timestamp, append_time
        self.assertEqual(outcome(implementations.decode_records, *args), outcome(kernel.decode_records, *args))

    @given(st.binary(max_size=60), st.integers(0, 8))
    def test_noise(self, noise: bytes, count: int) -> None:
        """Of bytes that are no records, the same error."""
        args = noise, count, 0, 100, 0, None
        self.assertEqual(outcome(implementations.decode_records, *args), outcome(kernel.decode_records, *args))
