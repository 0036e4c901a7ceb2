"""Tests of forms."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.problem_details import HttpProblem
from logbus.console.form_body import read_form


class FormTests(SynchronousTestCase):
    """Forms as browsers send them, and others."""

    def test_fields(self) -> None:
        """Fields are decoded; empty ones are there; lines end as they were typed."""
        self.assertEqual(read_form("a=1&b=&c=x%0D%0Ay+z"), {"a": "1", "b": "", "c": "x\ny z"})
        self.assertEqual(read_form(""), {})

    def test_refused(self) -> None:
        """A field that is there twice, bytes that are not UTF-8 and many fields are refused by name."""
        for text, told in (
            ("a=1&a=2", "'a' twice"),
            ("b=1&a=%FF", "UTF-8: see the field 'a'"),
            ("a=%ED%A0%80", "UTF-8: see the field 'a'"),
            ("&".join(["a=1"] * 300), "200 fields"),
        ):
            self.assertIn(told, str(self.assertRaises(HttpProblem, read_form, text)))
