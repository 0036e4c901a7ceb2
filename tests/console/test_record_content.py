"""Tests of records as people read them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.record_json import shown_bytes
from logbus.console.record_content import FORMS, content_of


class ContentTests(SynchronousTestCase):
    """Bytes as text."""

    def test_forms(self) -> None:
        """JSON is indented, text is as it is, other bytes are hexadecimal, and what is not there is null."""
        self.assertEqual(content_of(None).form, "null")
        found = content_of(shown_bytes(b'{"b":[1,"\xc3\xbc"]}', 100))
        self.assertEqual((found.form, found.text), ("JSON", '{\n  "b": [\n    1,\n    "ü"\n  ]\n}'))
        self.assertEqual(content_of(shown_bytes(b"a\nb", 100)).text, "a\nb")
        found = content_of(shown_bytes(b"\xff\x00Az", 100))
        self.assertEqual((found.form, found.text.split()), ("hex", ["0000", "ff", "00", "41", "7a", "..Az"]))

    def test_choice(self) -> None:
        """A form may be chosen."""
        self.assertEqual(content_of(shown_bytes(b'{"a":1}', 100), "text").text, '{"a":1}')
        self.assertEqual(content_of(shown_bytes(b"A", 100), "hex").text.split(), ["0000", "41", "A"])

    def test_not_json(self) -> None:
        """What only begins like JSON, is cut, or is nested deeply, is text."""
        for data, most in ((b"{x", 100), (b'{"a": 1}', 4), (b"[" * 5000 + b"]" * 5000, 20_000)):
            self.assertEqual(content_of(shown_bytes(data, most)).form.removeprefix("cut "), "text")

    def test_schema_ids(self) -> None:
        """The id of a registry's schema before a value is told."""
        self.assertIn("schema id 7", content_of(shown_bytes(b"\0\0\0\0\7\xff\xfe", 100)).note)

    @given(st.binary(max_size=100), st.sampled_from([*FORMS, "other"]), st.integers(0, 120))
    def test_any_bytes(self, data: bytes, form: str, most: int) -> None:
        """Any bytes can be shown."""
        content_of(shown_bytes(data, most), form).text.encode("utf-8")
