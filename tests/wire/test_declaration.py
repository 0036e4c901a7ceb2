"""Valid and invalid declarations."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.wire.declaration import SchemaError
from logbus.wire.schema import (
    Int16,
    Int32,
    Records,
    String,
    decoder,
    encoder,
    field,
    message,
    struct,
)


@struct
class Named:
    """A struct without defaults."""

    name: String


def codecs(cls: type, version: int = 1) -> None:
    """Compile both directions."""
    decoder(cls, version)
    encoder(cls, version)


class DeclarationTests(SynchronousTestCase):
    """What ``@struct`` and ``@message`` make."""

    def test_values(self) -> None:
        """Declared classes compare by value, are printed with their fields, and take keywords only."""
        self.assertEqual(Named(name="a"), Named(name="a"))
        self.assertNotEqual(Named(name="a"), Named(name="b"))
        self.assertEqual(repr(Named(name="a")), "Named(name='a')")
        self.assertRaises(TypeError, Named, "a")
        self.assertRaises(TypeError, Named)

    def test_slots(self) -> None:
        """They have slots and no room for misspelt attributes."""
        self.assertFalse(hasattr(Named(name="a"), "__dict__"))
        self.assertRaises(AttributeError, setattr, Named(name="a"), "nmae", "b")

    def test_lists_are_not_shared(self) -> None:
        """Each message has its own default list."""

        @message(None, versions="0", flexible="none")
        class Listed:
            items: list[Int32] = field(factory=list)

        self.assertIsNot(Listed().items, Listed().items)


class InvalidDeclarationTests(SynchronousTestCase):
    """Declarations that are refused, when the version is compiled that they make no sense in."""

    def refused(self, cls: Any, words: str) -> None:
        """Compiling fails with these words."""
        with self.assertRaisesRegex(SchemaError, words):
            codecs(cls)

    def test_absent_without_default(self) -> None:
        """A field that a version lacks needs a default."""

        @message(None, versions="0-1", flexible="none")
        class Late:
            number: Int32 = field("2+")

        self.refused(Late, "Late.number is absent in version 1 and needs a default")

    def test_tagged_before_flexible(self) -> None:
        """Only flexible versions have tags."""

        @message(None, versions="0-1", flexible="none")
        class Stiff:
            number: Int32 = field("1+", default=0, tag=0)

        self.refused(Stiff, "Stiff.number is tagged, but version 1 is not flexible")

    def test_equal_tags(self) -> None:
        """Each tag belongs to one field."""

        @message(None, versions="0-1", flexible="0+")
        class Twice:
            one: Int32 = field("0+", default=0, tag=3)
            two: Int32 = field("0+", default=0, tag=3)

        self.refused(Twice, "Twice.two has tag 3, which another field has too")

    def test_nullable_without_none(self) -> None:
        """What may be null must say so in its type."""

        @message(None, versions="0-1", flexible="0+")
        class Denied:
            name: String = field(nullable="1+")

        self.refused(Denied, r"Denied.name is nullable, but its type lacks '\| None'")

    def test_tagged_records(self) -> None:
        """Records are too long for a tag."""

        @message(None, versions="0-1", flexible="0+")
        class Heavy:
            data: Records | None = field("0+", default=None, tag=0)

        self.refused(Heavy, "Heavy.data is tagged; records cannot be")

    def test_tagged_struct_needs_defaults(self) -> None:
        """A tagged struct is left out when it equals its default, so it must have one."""

        @message(None, versions="0-1", flexible="0+")
        class Hollow:
            named: Named | None = field("0+", default=None, tag=0)

        self.refused(Hollow, "Hollow.named is tagged, so every field of Named needs a default")

    def test_types_not_of_the_wire(self) -> None:
        """Types that cannot be sent are named."""

        @message(None, versions="0-1", flexible="0+")
        class Bare:
            number: int

        @message(None, versions="0-1", flexible="0+")
        class Holes:
            names: list[String | None]

        @message(None, versions="0-1", flexible="0+")
        class Either:
            one: Int16 | String

        self.refused(Bare, "int is not declared")
        self.refused(Holes, "Holes.names: a list of .* cannot be sent")
        self.refused(Either, "Either.one: .* is neither a wire type, a struct, nor a list of one")

    def test_bad_ranges(self) -> None:
        """Ranges of versions are checked where they stand."""
        self.assertRaises(ValueError, field, "3-1")
        self.assertRaises(ValueError, message, 1, versions="x", flexible="0+")
