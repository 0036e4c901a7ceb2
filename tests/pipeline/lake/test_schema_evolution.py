"""Tests which schemas a table accepts."""

from __future__ import annotations

from unittest import TestCase

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.schema_evolution import merged_schema


def _struct(nullable: bool = True, **fields: object) -> dict[str, object]:
    return {
        "type": "struct",
        "fields": [{"name": name, "type": kind, "nullable": nullable, "metadata": {}} for name, kind in fields.items()],
    }


def _array(kind: str) -> dict[str, object]:
    return {"type": "array", "elementType": kind, "containsNull": True}


class SchemaTests(TestCase):
    """A table's schema grows, and keeps the types it has."""

    def test_grows(self) -> None:
        """Columns come, within others too; none goes."""
        first = _struct(a="integer", s=_struct(x="string"))
        self.assertEqual(merged_schema("t", None, first), first)
        both = merged_schema("t", first, _struct(s=_struct(y="long"), b="string"))
        self.assertEqual(both, _struct(a="integer", s=_struct(x="string", y="long"), b="string"))
        self.assertEqual(merged_schema("t", both, first), both)

    def test_types_stay(self) -> None:
        """A change is refused, with the column and both types; whether nulls may be in it does not matter."""
        old = _struct(a="integer", s=_struct(x="string"), l=_array("integer"))
        for new, words in (
            (_struct(a="string"), "t: column 'a' is integer in the table and string in the new rows"),
            (_struct(s=_struct(x="integer")), "column 's.x' is string in the table and integer"),
            (_struct(s="integer"), "column 's' is .*struct.* in the table and integer"),
            (_struct(l=_array("long")), 'column \'l\' is .*"integer".* in the table and .*"long"'),
        ):
            with self.subTest(words), self.assertRaisesRegex(LakeError, words):
                merged_schema("t", old, new)
        self.assertEqual(merged_schema("t", old, _struct(False, a="integer")), old)

    def test_spellings(self) -> None:
        """Spark takes names that differ in case only for one."""
        with self.assertRaisesRegex(LakeError, "t: column 's.X' of the new rows and 's.x' differ in case only"):
            merged_schema("t", _struct(s=_struct(x="string")), _struct(s=_struct(X="string")))
