"""The rules of the schema, each with bytes written by hand."""

from __future__ import annotations

import linecache
import traceback
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import BudgetExceeded, DecodeError
from logbus.wire.declaration import SchemaError
from logbus.wire.schema import (
    ZERO_UUID,
    Bool,
    Bytes,
    EncodeError,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uint16,
    Uint32,
    Uuid,
    decode,
    decode_versioned,
    decoder,
    encode,
    encode_versioned,
    encoder,
    field,
    message,
    message_spec,
    struct,
)
from tests.wire.golden import octets


@struct
class Leaf:
    """A struct that may be tagged: every field has a default."""

    number: Int16 = 0
    word: String | None = None


@struct
class Twig:
    """A struct with tags of its own."""

    name: String
    age: Int32 = field("2+", default=-1, tag=0)
    leaf: Leaf | None = field("2+", default=None, tag=1)


@message(999, versions="0-3", flexible="2+")
class TreeRequest:
    """Versions 0 and 1 plain, 2 and 3 flexible."""

    label: String | None = field("2+", default=None, tag=1)
    count: Int32
    old: Int16 = field("0-1", default=7)
    forgotten: Int16 = field("0", default=0, ignorable=True)
    twigs: list[Twig]
    numbers: list[Int32] | None = field("1+", default=None)
    root: Leaf | None = field("3+", default=None)
    note: String | None = field(nullable="1-2")
    best: Leaf | None = field("3+", default=None, tag=3, nullable="3+")
    sizes: list[Int16] = field("2+", factory=list, tag=2)


@message(None, versions="0", flexible="none")
class Everything:
    """Each primitive once."""

    a: Int8
    b: Int16
    c: Int32
    d: Int64
    e: Uint16
    f: Uint32
    g: Float64
    h: Bool
    i: Uuid
    j: Bytes
    k: Records | None
    m: list[Uuid]
    n: list[String]


@message(None, versions="0-3", flexible="2+")
class Note:
    """Data with its own version in front."""

    text: String
    more: Int32 = field("3+", default=-1)


def tree(**given: Any) -> TreeRequest:
    """A request with every field defaulted."""
    return TreeRequest(**{"count": 1, "twigs": [], "note": "", **given})


