"""Tests of :mod:`logbus.attrs_classes`."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, get_type_hints

import attr._make
import attrs
from twisted.trial.unittest import SynchronousTestCase

from logbus import attrs_classes
from logbus.attrs_classes import Fields, small_classes


def declare() -> tuple[type, ...]:
    """Classes of all kinds, made anew."""

    @attrs.frozen
    class Point:
        x: int
        y: int = attrs.field(default=2, repr=lambda value: f"<{value}>")
        hidden: int = attrs.field(default=3, repr=False)

    @attrs.define(eq=False)
    class Node:
        name: str
        _next: object = None
        later: int = attrs.field(init=False)

    class Plain(Point):  # a subclass that attrs does not know
        pass

    @attrs.define(repr=False)
    class Quiet(Node):
        more: int = 0

    @attrs.define
    class Counted:
        count: int

    @attrs.frozen(getstate_setstate=False)
    class Tagged(Point):
        tag: int = 0

    return Point, Node, Plain, Quiet, Counted, Tagged


def shown(classes: tuple[Any, ...]) -> list[str]:
    """What objects of these classes look like."""
    point, node, plain, quiet, counted, _ = classes
    loop = node("a")
    loop._next = [loop, point(1)]
    late = node("b")
    late.later = 7
    return [repr(each) for each in (point(1), loop, late, plain(5), quiet("c", more=1), counted(9))]


class SmallClassesTests(SynchronousTestCase):
    def setUp(self) -> None:
        with small_classes():
            self.small: tuple[Any, ...] = declare()
        self.usual: tuple[Any, ...] = declare()

    def test_repr(self) -> None:
        """Objects look as they do with attrs' own code: fields left out, missing, shown by functions; circles."""
        self.assertEqual(shown(self.small), shown(self.usual))
        self.assertIn("next=[...,", shown(self.small)[1])

    def test_repr_fails(self) -> None:
        """An error of a field's ``repr`` is passed on, and the object is shown when that works again."""
        with small_classes():

            @attrs.define
            class Holder:
                held: object

        class Bad:
            def __repr__(self) -> str:
                raise ValueError("bad")

        holder = Holder(Bad())
        self.assertRaises(ValueError, repr, holder)
        self.assertRaises(ValueError, repr, holder)
        holder.held = 1
        self.assertIn("Holder(held=1)", repr(holder))

    def test_fields(self) -> None:
        """The fields are found in order and by name, and all that attrs does with them works."""
        point, node, _, _, counted, _ = self.small
        fields = attrs.fields(point)
        self.assertIsInstance(fields, Fields)
        self.assertEqual([field.name for field in fields], ["x", "y", "hidden"])
        self.assertIs(fields.y, fields[1])
        self.assertRaises(AttributeError, getattr, fields, "z")
        self.assertIs(type(attrs.fields(node)), type(fields))
        self.assertEqual(attrs.asdict(attrs.evolve(point(1), y=5)), {"x": 1, "y": 5, "hidden": 3})
        self.assertEqual(attrs.fields(counted).count.name, "count")

    def test_copies(self) -> None:
        """Objects are copied and pickled, frozen ones as well, and what is not set is asked for as attrs does."""
        point, node, plain, quiet, _, tagged = self.small
        self.assertEqual(copy.copy(point(1, 5)), point(1, 5))
        self.assertEqual(copy.deepcopy(plain(1, 5)), plain(1, 5))
        made = node("a", [1])
        made.later = 7
        copied = copy.deepcopy(made)
        self.assertEqual((copied.name, copied._next, copied.later), ("a", [1], 7))
        self.assertIsNot(copied._next, made._next)
        self.assertRaises(AttributeError, copy.copy, node("b"))
        made = quiet("c", more=4)
        made.later = 0
        self.assertEqual(copy.copy(made).more, 4)

        with small_classes():

            @attrs.frozen(cache_hash=True)
            class Hashed:
                key: str

        self.assertEqual(tagged(1, tag=9).__getstate__(), {"x": 1, "y": 2, "hidden": 3})
        hashed = Hashed("a")
        self.assertEqual({hash(hashed): 1}, {hash(copy.copy(hashed)): 1})

    def test_globals(self) -> None:
        """Methods have what they name, not all of the module."""

        def listed(values: Iterable[int]) -> list[int]:
            return list(values)

        with small_classes():

            @attrs.define
            class Made:
                numbers: list[int] = attrs.field(factory=list, converter=listed, validator=attrs.validators.min_len(1))
                count: int = attrs.field(eq=abs)

                @count.default
                def _two(self) -> int:
                    return 2

        made = Made((1, 2))
        self.assertEqual((made.numbers, made.count), ([1, 2], 2))
        self.assertEqual(made, Made([1, 2], -2))
        self.assertRaises(ValueError, Made, [])
        self.assertNotIn("SynchronousTestCase", Made.__init__.__globals__)
        self.assertIn("SynchronousTestCase", self.usual[0].__init__.__globals__)
        self.assertEqual(get_type_hints(Made)["count"], int)

    def test_afterwards(self) -> None:
        """Outside of the context attrs works as ever."""
        self.assertNotIsInstance(attrs.fields(self.usual[0]), Fields)
        self.assertEqual(self.usual[0].__repr__.__qualname__.rpartition(".")[2], "__repr__")
        self.assertEqual(attr._make._make_attr_tuple_class, attrs_classes._MAKE_FIELDS_CLASS)

    def test_another_attrs(self) -> None:
        """Nothing is done with a version of attrs that does not work so."""
        usual = [(owner, name, None, ours) for owner, name, _, ours in attrs_classes._CHANGES]
        self.patch(attrs_classes, "_CHANGES", usual)
        with small_classes():
            self.assertNotIsInstance(attrs.fields(declare()[0]), Fields)
