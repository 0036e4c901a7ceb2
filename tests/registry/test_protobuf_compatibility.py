"""Tests of the compatibility of Protobuf schemas."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.registry.protobuf_compatibility import incompatibilities
from logbus.registry.protobuf_compiler import compiled
from logbus.registry.protobuf_schema import pool_of
from logbus.registry.protobuf_text import TYPES

NUMBERS = {name: number for number, name in TYPES.items()}
ALL = """
message M { int32 i = 1; string s = 2; repeated int32 many = 3; map<string, int32> by_name = 4; N n = 5;
  oneof o { int32 a = 6; string b = 7; } E e = 8; optional bool maybe = 9; }
message N { int32 x = 1; M m = 2; message Inner { int32 y = 1; } Inner inner = 3; }
enum E { ZERO = 0; ONE = 1; }
"""


def proto3(text: str) -> list[Any]:
    return compiled(f'syntax = "proto3";\n{text}', {})


class RuleTests(SynchronousTestCase):
    """Changes, and whether the new schema reads what the old one wrote."""

    def changed(self, old: str, new: str) -> list[str]:
        """What is wrong if a part of the schema is another."""
        self.assertIn(old, ALL)
        return incompatibilities(proto3(ALL.replace(old, new)), proto3(ALL))

    def test_compatible(self) -> None:
        """Changes that lose nothing."""
        for old, new in (
            ("int32 i = 1;", "int32 renamed = 1;"),
            ("int32 i = 1;", "uint64 i = 1;"),
            ("int32 i = 1;", "bool i = 1;"),
            ("int32 i = 1;", "E i = 1;"),
            ("int32 i = 1;", "repeated int32 i = 1;"),
            ("int32 i = 1;", ""),
            ("int32 i = 1;", "int32 i = 1; string added = 20;"),
            ("int32 i = 1;", "oneof own { int32 i = 1; string other = 20; }"),
            ("string s = 2;", "bytes s = 2;"),
            ("string s = 2;", "repeated string s = 2;"),
            ("map<string, int32>", "map<string, int64>"),
            ("int32 a = 6;", "int32 a = 6; int32 c = 20;"),
            ("oneof o { int32 a = 6; string b = 7; }", ""),
            ("oneof o { int32 a = 6; string b = 7; }", "oneof p { int32 a = 6; string b = 7; }"),
            ("oneof o { int32 a = 6; string b = 7; }", "int32 a = 6; oneof o { string b = 7; }"),
            ("ONE = 1;", "TWO = 2;"),
            ("E e = 8;", "int32 e = 8;"),
            ("optional bool maybe", "bool maybe"),
            ("enum E", "message Added {} enum E"),
            ("message M", "message First {} message M"),
        ):
            self.assertEqual(self.changed(old, new), [], (old, new))

    def test_incompatible(self) -> None:
        """Changes that do, with the place."""
        for old, new, words in (
            ("int32 i = 1;", "string i = 1;", "M.i: field 1 is written as int32, and read as string"),
            ("int32 i = 1;", "sint32 i = 1;", "M.i: field 1 is written as int32, and read as sint32"),
            ("int32 i = 1;", "fixed32 i = 1;", "M.i: field 1 is written as int32, and read as fixed32"),
            ("int32 i = 1;", "N i = 1;", "M.i: field 1 is written as int32, and read as message"),
            ("N n = 5;", "N.Inner n = 5;", "M.n: field 5 is written as the message N, and read as N.Inner"),
            ("repeated int32 many", "int32 many", "M.many: field 3 is written as packed numbers"),
            ("map<string, int32>", "map<int32, int32>", "field 4: its key is written as string, and read as int32"),
            ("map<string, int32>", "map<string, N>", "field 4: its value is written as int32, and read as message"),
            ("map<string, int32>", "repeated N", "M.by_name: field 4 is written as map, and read as message"),
            ("string b = 7;", "", "M.o: field 7 of the oneof is written, and the reader does not have it"),
            ("string b = 7; }", "string b = 7; int32 i = 1; }", "field 1 may be written beside others"),
            ("string b = 7;", "int32 b = 7;", "M.b: field 7 is written as string, and read as int32"),
            ("int32 y = 1;", "string y = 1;", "N.Inner.y: field 1"),
            ("message Inner { int32 y = 1; } Inner inner = 3;", "", "N.Inner: the message is written"),
            ("message M", "package p; message M", "the package written is '', and the package read is 'p'"),
        ):
            text = ALL.replace("int32 i = 1;", "", 1) if "i = 1; }" in new else ALL
            found = incompatibilities(proto3(text.replace(old, new)), proto3(ALL))
            self.assertEqual(len(found), 1, (old, new, found))
            self.assertIn(words, found[0])
        both = "int32 i = 1; string s = 2;"
        self.assertIn("the fields 1, 2 may be written at once", self.changed(both, f"oneof own {{ {both} }}")[0])

    def test_required(self) -> None:
        """A field that proto2 requires is there in both, or in none."""
        before = compiled('syntax = "proto2"; message M { required int32 a = 1; optional int32 b = 2; }', {})
        after = compiled('syntax = "proto2"; message M { optional int32 b = 2; repeated int32 c = 3; }', {})
        self.assertEqual(
            incompatibilities(before, after), ["M.a: field 1 is required by the reader, and is not written"]
        )
        self.assertEqual(
            incompatibilities(after, before), ["M.a: field 1 is required where written, and the reader lacks it"]
        )
        single = compiled('syntax = "proto2"; message M { optional int32 b = 2; optional int32 c = 3; }', {})
        self.assertEqual(incompatibilities(single, after), [], "proto2 does not pack numbers")

    def test_groups_and_editions(self) -> None:
        """A group is no message; an edition says how a field is encoded."""
        group = compiled('syntax = "proto2"; message M { optional group G = 1 { optional int32 x = 1; } }', {})
        nested = compiled('syntax = "proto2"; message M { optional G g = 1; message G { optional int32 x = 1; } }', {})
        self.assertIn("written as group, and read as message", incompatibilities(nested, group)[0])
        self.assertEqual(incompatibilities(group, group), [])
        head = 'edition = "2023"; message M { '
        many = compiled(head + "repeated int32 a = 1; }", {})
        one = compiled(head + "int32 a = 1; }", {})
        loose = compiled(head + "repeated int32 a = 1 [features.repeated_field_encoding = EXPANDED]; }", {})
        must = compiled(head + "int32 a = 1; int32 b = 2 [features.field_presence = LEGACY_REQUIRED]; }", {})
        self.assertEqual(len(incompatibilities(one, many)), 1)
        self.assertEqual(incompatibilities(one, loose), [])
        self.assertEqual(len(incompatibilities(must, one)), 1)
        apart = (
            compiled(head + "M m = 1; }", {}),
            compiled(head + "M m = 1 [features.message_encoding = DELIMITED]; }", {}),
        )
        self.assertEqual(len(incompatibilities(*apart)), 1)

    def test_long_chains(self) -> None:
        """Messages within messages are compared without end, and once."""
        text = "".join(f"message M{i} {{ M{(i + 1) % 3000} next = 1; }}\n" for i in range(3000))
        files = proto3(text)
        self.assertEqual(incompatibilities(files, files), [])


def a_file(kinds: dict[int, tuple[str, bool]]) -> FileDescriptorProto:
    """A message whose fields are of these types, single or repeated."""
    file = FileDescriptorProto(syntax="proto3")
    message = file.message_type.add(name="M")
    for number, (kind, many) in kinds.items():
        message.field.add(name=f"f{number}", number=number, type=NUMBERS[kind], label=3 if many else 1)
    return file


def as_read(file: FileDescriptorProto, data: bytes) -> Any:
    made = GetMessageClass(pool_of([file], "m.proto").FindMessageTypeByName("M"))()
    made.MergeFromString(data)
    return made


KINDS = st.tuples(st.sampled_from(sorted(set(NUMBERS) - {"float", "double"})), st.booleans())


class ReadingTests(SynchronousTestCase):
    """The rules beside what Protobuf itself reads."""

    @given(st.data(), KINDS, KINDS)
    def test_nothing_is_lost(self, data: st.DataObject, old: tuple[str, bool], new: tuple[str, bool]) -> None:
        """What a compatible schema reads of a small number or a short text is not what it does not know."""
        writer, reader = a_file({1: old}), a_file({1: new})
        if incompatibilities([reader], [writer]):
            return
        value: Any = data.draw(st.integers(1, 100)) if old[0] not in ("string", "bytes", "bool") else True
        if old[0] in ("string", "bytes"):
            value = data.draw(st.text("abc", min_size=1))
            value = value.encode() if old[0] == "bytes" else value
        written = as_read(writer, b"")
        if old[1]:
            written.f1.append(value)
        else:
            written.f1 = value
        found = as_read(reader, written.SerializeToString())
        self.assertTrue(found.f1, (old, new))