class EncodingTests(SynchronousTestCase):
    """Encoders and decoders beside bytes written by hand."""

    def check(self, message: Any, version: int, text: str) -> None:
        """``message`` is encoded as ``text``, and decoded from it."""
        data = octets(text)
        self.assertEqual(encode(message, version), [data])
        self.assertEqual(decode(type(message), version, data), (message, len(data)))

    def test_plain(self) -> None:
        """Lengths of plain versions have two bytes for strings and four for arrays; there are no tags."""
        self.check(
            tree(twigs=[Twig(name="oak")], numbers=[1, -1], note=None),
            1,
            """
            00 00 00 01                # count
            00 07                      # old
            00 00 00 01                # one twig
            00 03 6f 61 6b             #   "oak"
            00 00 00 02                # two numbers
            00 00 00 01 ff ff ff ff
            ff ff                      # note: null
            """,
        )

    def test_flexible(self) -> None:
        """Compact lengths are one more than the length, 0 is null, and each struct ends in its tags."""
        self.check(
            tree(old=7, twigs=[Twig(name="oak", age=3, leaf=Leaf(number=5))], note=None, label="x", sizes=[9]),
            2,
            """
            00 00 00 01                # count
            02                         # one twig
            04 6f 61 6b                #   "oak"
            02                         #   two tags
            00 04 00 00 00 03          #     0, four bytes: age
            01 04 00 05 00 00          #     1, four bytes: leaf: number, null word, no tags
            00                         # numbers: null
            00                         # note: null
            02                         # two tags
            01 02 02 78                #   1: label "x"
            02 03 02 00 09             #   2: sizes, one of them
            """,
        )

    def test_nullable_structs(self) -> None:
        """One byte before a nullable struct says whether it is there (KIP-893), also inside a tag."""
        self.check(
            tree(root=Leaf(number=2, word=""), note="n", best=Leaf(number=1), sizes=[9]),
            3,
            """
            00 00 00 01                # count
            01                         # no twigs
            00                         # numbers: null
            01 00 02 01 00             # root: there; number, empty word, no tags
            02 6e                      # note
            02                         # two tags, by number, not as declared
            02 03 02 00 09             #   2: sizes, one of them
            03 05 01 00 01 00 00       #   3, five bytes: best: there; number, null word, no tags
            """,
        )
        self.check(
            tree(note="n"),
            3,
            """
            00 00 00 01 01 00
            ff                         # root: null
            02 6e
            00
            """,
        )

    def test_null_inside_a_tag(self) -> None:
        """A null written into a tag is read as null, although we would leave the tag out."""
        data = octets("00 00 00 01  01  00  ff  02 6e  01  03 01 00")
        self.assertEqual(decode(TreeRequest, 3, data), (tree(note="n"), len(data)))

    def test_tagged_default(self) -> None:
        """A tagged struct equal to its default is left out, as if it were None."""
        self.assertEqual(encode(Twig_(leaf=Leaf()), 0), encode(Twig_(leaf=None), 0))
        self.assertEqual(encode(Twig_(leaf=Leaf()), 0), [b"\0"])

    def test_primitives(self) -> None:
        """Everything is big-endian; a UUID is its 16 bytes; records have a length of four bytes."""
        self.check(
            Everything(
                a=-1,
                b=-2,
                c=-3,
                d=-4,
                e=0xFFFE,
                f=0xFFFFFFFD,
                g=1.5,
                h=True,
                i=bytes(range(16)),
                j=b"jj",
                k=b"kkk",
                m=[ZERO_UUID],
                n=["", "é"],
            ),
            0,
            """
            ff  ff fe  ff ff ff fd  ff ff ff ff ff ff ff fc
            ff fe  ff ff ff fd
            3f f8 00 00 00 00 00 00
            01
            00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f
            00 00 00 02 6a 6a
            00 00 00 03 6b 6b 6b
            00 00 00 01  00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
            00 00 00 02  00 00  00 02 c3 a9
            """,
        )

    def test_long_lengths(self) -> None:
        """A compact length takes its second byte at 127 and its third at 16383."""
        for size, length in ((126, "7f"), (127, "80 01"), (128, "81 01"), (16382, "ff 7f"), (16383, "80 80 01")):
            name = "n" * size
            data = octets(f"00 00 00 01  02 {length}") + name.encode() + octets("00  00 01 00")
            self.assertEqual(encode(tree(twigs=[Twig(name=name)]), 2), [data])
            self.assertEqual(decode(TreeRequest, 2, data), (tree(twigs=[Twig(name=name)]), len(data)))

    def test_many_elements(self) -> None:
        """Lists of numbers of any length, and long arrays of structs."""
        message = tree(numbers=list(range(40)), twigs=[Twig(name=str(n)) for n in range(200)])
        for version in (1, 2):
            (data,) = encode(message, version)
            self.assertEqual(decode(TreeRequest, version, bytes(data))[0], message)  # type: ignore[arg-type]

    def test_records_are_views(self) -> None:
        """Decoded records are a view of the buffer that was given; other bytes are copies."""
        buffer = bytearray(b"".join(map(bytes, encode(everything(j=b"jj", k=b"kkk"), 0))))  # type: ignore[arg-type]
        decoded, _ = decode(Everything, 0, buffer)
        self.assertIsInstance(decoded.k, memoryview)
        self.assertIsInstance(decoded.j, bytes)
        at = buffer.index(b"kkk")
        buffer[at : at + 3] = b"new"
        self.assertEqual(decoded.k, b"new")

    def test_position(self) -> None:
        """A message may stand anywhere in a buffer, and what follows it is not looked at."""
        (data,) = encode(tree(), 2)
        decoded, end = decode(TreeRequest, 2, b"xxx" + bytes(data) + b"yy", 3)  # type: ignore[arg-type]
        self.assertEqual((decoded, end), (tree(), 3 + len(data)))

    def test_versioned(self) -> None:
        """Data of internal topics has its version in front; bytes after it are left alone."""
        data = encode_versioned(Note(text="a", more=5), 3)
        self.assertEqual(data, octets("00 03  02 61  00 00 00 05  00"))
        self.assertEqual(decode_versioned(Note, data + b"later"), (Note(text="a", more=5), 3))
        for wrong in (b"", b"\0", b"\0\4\2a\0", b"\xff\xff", b"\0\3\2a"):
            self.assertRaises(DecodeError, decode_versioned, Note, wrong)


