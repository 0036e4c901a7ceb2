"""Protobuf values as people read them, and hostile ones."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass
from hypothesis import example, given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.schema.message_place import read_place
from logbus.registry.protobuf_compiler import compiled
from logbus.registry.protobuf_schema import pool_of
from logbus.registry.protobuf_values import (
    MOST_BYTES,
    MOST_VALUES,
    known_files,
    message_name,
    message_reader,
    message_writer,
)

TEXT = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/any.proto";
import "google/protobuf/wrappers.proto";
message Order {
  int64 id = 1; string what_it_is = 2; bytes data = 3; double weight = 4; State state = 5; repeated int32 sizes = 6;
  map<string, Order> parts = 7; google.protobuf.Timestamp at = 8; repeated google.protobuf.Any more = 9;
  google.protobuf.BoolValue paid = 10; Order parent = 11; oneof to { string shop = 12; uint64 house = 13; }
  message Line { string text = 1; message Deep { bool yes = 1; } }
  enum State { NEW = 0; SENT = 1; }
}
message Other { sint32 number = 1; }
"""
FILES = compiled(TEXT, {})
POOL = pool_of(FILES, "test.proto")
ORDER = GetMessageClass(POOL.FindMessageTypeByName("shop.Order"))
ANY = GetMessageClass(POOL.FindMessageTypeByName("google.protobuf.Any"))
read = message_reader(FILES)
write = message_writer(FILES)

ORDERS: Any = st.deferred(
    lambda: st.fixed_dictionaries(
        {},
        optional={
            "id": st.integers(-(1 << 63), (1 << 63) - 1).filter(bool).map(str),
            "whatItIs": st.text(min_size=1),
            "data": st.sampled_from(["AA==", "/v8="]),
            "weight": st.sampled_from([1.5, -2e300, "NaN", "-Infinity"]),
            "state": st.just("SENT"),
            "sizes": st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=1, max_size=5),
            "parts": st.dictionaries(st.text(max_size=3), ORDERS, min_size=1, max_size=2),
            "at": st.datetimes().map(lambda at: f"{at.isoformat(timespec='seconds')}Z"),
            "paid": st.booleans(),
            "parent": ORDERS,
            "house": st.integers(0, (1 << 64) - 1).map(str),
        },
    )
)


def any_of(message: Any) -> Any:
    found = ANY()
    found.Pack(message)
    return found


