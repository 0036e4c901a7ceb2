"""Tests of Protobuf schemas in the registry."""

from __future__ import annotations

import sys
from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP

from logbus.registry import protobuf_compiler
from logbus.registry.protobuf_compiler import compiled
from logbus.registry.protobuf_schema import read_protobuf
from logbus.registry.protobuf_text import proto_text
from tests.registry.kit import RegistryCase

ORDER = """
syntax = "proto3";
package shop;
// What somebody wants.
message Order { string what = 1; int32 count = 2; }
"""
PRICE = 'syntax = "proto3"; package money; message Price { int64 cents = 1; string currency = 2; }'
BASKET = """
syntax = "proto3";
import "money/price.proto";
import "google/protobuf/timestamp.proto";
message Basket {
  message Line { string what = 1; money.Price price = 2; }
  repeated Line lines = 1;
  google.protobuf.Timestamp at = 2;
}
"""
RICH_3 = r"""
syntax = "proto3";
package rich.three;
import "google/protobuf/descriptor.proto";
import public "google/protobuf/any.proto";
option java_package = "org.\"rich\"";
extend google.protobuf.FieldOptions { Rule rule = 50001; repeated string note = 50002; }
extend google.protobuf.MessageOptions { bytes mark = 50003; double weight = 50004; Kinds.Kind of = 50005; }
message Rule { int32 least = 1; map<string, Kind> kinds = 2; Kind kind = 3; enum Kind { NONE = 0; SOME = 1; } }
message Kinds { enum Kind { UNKNOWN = 0; FINE = 7; } }
message All {
  option (mark) = "\001\xff\"a";
  option (weight) = -1.5e300;
  option (of) = FINE;
  reserved 5, 7 to 9, 1000 to max;
  reserved "old", "older";
  double a = 10 [(rule) = { least: 3 kinds: { key: "é" value: SOME } kind: SOME }, (note) = "x", (note) = "y\n"];
  optional int32 maybe = 11 [deprecated = true];
  repeated sint64 packed_not = 12 [packed = false];
  oneof which { string one = 13; All other = 14 [json_name = "@other"]; }
  map<int32, All> by_number = 15;
  map<string, bytes> by_name = 16;
  Nested nested = 17;
  google.protobuf.Any any = 18;
  message Nested {
    fixed64 f = 1;
    enum Deep { option allow_alias = true; X = 0; Y = 0 [deprecated = true]; reserved -5 to -1; }
  }
  oneof another { uint32 u = 19; }
}
service Search { option deprecated = true; rpc Find(All) returns (stream All) { option deadline = 3; }
  rpc Put(stream .rich.three.All.Nested) returns (All); }
""".replace("{ option deadline = 3; }", "{ option idempotency_level = IDEMPOTENT; }")
RICH_2 = r"""
syntax = "proto2";
message Two {
  required string name = 1 [default = "a\"b\\é\t"];
  optional bytes data = 2 [default = "\000\xfe"];
  optional float f = 3 [default = inf];
  optional Color color = 4 [default = RED];
  optional bool yes = 5 [default = true];
  repeated group Inner = 6 { optional int32 x = 1; }
  enum Color { BLUE = -1; RED = 1; reserved 10 to max; reserved "GREEN"; }
  extensions 100 to 199, 1000 to max;
  oneof o { group Choice = 7 { optional int32 y = 1; } int32 z = 8; }
  extend Two { optional string more = 101; }
}
extend Two { repeated int32 numbers = 102 [packed = true]; optional group Ext = 103 { optional bool b = 1; } }
"""
RICH_2023 = """
edition = "2023";
package ed;
option features.field_presence = IMPLICIT;
message M {
  reserved old;
  string s = 1 [features.field_presence = EXPLICIT];
  M m = 2 [features.message_encoding = DELIMITED];
}
"""