@message(None, versions="0", flexible="0+")
class Twig_:
    """Only tags."""

    leaf: Leaf | None = field("0+", default=None, tag=0)


@message(None, versions="0", flexible="0+")
class Bush:
    """Structs without tags that we know."""

    leaves: list[Leaf]


def everything(**given: Any) -> Everything:
    """Each primitive, defaulted."""
    empty = {"a": 0, "b": 0, "c": 0, "d": 0, "e": 0, "f": 0, "g": 0.0, "h": False, "i": ZERO_UUID, "j": b"", "k": b""}
    return Everything(**{**empty, "m": [], "n": [], **given})


class AbsenceTests(SynchronousTestCase):
    """What happens to fields that a version lacks."""

    def test_decoders_fill_the_default(self) -> None:
        """Fields that were not sent have their defaults; lists are not shared."""
        data = octets("00 00 00 05  01  00 01  00")
        one, _ = decode(TreeRequest, 2, data)
        two, _ = decode(TreeRequest, 2, data)
        self.assertEqual((one.old, one.forgotten, one.sizes, one.label), (7, 0, [], None))
        self.assertIsNot(one.sizes, two.sizes)

    def test_encoders_refuse(self) -> None:
        """A value for a field that the version lacks is refused by name, unless it is the default."""
        encode(tree(old=7), 2)
        with self.assertRaisesRegex(EncodeError, r"TreeRequest v2: old is 8, but this version has no such field"):
            encode(tree(old=8), 2)
        with self.assertRaisesRegex(EncodeError, "label"):
            encode(tree(label="x"), 1)
        with self.assertRaisesRegex(EncodeError, "sizes"):
            encode(tree(sizes=[1]), 1)
        with self.assertRaisesRegex(EncodeError, r"twigs\[1\]\.age"):
            encode(tree(twigs=[Twig(name=""), Twig(name="", age=4)]), 1)

    def test_ignorable(self) -> None:
        """A value for an ignorable field is dropped where the version lacks it."""
        self.assertEqual(encode(tree(forgotten=3), 1), encode(tree(), 1))
        self.assertNotEqual(encode(tree(forgotten=3), 0), encode(tree(), 0))


class NullTests(SynchronousTestCase):
    """Null where it is not allowed."""

    def test_decoding(self) -> None:
        """Null is refused by name in plain and in compact versions."""
        for version, text, name in (
            (0, "00 00 00 01 00 07 00 00  ff ff ff ff", "TreeRequest.twigs is null"),
            (0, "00 00 00 01 00 07 00 00  00 00 00 00  ff ff", "TreeRequest.note is null"),
            (0, "00 00 00 01 00 07 00 00  ff ff ff fe", "twigs has the length -2"),
            (1, "00 00 00 01 00 07  00 00 00 01  ff ff", "Twig.name is null"),
            (1, "00 00 00 01 00 07  00 00 00 00  00 00 00 00  ff fe", "note has the length -2"),
            (2, "00 00 00 01  00", "twigs is null"),
            (2, "00 00 00 01  02 00", "Twig.name is null"),
            (3, "00 00 00 01  01  00  ff  00", "note is null"),
        ):
            with self.assertRaisesRegex(DecodeError, name):
                decode(TreeRequest, version, octets(text))

    def test_encoding(self) -> None:
        """Null is refused by name."""
        for version in (0, 3):
            with self.assertRaisesRegex(EncodeError, f"TreeRequest v{version}: note is null"):
                encode(tree(note=None), version)
        with self.assertRaisesRegex(EncodeError, "twigs is null"):
            encode(tree(twigs=None), 2)


