"""Tests of :mod:`logbus.admin.strict_json`."""

from __future__ import annotations

import json
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.strict_json import MAX_DEPTH, dumps, loads

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


class StrictJsonTests(SynchronousTestCase):
    """Accepted and refused documents."""

    @given(VALUES)
    def test_round_trip(self, value: Any) -> None:
        """An encoded value is parsed as the same value."""
        self.assertEqual(loads(dumps(value)), value)

    @given(st.binary(max_size=200) | st.text(alphabet='[]{}":,\\e0 1.-nul', max_size=60).map(str.encode))
    def test_nonsense(self, text: bytes) -> None:
        """Whatever comes is read as the standard library reads it, or refused in words."""
        try:
            value = loads(text)
        except ValueError as e:
            self.assertNotIn("Traceback", str(e))
            self.assertTrue(str(e))
        else:
            self.assertEqual(value, json.loads(text))

    def assert_refused(self, text: bytes, word: str) -> None:
        """The text is refused with words that say why."""
        self.assertIn(word, str(self.assertRaises(ValueError, loads, text)))

    def test_depth(self) -> None:
        """Nesting has a limit, however much there is of it; brackets within strings do not count."""
        loads(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
        self.assert_refused(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "32 levels")
        self.assert_refused(b'{"a":' * 100_000, "32 levels")
        self.assertEqual(loads(b'"' + b"[" * 100 + b'\\"["'), "[" * 100 + '"[')

    def test_twice(self) -> None:
        """A member that is there twice would be read differently by different readers."""
        self.assert_refused(b'{"a":1,"b":{"c":1,"c":2}}', '"c" is there twice')

    def test_numbers(self) -> None:
        """Numbers are as long as 64-bit integers are, and finite."""
        self.assertEqual(loads(b"-9223372036854775808"), -(2**63))
        for text in (b"1" * 20, b"1" * 10_000, b"0." + b"1" * 10_000):
            self.assert_refused(text, "characters")
        self.assert_refused(b"1e999", "too large")
        self.assert_refused(b"NaN", "not a JSON value")
        self.assert_refused(b"-Infinity", "not a JSON value")

    def test_not_utf8(self) -> None:
        """Other encodings are not guessed."""
        self.assert_refused(b'"\xff"', "byte 1")
        self.assert_refused('{"a":1}'.encode("utf-16"), "not UTF-8")
        self.assert_refused(b"\xef\xbb\xbf{}", "not JSON")

    def test_half_a_character(self) -> None:
        """Half of a surrogate pair can be escaped, but never be written as UTF-8."""
        self.assert_refused(rb'{"a":["\ud800"]}', "surrogate")
        self.assert_refused(rb'{"\udc00":1}', "surrogate")
        self.assertEqual(loads(rb'"\ud83d\ude00"'), "\U0001f600")

    def test_empty(self) -> None:
        """Nothing is not JSON."""
        self.assert_refused(b"", "not JSON")

    def test_cost(self) -> None:
        """The worst 64 KiB cost no more than a few milliseconds."""
        for text in (b'"' + b'\\"' * 32_000, b'"' * 65_000, b"\\" * 65_000, b"[]," * 21_000, b'{"":' * 16_000):
            started = time.process_time()
            self.assertRaises(ValueError, loads, text)
            self.assertLess(time.process_time() - started, 0.25)
