"""Classes of messages: construction, comparison, ``repr``, copies."""

from __future__ import annotations

import copy
import pickle
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.wire.message_class import NO_DEFAULT, Factory, MessageBase, message_class


class Plain:
    """A declaration."""


class Several:
    """A declaration."""


class Picklable:
    """A declaration."""


Picklable = message_class(Picklable, {"one": 1, "many": Factory(list)})  # type: ignore[misc]


def several() -> Any:
    """A new class: its ``__init__`` and ``__eq__`` are not compiled yet."""
    return message_class(Several, {"needed": NO_DEFAULT, "one": 1, "many": Factory(list)})


class MessageClassTests(SynchronousTestCase):
    """What :func:`.message_class` makes."""

    def test_construction(self) -> None:
        """Defaults are filled in, lists anew each time; the first call and the later ones do the same."""
        cls = several()
        for _ in range(2):
            made = cls(needed="x")
            self.assertEqual((made.needed, made.one, made.many), ("x", 1, []))
            made.many.append(1)
        given = cls(needed=None, one=2, many=[3])
        self.assertEqual((given.needed, given.one, given.many), (None, 2, [3]))

    def test_bad_arguments(self) -> None:
        """As of a function with these keywords, also in the first call."""
        for _ in range(2):
            with self.assertRaisesRegex(TypeError, r"Several.__init__\(\) missing 1 required keyword-only .*'needed'"):
                several()(one=1)
            with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'other'"):
                several()(needed=1, other=1)
            self.assertRaises(TypeError, several(), "x")

    def test_no_fields(self) -> None:
        """A class may have no fields: its messages are equal."""
        cls: Any = message_class(Plain, {})
        self.assertEqual(cls(), cls())
        self.assertEqual(repr(cls()), "Plain()")
        self.assertRaises(TypeError, cls, other=1)

    def test_of_another_class(self) -> None:
        """A message equals only messages of its class."""
        one, other = several(), several()
        self.assertNotEqual(one(needed=1), other(needed=1))
        self.assertNotEqual(one(needed=1), (1, 1, []))
        self.assertIs(one(needed=1).__eq__(1), NotImplemented)

    @given(st.tuples(*[st.integers(0, 1)] * 3), st.tuples(*[st.integers(0, 1)] * 3))
    def test_comparison(self, left: tuple[int, ...], right: tuple[int, ...]) -> None:
        """Messages are equal if all their fields are, in the first comparison and later."""
        cls = several()
        one, other = (cls(**dict(zip(("needed", "one", "many"), values, strict=True))) for values in (left, right))
        for _ in range(2):
            self.assertEqual(one == other, left == right)
            self.assertEqual(one != other, left != right)

    def test_not_hashable(self) -> None:
        """They are mutable, so they cannot be keys, before and after a comparison."""
        message = several()(needed=1)
        self.assertRaises(TypeError, hash, message)
        self.assertEqual(message, message)
        self.assertRaises(TypeError, hash, message)

    def test_not_shared(self) -> None:
        """What is compiled belongs to one class."""
        one, other = several(), several()
        one(needed=1)
        self.assertIsNot(one.__init__, MessageBase.__init__)
        self.assertIs(other.__init__, MessageBase.__init__)

    def test_repr(self) -> None:
        """With all fields, in their order; a local class by its own name."""
        self.assertEqual(repr(several()(needed="x")), "Several(needed='x', one=1, many=[])")

        class Local:
            pass

        self.assertEqual(repr(message_class(Local, {})()), "Local()")

    def test_copies(self) -> None:
        """They can be copied and pickled."""
        message: Any = Picklable()
        message.many.append(2)
        for same in (copy.copy(message), copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
            self.assertEqual(same, message)
            self.assertIsNot(same, message)