class TagTests(SynchronousTestCase):
    """The tag sections of others."""

    HEAD = octets("00 00 00 01  01  00  01")

    def read(self, tags: str, budget: int = 100) -> TreeRequest:
        """Decode version 2 with this tag section."""
        data = self.HEAD + octets(tags)
        message, end = decode(TreeRequest, 2, data, 0, budget)
        self.assertEqual(end, len(data))
        return message

    def test_unknown(self) -> None:
        """Unknown tags are passed over, before, between and after known ones, also in nested structs."""
        self.assertEqual(self.read("03  00 02 aa bb  01 02 02 78  90 01 00"), tree(label="x"))
        data = octets("00 00 00 01  02  02 61  02  00 04 00 00 00 09  07 01 ff  00 01  00")
        self.assertEqual(decode(TreeRequest, 2, data)[0], tree(twigs=[Twig(name="a", age=9)]))

    def test_later_versions_tag(self) -> None:
        """A tag that only a later version knows is unknown."""
        self.assertEqual(self.read("01  03 05 01 00 01 00 00"), tree())

    def test_order(self) -> None:
        """Tags that descend or repeat are refused (KIP-482), known or not."""
        for tags in ("02  02 01 01  01 02 02 78", "02  01 02 02 78  01 02 02 78", "02  08 00  07 00", "02 08 00 08 00"):
            with self.assertRaisesRegex(DecodeError, "after tag"):
                self.read(tags)
        with self.assertRaisesRegex(DecodeError, "a Leaf has tag 4 after tag 4"):
            decode(Twig_, 0, octets("01  00 08  00 01 00  02 04 00 04 00"))

    def test_size(self) -> None:
        """A known tag must fill the size it announces, no less and no more."""
        for tags in ("01  01 03 02 78 00", "01  01 01 02 78", "01  02 05 02 00 09"):
            with self.assertRaisesRegex(DecodeError, "its size says"):
                self.read(tags)

    def test_beyond_the_end(self) -> None:
        """Tags, or the size of one, beyond the end of the buffer are refused."""
        for tags in ("01", "02 01 02 02 78", "01  09 05 00", "01 ff", "01 09 ff ff ff ff 0f", "01  01 09 09 78"):
            with self.assertRaises(DecodeError):
                self.read(tags)

    def test_counted(self) -> None:
        """Tags count against the budget, so that a section of a million is not walked."""
        self.read("03  07 00 08 00 09 00", budget=3)
        for tags in ("03  07 00 08 00 09 00", "ff ff ff ff 0f"):
            with self.assertRaises(BudgetExceeded):
                self.read(tags, budget=2)
        # One for each of two leaves, and one for each of their three tags.
        leaves = octets("03  00 00 00  02 04 00 05 00  00 00 00  01 04 00  00")
        self.assertEqual(len(decode(Bush, 0, leaves, 0, 5)[0].leaves), 2)
        with self.assertRaises(BudgetExceeded):
            decode(Bush, 0, leaves, 0, 4)
        with self.assertRaises(BudgetExceeded):
            decode(Twig_, 0, octets("01  00 0c  00 01 00  04 01 00 02 00 03 00 04 00"), 0, 4)