class ReadTests(SynchronousTestCase):
    """Values, and what is none."""

    def refused(self, data: bytes, reader: Any = read) -> str:
        return str(self.assertRaises(ValueError, reader, data))

    @given(ORDERS)
    def test_round_trip(self, value: Any) -> None:
        """JSON that was written as a message is shown as it was."""
        data = ParseDict(value, ORDER(), descriptor_pool=POOL).SerializeToString()
        found = json.loads(json.dumps(read(b"\0" + data)))
        self.assertEqual(
            ParseDict(found, ORDER()).SerializeToString(deterministic=True),
            ORDER.FromString(data).SerializeToString(deterministic=True),
        )
        self.assertEqual(set(found), set(value))

    @given(ORDERS)
    def test_written(self, value: Any) -> None:
        """What is written of JSON is read as it was."""
        self.assertEqual(json.loads(json.dumps(read(write(value)))), read(write(read(write(value)))))
        self.assertEqual(set(read(write(value))), set(value))

    def test_no_message(self) -> None:
        """The error names the message."""
        wrong: Any
        for wrong in ({"idd": 7}, {"id": "many"}, [], None, {"more": [{"@type": "type.googleapis.com/No"}]}):
            self.assertIn("it is no message shop.Order: ", str(self.assertRaises(ValueError, write, wrong)))

    def test_shown(self) -> None:
        """Names, numbers, bytes and times are those of canonical JSON."""
        message = ORDER(id=7, what_it_is="tea", data=b"\xff", state=1)
        message.at.seconds = 0
        message.parts["a"].sizes.append(3)
        message.more.append(any_of(ORDER(id=8)))
        self.assertEqual(
            read(b"\0" + message.SerializeToString()),
            {
                "id": "7",
                "whatItIs": "tea",
                "data": "/w==",
                "state": "SENT",
                "at": "1970-01-01T00:00:00Z",
                "parts": {"a": {"sizes": [3]}},
                "more": [{"@type": "type.googleapis.com/shop.Order", "id": "8"}],
            },
        )

    def test_message_indexes(self) -> None:
        """The place of a message: the first one has a short form."""
        self.assertEqual(read(b"\x02\x02\x08\x05"), {"number": -3})
        self.assertEqual(read(b"\x02\x00\x08\x05"), {"id": "5"})
        self.assertEqual(read_place(b"\x04\x02\x80\x02rest"), ([1, 128], 4))
        order = FILES[-1].message_type[0]
        line = [each.name for each in order.nested_type].index("Line")
        self.assertEqual(message_name(FILES[-1], [0, line, 0]), "shop.Order.Line.Deep")
        self.assertEqual(read(bytes([6, 0, 2 * line, 0]) + b"\x08\x01"), {"yes": True})
        for data, words in (
            (b"", "ends at byte 0"),
            (b"\x04\x02", "ends at byte 2"),
            (b"\x02\x04", "no message at 2"),
            (b"\x02\x01", "no message at -1"),
            (b"\x01", "nested -1 deep"),
            (b"\xff\xff\xff\xff\x0f", "nested -2147483648 deep"),
            (b"\xff\xff\xff\xff\xff\x0f", "more than five bytes"),
        ):
            self.assertIn(words, self.refused(data))

    def test_hostile(self) -> None:
        """What is cut, large, deep or odd is refused within some milliseconds."""
        deep = ORDER()
        for _ in range(60):
            deep = ORDER(parent=deep)
        packed = ORDER()
        for _ in range(60):
            packed = ORDER(more=[any_of(packed)])
        unknown = ORDER(more=[ANY(type_url="x/y.Z")])
        broken = ORDER(more=[ANY(type_url="x/shop.Order", value=b"\x0a")])
        late = ORDER()
        late.at.seconds = 1 << 50
        for message, words in (
            (ORDER(sizes=[0] * MOST_VALUES), f"more than {MOST_VALUES} values"),
            (ORDER(more=[any_of(ORDER(sizes=[1] * 2000))] * 3), f"more than {MOST_VALUES} values"),
            (ORDER(parts={str(number): ORDER() for number in range(1300)}), f"more than {MOST_VALUES} values"),
            (ORDER(data=bytes(MOST_BYTES)), f"more than {MOST_BYTES} bytes"),
            (deep, "nested more than 40 deep"),
            (packed, "nested more than 40 deep"),
            (unknown, "a message 'y.Z' in it, which its schema does not know"),
            (broken, "it is no message shop.Order"),
            (late, "it has no JSON"),
        ):
            self.assertIn(words, self.refused(b"\0" + message.SerializeToString()))
        self.assertIn("it is no message shop.Order", self.refused(b"\0" + b"\x5a\x80\x01" * 2))
        self.assertIn("it is no message", self.refused(b"\0" + b"\x5b" * 5000))

    @given(st.binary(max_size=60))
    @example(b"\0\x5a\x00")
    def test_any_bytes(self, data: bytes) -> None:
        """Whatever comes, it is JSON or a refusal."""
        try:
            json.dumps(read(data))
        except ValueError:
            pass

    def test_known_files(self) -> None:
        """Files that everybody has come with those they import; no other module is one."""
        self.assertEqual(
            [each.name for each in known_files("google/protobuf/type.proto")],
            [f"google/protobuf/{name}.proto" for name in ("any", "source_context", "type")],
        )
        for name in ("google/protobuf/nothing.proto", "google/protobuf/../os.proto", "os.proto"):
            self.assertRaises(ValueError, known_files, name)
        self.assertRaises(ValueError, message_reader, FILES[1:])

    def test_proto2(self) -> None:
        """A required field may be missing, and extensions are named."""
        files = compiled(
            'syntax = "proto2"; message M { required int32 a = 1; extensions 5; } extend M { optional int32 b = 5; }',
            {},
        )
        self.assertEqual(message_reader(files)(b"\0\x28\x07"), {"[b]": 7})
        self.assertEqual(MessageToDict(ORDER()), {})
