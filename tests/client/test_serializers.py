"""Serializers and deserializers."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.serializers import (
    BytesDeserializer,
    BytesSerializer,
    JsonDeserializer,
    JsonSerializer,
    SerializationError,
    StringDeserializer,
    StringSerializer,
)
from logbus.errors import ConfigError

_NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | _NUMBERS | st.text(max_size=9),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=20,
)
PAIRS: list[tuple[Any, Any]] = [
    (BytesSerializer(), BytesDeserializer()),
    (StringSerializer(), StringDeserializer()),
    (JsonSerializer(), JsonDeserializer()),
]


class SerializerTests(SynchronousTestCase):
    def refused(self, function: Any, value: Any) -> str:
        return str(self.assertRaises(SerializationError, function, "orders", value))

    @given(st.binary())
    def test_bytes_are_bytes(self, value: bytes) -> None:
        """
        They stay as they are, whatever kind of buffer they come in.
        """
        for each in (value, bytearray(value), memoryview(value)):
            found = BytesSerializer()("t", each)
            self.assertEqual((type(found), found), (bytes, value))
        self.assertEqual(BytesDeserializer()("t", value), value)

    @given(st.text(st.characters(codec="utf-8")))
    def test_text_round_trip(self, value: str) -> None:
        """Serialized text can be deserialized."""
        self.assertEqual(StringDeserializer()("t", StringSerializer()("t", value)), value)
        self.assertEqual(StringDeserializer("utf-16")("t", StringSerializer("utf-16")("t", value)), value)

    @given(JSON)
    def test_json_round_trip(self, value: Any) -> None:
        """Serialized JSON can be deserialized."""
        try:
            data = JsonSerializer()("t", value)
        except SerializationError as e:
            self.assertIn("surrogates", str(e))
            return
        self.assertEqual(JsonDeserializer()("t", data), value)

    @given(st.binary(max_size=40))
    def test_no_bytes_do_harm(self, data: bytes) -> None:
        """
        Bytes are read or refused; nothing else comes out.
        """
        for _, read in PAIRS:
            try:
                read("t", data)
            except SerializationError as e:
                self.assertIn("'t'", str(e))

    def test_none_is_none(self) -> None:
        """
        A delete marker is one, and no word "null".
        """
        for write, read in PAIRS:
            self.assertIsNone(write("t", None))
            self.assertIsNone(read("t", None))

    def test_error_messages(self) -> None:
        """Errors name the topic of the record, and the reason."""
        self.assertIn("topic 'orders': a value of type str is not bytes", self.refused(BytesSerializer(), "x"))
        self.assertEqual("topic 'orders': a value of type int is not text", self.refused(StringSerializer(), 3))
        self.assertIn("cannot be written as ascii", self.refused(StringSerializer("ascii"), "ü"))
        self.assertIn(
            "b'\\xff' is not utf-8: invalid start byte at byte 0", self.refused(StringDeserializer(), b"\xff")
        )
        self.assertIn("a value of type set cannot be written as JSON", self.refused(JsonSerializer(), {1}))
        self.assertIn("b'{' is not JSON", self.refused(JsonDeserializer(), b"{"))
        self.assertIn("(100 bytes)", self.refused(JsonDeserializer(), b"x" * 100))

    def test_json_has_no_nan(self) -> None:
        """
        Neither written nor read: others could not read it.
        """
        self.assertIn("JSON", self.refused(JsonSerializer(), float("nan")))
        self.assertIn("JSON has no NaN", self.refused(JsonDeserializer(), b"[NaN]"))

    def test_nesting_is_no_crash(self) -> None:
        """
        A million brackets are bad input, and no more.
        """
        self.assertIn("nested too deeply", self.refused(JsonDeserializer(), b"[" * 1_000_000))

    def test_json_default(self) -> None:
        """
        ``default`` is asked; sorted keys make equal values equal bytes.
        """
        serializer = JsonSerializer(default=sorted, sort_keys=True)
        self.assertEqual(serializer("t", {"b": {2, 1}, "a": "ü"}), '{"a":"ü","b":[1,2]}'.encode())

    def test_unknown_encoding(self) -> None:
        """It is refused when the serializer is created, not with the first record."""
        for each in (StringSerializer, StringDeserializer):
            self.assertEqual("'utf-9' is not an encoding; utf-8 is", str(self.assertRaises(ConfigError, each, "utf-9")))