class LimitTests(SynchronousTestCase):
    """What a message may cost us."""

    def test_budget_is_shared(self) -> None:
        """All arrays of a message draw on one budget."""
        (data,) = encode(tree(twigs=[Twig(name="a")] * 3, numbers=[1, 2]), 2)
        decode(TreeRequest, 2, bytes(data), 0, 5)  # type: ignore[arg-type]
        with self.assertRaisesRegex(BudgetExceeded, "numbers announces 2 elements; .* 1 more"):
            decode(TreeRequest, 2, bytes(data), 0, 4)  # type: ignore[arg-type]

    def test_wrong_counts(self) -> None:
        """A count is refused before anything is built of it, whatever the version."""
        for version, text in (
            (1, "00 00 00 01 00 07  7f ff ff ff"),
            (1, "00 00 00 01 00 07  00 00 00 00  7f ff ff ff"),
            (2, "00 00 00 01  ff ff ff ff 0f"),
            (2, "00 00 00 01  01  ff ff ff ff 07"),
        ):
            with self.assertRaises(BudgetExceeded):
                decode(TreeRequest, version, octets(text))

    def test_scaled_to_the_size(self) -> None:
        """Without a budget, a short message may not announce what only a long one can hold."""
        text = "00 00 00 01 00 07  00 00 00 00  00 00 00 50" + "00 00 00 01" * 80 + "00 00"
        self.assertEqual(decode(TreeRequest, 1, octets(text))[0].numbers, [1] * 80)
        with self.assertRaises(BudgetExceeded):
            decode(TreeRequest, 1, octets(text)[:60])

    def test_varints_too_long(self) -> None:
        """A varint of more than five bytes, or 32 bits, is refused."""
        for length in ("80 80 80 80 80 01", "80 80 80 80 80 00", "ff ff ff ff 1f", "80 80 80 80 80 80 80 80 80 01"):
            with self.assertRaisesRegex(DecodeError, "varint"):
                decode(TreeRequest, 2, octets(f"00 00 00 01  {length}"))

    def test_null_the_long_way(self) -> None:
        """Zero, and so null, can be encoded in several bytes; it must not lead us backwards."""
        with self.assertRaisesRegex(DecodeError, "Twig.name is null"):
            decode(TreeRequest, 2, octets("00 00 00 01  02  80 00  00  00  01  00"))
        with self.assertRaisesRegex(DecodeError, "twigs is null"):
            decode(TreeRequest, 2, octets("00 00 00 01  80 80 00  00  01  00"))
        self.assertIsNone(decode(TreeRequest, 2, octets("00 00 00 01  01  00  80 00  00"))[0].note)

    def test_strings_too_long(self) -> None:
        """A string has at most 32767 bytes, also where its length could say more."""
        for note in ("n" * 32767, None):
            (data,) = encode(tree(note=note), 2)
            self.assertEqual(decode(TreeRequest, 2, bytes(data))[0].note, note)  # type: ignore[arg-type]
        for version in (1, 2):
            with self.assertRaisesRegex(EncodeError, r"note has 32768 bytes; a string has at most 32767"):
                encode(tree(note="n" * 32768), version)
        with self.assertRaisesRegex(DecodeError, "note has 32768 bytes"):
            decode(TreeRequest, 2, octets("00 00 00 01  01  00  81 80 02") + b"n" * 32768 + b"\0")
        with self.assertRaisesRegex(DecodeError, "Twig.name has 32768 bytes"):
            decode(TreeRequest, 2, octets("00 00 00 01  02  81 80 02") + b"n" * 32768 + b"\0\0\1\0")

    def test_not_utf8(self) -> None:
        """Strings that are not UTF-8 are refused."""
        with self.assertRaisesRegex(DecodeError, "TreeRequest v2 has a string that is not UTF-8"):
            decode(TreeRequest, 2, octets("00 00 00 01  01  00  03 c3 28  00"))

    def test_string_at_the_end(self) -> None:
        """Strings or records that end beyond the buffer are refused, even as the last field."""
        with self.assertRaisesRegex(DecodeError, "TreeRequest v1 does not end within the 19 bytes"):
            decode(TreeRequest, 1, octets("00 00 00 01 00 07  00 00 00 00  ff ff ff ff  00 09 61 62 63"))