def descriptor(text: str, **imports: str) -> str:
    """A schema as Confluent's client for Python sends it."""
    return read_protobuf(text, {name.replace("__", "/") + ".proto": each for name, each in imports.items()}).serialized


class ProtobufCase(RegistryCase):
    """Registers texts."""

    def send(self, subject: str, text: str, **more: Any) -> tuple[int, Any]:
        body = {"schema": text, "schemaType": "PROTOBUF", **more}
        return self.registry.ask("POST", f"/subjects/{subject}/versions", body)

    def take(self, subject: str, text: str, **more: Any) -> int:
        status, found = self.send(subject, text, **more)
        self.assertEqual(status, 200, found)
        return int(found["id"])

    def refusal(self, subject: str, text: str, **more: Any) -> str:
        """The message of a refusal with the code 42201."""
        status, found = self.send(subject, text, **more)
        self.assertEqual((status, found.get("error_code")), (422, 42201), found)
        return str(found["message"])

    def basket(self) -> int:
        """Register one with a reference, and return its id."""
        self.take("price", PRICE)
        return self.take("basket", BASKET, references=[{"name": "money/price.proto", "subject": "price", "version": 1}])


class RegisterTests(ProtobufCase):
    """Schemas that are registered, and those that are not."""

    def test_text(self) -> None:
        """The text is kept; one that differs in form only is the same schema."""
        self.take("o", ORDER)
        found = self.ask("GET", "/subjects/o/versions/1")
        self.assertEqual((found["schema"], found["schemaType"]), (ORDER, "PROTOBUF"))
        other = ORDER.replace("// What somebody wants.", "").replace(" { string", "\n{\n  string")
        body = {"schema": other, "schemaType": "PROTOBUF"}
        self.assertEqual(self.ask("POST", "/subjects/o", body)["version"], 1)
        self.assertEqual(self.take("o", other), 1)
        self.assertEqual(self.registry.reread().ask("GET", "/schemas/ids/1")[1]["schema"], ORDER)

    def test_descriptor(self) -> None:
        """A descriptor is the same schema as its text; either is read back as either."""
        self.assertEqual(self.take("o", ORDER), self.take("p", descriptor(ORDER)))
        for path in ("/schemas/ids/1", "/subjects/o/versions/1", "/subjects/p/versions/latest"):
            self.assertEqual(self.ask("GET", path)["schema"], ORDER)
            self.assertEqual(self.ask("GET", path, format="serialized")["schema"], descriptor(ORDER))
        self.take("q", descriptor(PRICE))
        text = self.ask("GET", "/schemas/ids/2")["schema"]
        lines = ['syntax = "proto3";', "package money;", "message Price {", "  int64 cents = 1;"]
        self.assertEqual(text.splitlines(), [*lines, "  string currency = 2;", "}"])
        self.assertEqual(self.take("q", text), 2)

    def test_references(self) -> None:
        """Files of other subjects are imported, also indirectly; the well-known ones are there."""
        number = self.basket()
        found = self.ask("GET", f"/schemas/ids/{number}")
        self.assertEqual(found["references"], [{"name": "money/price.proto", "subject": "price", "version": 1}])
        given = descriptor(BASKET, money__price=PRICE)
        self.assertEqual(self.take("other", given, references=found["references"]), number)
        all_of = 'syntax = "proto3"; import "b.proto"; message All { repeated Basket baskets = 1; }'
        self.take("all", all_of, references=[{"name": "b.proto", "subject": "basket", "version": 1}])
        self.assertEqual(self.ask("GET", "/subjects/price/versions/1/referencedby"), [number])
        self.assertEqual(self.refused("DELETE", "/subjects/price")[1], 42206)

    def test_wrong(self) -> None:
        """What is wrong is told with its place."""
        for text, words in (
            ("", "no 'schema'"),
            ('syntax = "proto3";\nmessage A { int32 a = ; }', "line 2, column 23: Expected field number."),
            ('syntax = "proto3"; message A { B b = 1; }', 'line 1, column 32: "B" is not defined.'),
            ('syntax = "proto3"; message A { int32 a = 1; int32 b = 1; }', "has already been used"),
            ('syntax = "proto3"; import "shop/x.proto";', "shop/x.proto: File not found"),
            ('syntax = "proto3"; import "../main.proto";', "main.proto"),
            ('syntax = "proto3";' + "message A {" * 4000, "recursion limit"),
            ('{"type": "string"}', "line 1, column 1"),
            ("AAAA", "nor a FileDescriptorProto in base64"),
        ):
            self.assertIn(words, self.refusal("o", text), text[:80])
        many = self.refusal("o", 'syntax = "proto3"; message A {' + "X x = 1;" * 1000 + "}")
        self.assertTrue(many.endswith("; …"), many)
        self.assertNotIn("/tmp", many)
        self.assertEqual(self.ask("GET", "/subjects"), [])

    def test_wrong_references(self) -> None:
        """A reference is to a Protobuf schema, by the name of a file, which cannot lie anywhere else."""
        self.take("price", PRICE)
        self.take("order", ORDER)
        self.register("avro", "string")
        for name in ("../x.proto", "/x.proto", "a//x.proto", "x.py", "./x.proto", "a\\x.proto", "a\n.proto", "x" * 300):
            told = self.refusal("o", ORDER, references=[{"name": name, "subject": "price", "version": 1}])
            self.assertIn("no name of a file to import", told)
        told = self.refusal("o", ORDER, references=[{"name": "x.proto", "subject": "avro", "version": 1}])
        self.assertIn("'x.proto' is to a schema of type AVRO", told)
        self.take("b", ORDER.replace("shop", "b"), references=[{"name": "x.proto", "subject": "price", "version": 1}])
        two = [{"name": "b.proto", "subject": "b", "version": 1}, {"name": "x.proto", "subject": "order", "version": 1}]
        self.assertIn("two different schemas are imported as 'x.proto'", self.refusal("o", ORDER, references=two))
        inside = [
            {"name": "y.proto", "subject": "order", "version": 1},
            {"name": "y.proto/z.proto", "subject": "order", "version": 1},
        ]
        self.assertEqual(self.send("o", ORDER, references=inside)[1]["error_code"], 50001)

    def test_compatibility(self) -> None:
        """A level is kept to, with what is imported."""
        self.basket()
        self.assertEqual(self.send("o", ORDER)[0], 200)
        wrong = ORDER.replace("int32 count", "string count")
        status, found = self.send("o", wrong)
        self.assertEqual((status, found["error_code"]), (409, 409))
        self.assertIn("Order.count: field 2 is written as int32, and read as string", found["message"])
        self.assertIn("PROTOBUF", self.registry.register("o", "string")[1]["message"])
        self.take("price", PRICE.replace("string currency", "bytes currency"))
        self.ask("PUT", "/config/price", {"compatibility": "NONE"})
        self.take("price", PRICE.replace("int64 cents", "string cents"))
        body: dict[str, Any] = {"schema": BASKET, "schemaType": "PROTOBUF"}
        for version, problems in ((2, 0), (3, 1)):
            body["references"] = [{"name": "money/price.proto", "subject": "price", "version": version}]
            told = self.ask("POST", "/compatibility/subjects/basket/versions/latest", body, verbose=True)
            self.assertEqual(len(told["messages"]), problems, told)
        self.assertIn("Price.cents", told["messages"][0])

    def test_not_installed(self) -> None:
        """Without the package the error names it; what is stored can be read as it is."""
        self.take("o", ORDER)
        with mock.patch.dict(sys.modules, {"grpc_tools": None}):
            status, found = self.send("o", PRICE)
            self.assertEqual((status, found["error_code"]), (501, 501))
            self.assertIn(".[protobuf]", found["message"])
            self.assertEqual(self.ask("GET", "/schemas/ids/1")["schema"], ORDER)

    def test_compiler_fails(self) -> None:
        """A compiler that does not end, or cannot be run, is not the client's fault, or is said to be."""
        with mock.patch.object(protobuf_compiler, "LONGEST_WAIT", 0.0001):
            self.assertIn("did not come to an end", self.refusal("o", ORDER.replace("shop", "slow")))
        directory = TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        endless = Path(directory.name) / "python"
        endless.write_text("#!/bin/sh\nwhile :; do :; done\n")
        endless.chmod(0o755)
        with mock.patch.object(protobuf_compiler, "SECONDS", 1), mock.patch.object(sys, "executable", str(endless)):
            self.assertIn("1 seconds of processor time", self.refusal("o", ORDER.replace("shop", "endless")))
        with mock.patch.object(sys, "executable", "/nowhere/python"):
            status, found = self.send("o", ORDER.replace("shop", "nowhere"))
        self.assertEqual((status, found["error_code"]), (500, 50001))

    def test_kept(self) -> None:
        """What was compiled is kept, up to a number of bytes."""
        kept = protobuf_compiler._Kept()
        half = bytes(protobuf_compiler.KEPT_BYTES // 2)
        for key in (b"a", b"b", b"a", b"b"):
            kept.put(key, half)
        self.assertIsNotNone(kept.get(b"a"))
        kept.put(b"c", b"1")
        self.assertEqual([kept.get(key) is None for key in (b"a", b"b", b"c")], [False, True, False])
        with mock.patch.object(protobuf_compiler, "_KEPT", kept), mock.patch("subprocess.run", side_effect=OSError):
            kept.put(protobuf_compiler._key("x", {}), b"\x0a\x03\x0a\x01a")
            self.assertEqual([each.name for each in compiled("x", {})], [""])


class TextTests(ProtobufCase):
    """Descriptors as text."""

    def same_again(self, text: str) -> None:
        """A schema is the same after it was a descriptor, and its text is stable."""
        first = read_protobuf(text, {})
        again = read_protobuf(first.serialized, {})
        self.assertEqual(again.serialized, first.serialized, again.text)
        self.assertEqual(read_protobuf(again.serialized, {}).text, again.text)

    def test_all_there_is(self) -> None:
        """Everything that a file may have."""
        for text in (RICH_3, RICH_2, RICH_2023, ORDER):
            self.same_again(text)

    def test_well_known(self) -> None:
        """A file that somebody registers although everybody has it."""
        file = FileDescriptorProto()
        TIMESTAMP.CopyToProto(file)
        self.take("timestamp", b64encode(file.SerializeToString()).decode())
        self.assertIn("message Timestamp {", self.ask("GET", "/schemas/ids/1")["schema"])

    def test_what_no_text_has(self) -> None:
        """Descriptors that no file has are refused."""
        file = compiled(RICH_2, {})[-1]
        del file.message_type[0].nested_type[:]
        self.assertIn("group 'Inner' has no type", self.refusal("o", b64encode(file.SerializeToString()).decode()))
        file = FileDescriptorProto(syntax="proto3")
        file.options.uninterpreted_option.add().name.add(name_part="x", is_extension=False)
        self.assertIn("not interpreted", self.refusal("o", b64encode(file.SerializeToString()).decode()))
        file = FileDescriptorProto(syntax="proto3", package='a; import "/etc/passwd"')
        self.assertIn("line 2", self.refusal("o", b64encode(file.SerializeToString()).decode()))
        self.assertIn('package a; import "/etc/passwd";', proto_text(file))
        message = FileDescriptorProto(syntax="proto3").message_type.add(name="A")
        message.field.add(name="x", number=1, oneof_index=3)
        file = FileDescriptorProto(syntax="proto3", message_type=[message])
        self.assertIn("oneof that is missing", self.refusal("o", b64encode(file.SerializeToString()).decode()))
