"""The frame with the schema id."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.schema.schema_registry import (
    frame,
    unframe,
)
from logbus.client.serializers import SerializationError


class SchemaFrameTests(SynchronousTestCase):
    @given(st.integers(0, 2**32 - 1), st.binary())
    def test_round_trip(self, schema_id: int, payload: bytes) -> None:
        """
        A byte 0, four bytes of id, the rest.
        """
        self.assertEqual(unframe("t", frame(schema_id, payload)), (schema_id, payload))

    def test_bytes(self) -> None:
        """
        As others write them; what is written otherwise is refused by topic.
        """
        self.assertEqual(frame(258, b"x"), b"\0\0\0\1\2x")
        for wrong in (b"", b"\0\0\0\1", b"\1\0\0\0\1x", b"{}"):
            self.assertIn("topic 'orders'", str(self.assertRaises(SerializationError, unframe, "orders", wrong)))