class EncodeErrorTests(SynchronousTestCase):
    """Messages that cannot be sent: the error names the field."""

    def test_names_the_field(self) -> None:
        """The error has the path of the wrong value."""
        for version, wrong, words in (
            (1, tree(count="x"), r"TreeRequest v1: count is 'x', not of type int32"),
            (1, tree(count=2**31), r"count is 2147483648, not of type int32"),
            (2, tree(twigs=[Twig(name="a"), Twig(name=5)]), r"twigs\[1\]\.name is 5, not a string"),  # type: ignore[arg-type]
            (2, tree(twigs=[Leaf()]), r"twigs\[0\]\.Leaf\(.*\) is not a Twig"),
            (2, tree(twigs=5), r"twigs is 5, not a list"),
            (2, tree(numbers=["1"]), r"numbers\[0\] is '1', not of type int32"),
            (2, tree(note="\ud800"), r"note is not Unicode text"),
            (2, tree(twigs=[Twig(name="", leaf=Leaf(number=None))]), r"twigs\[0\]\.leaf\.number is null"),  # type: ignore[arg-type]
            (0, everything(i=b"short"), r"i is b'short', not 16 bytes"),
            (0, everything(m=[b"short"]), r"m\[0\] is b'short', not 16 bytes"),
            (0, everything(j="text"), r"j is 'text', not bytes"),
            (0, everything(k="text"), r"k is 'text', not bytes or a slice of a file"),
            (0, everything(k=7), r"k is 7, not bytes or a slice of a file"),
            (0, everything(j=7), r"j is 7, not bytes"),
        ):
            with self.assertRaisesRegex(EncodeError, words):
                encode(wrong, version)

    def test_is_a_value_error(self) -> None:
        """Callers that know nothing of us can catch a ValueError."""
        self.assertRaises(ValueError, encode, tree(count="x"), 1)


class CodecTests(SynchronousTestCase):
    """The compiled functions."""

    def test_compiled_once(self) -> None:
        """The same function serves every call."""
        self.assertIs(decoder(TreeRequest, 2), decoder(TreeRequest, 2))
        self.assertIs(encoder(TreeRequest, 2), encoder(TreeRequest, 2))
        self.assertIsNot(decoder(TreeRequest, 2), decoder(TreeRequest, 3))

    def test_unknown_versions(self) -> None:
        """There is no codec for a version that was not declared, nor for a bare struct."""
        with self.assertRaisesRegex(SchemaError, "TreeRequest has versions 0-3, not 4"):
            decoder(TreeRequest, 4)
        with self.assertRaisesRegex(SchemaError, "TreeRequest has versions 0-3, not -1"):
            encoder(TreeRequest, -1)
        with self.assertRaisesRegex(SchemaError, "Leaf is a struct, not a message"):
            decoder(Leaf, 0)
        with self.assertRaisesRegex(SchemaError, "int is not declared"):
            encoder(int, 0)

    def test_tracebacks_show_the_source(self) -> None:
        """An error inside generated code shows the generated line."""
        try:
            decoder(TreeRequest, 2)(5)  # type: ignore[arg-type]
        except TypeError as e:
            self.assertIn("size = len(buf)", "".join(traceback.format_exception(e)))
        else:
            self.fail("an int was decoded")
        linecache.checkcache()
        self.assertIn("def decode", linecache.getline("<logbus.wire: decode TreeRequest v2>", 1))

    def test_spec(self) -> None:
        """What was declared can be asked for."""
        spec = message_spec(TreeRequest)
        self.assertEqual(
            (spec.api_key, str(spec.versions), str(spec.flexible), spec.kind), (999, "0-3", "2+", "request")
        )
        self.assertEqual(message_spec(Note).kind, "data")
