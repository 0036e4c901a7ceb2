"""Tests of :mod:`logbus.admin.record_json`."""

from __future__ import annotations

from base64 import b64decode

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.record_json import given_bytes, given_record, record_json, shown_bytes
from logbus.records.record import Record


class ShownBytesTests(SynchronousTestCase):
    """Bytes as JSON."""

    @given(st.one_of(st.binary(), st.text().map(str.encode)), st.integers(0, 40))
    def test_is_the_beginning(self, data: bytes, most: int) -> None:
        """What is shown is how the bytes begin, and it says whether that is all."""
        shown = shown_bytes(data, most)
        assert shown is not None
        part = shown["text"].encode() if "text" in shown else b64decode(shown["base64"])
        self.assertTrue(data.startswith(part))
        self.assertEqual(shown["size"], len(data))
        self.assertEqual(shown["cut"], len(data) > most)
        self.assertLessEqual(len(part), most)
        self.assertGreater(len(part) + 4, min(most, len(data)))

    @given(st.text(), st.integers(0, 40))
    def test_text_stays_text(self, text: str, most: int) -> None:
        """Text is shown as text wherever it is cut."""
        shown = shown_bytes(text.encode(), most)
        assert shown is not None
        self.assertTrue(text.startswith(shown["text"]))

    def test_names_that_are_no_text(self) -> None:
        """A header's name that is not UTF-8 is shown with replacement characters; too many headers are counted."""
        record = Record(1, 2, None, None, (("a\udcff", None),) * 103)
        told, _ = record_json(0, record, 10)
        self.assertEqual(told["headers"][0], {"name": "a\ufffd", "value": None})
        self.assertEqual((len(told["headers"]), told["headers_left_out"]), (100, 3))


class GivenBytesTests(SynchronousTestCase):
    """JSON as bytes."""

    @given(st.binary())
    def test_comes_back(self, data: bytes) -> None:
        """What is shown can be given."""
        shown = shown_bytes(data, 1000)
        assert shown is not None
        form = {name: shown[name] for name in ("text", "base64") if name in shown}
        self.assertEqual(given_bytes(form, "here"), data)

    def test_json(self) -> None:
        """A JSON value is written without spaces."""
        self.assertEqual(given_bytes({"json": {"a": [1, None, "ü"]}}, "here"), '{"a":[1,null,"ü"]}'.encode())

    def test_wrong(self) -> None:
        """Errors name the member."""
        for wrong, told in [
            ({}, "records[2].key has 0 members; it must have one of text, json and base64"),
            ({"text": "a", "json": 1}, "records[2].key has 2 members"),
            ({"base64": "*"}, "records[2].key.base64 is not base64"),
        ]:
            with self.assertRaises(ValueError) as caught:
                given_record({"key": wrong, "value": None}, "records[2]", 5)
            self.assertIn(told, str(caught.exception))
