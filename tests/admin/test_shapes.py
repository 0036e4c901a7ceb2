"""Shapes of JSON bodies."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.shapes import Shape, faults, flag, mapping, nullable, record, rows, text, whole


class ShapeTests(SynchronousTestCase):
    """What is a fault, and how it is told."""

    def assert_faults(self, shape: Shape, value: Any, *words: str) -> None:
        """There are exactly as many faults as ``words``, each with its word in it."""
        found = list(faults(shape, value))
        self.assertEqual(len(found), len(words), found)
        for sentence, word in zip(found, words, strict=True):
            self.assertIn(word, sentence)

    def test_types(self) -> None:
        """A value is of the type asked for; true is no number, and a whole number is a number."""
        for shape, good, bad in (
            (whole(""), 1, True),
            (whole(""), 1, 1.0),
            ({"type": "number"}, 1, "1"),
            (flag(""), False, 0),
            (text(""), "", None),
            (nullable(text("")), None, 1),
            (rows("", whole("")), [1], {}),
            (mapping("", whole("")), {"a": 1}, []),
        ):
            self.assert_faults(shape, good)
            self.assert_faults(shape, bad, "the body is")

    def test_bounds(self) -> None:
        """What is out of bounds is told with the bounds."""
        self.assert_faults(whole("", minimum=1, maximum=5), 6, "1 to 5")
        self.assert_faults(whole("", minimum=1), 0, "at least 1")
        self.assert_faults(text("", maxLength=2), "abc", "at most 2")
        self.assert_faults(text("", enum=["a", "b"]), "c", "a, b")
        self.assert_faults(text("", pattern="^a"), "b", "^a")
        self.assert_faults(rows("", whole(""), maxItems=1), [1, 2], "at most 1")
        self.assert_faults(mapping("", whole(""), maxProperties=1), {"a": 1, "b": 2}, "at most 1")

    def test_members(self) -> None:
        """Missing and unknown members are named, and faults deep inside say where they are."""
        shape = record("", a=whole(""), b=rows("", record("", c=text(""))), d=flag(""), optional=("d",))
        self.assert_faults(shape, {"a": 1, "b": [{"c": "x"}]})
        self.assert_faults(
            shape, {"b": [{"c": 1}], "e": 1}, "no member 'a'", "body.b[0].c is integer", "'e'; accepted: a"
        )
