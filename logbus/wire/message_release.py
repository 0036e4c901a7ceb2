"""
Frees messages of very many elements in steps.

Python frees a message at once with its last reference, and one of 90,000 elements takes 10 to 30 ms. Here its arrays
are kept by references of their own, which are dropped some at a time. The message is not changed: parts of a response
may belong to others.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import cache
from typing import Any

from logbus.wire.codegen import ELEMENTS_PER_STEP
from logbus.wire.message_class import MessageBase

FEW = 16
"""Arrays of an element with no more elements than these are freed together with it."""


def arrays_of(message: Any, few: int = 0) -> list[list[Any]]:
    """
    Copies of a message's arrays, which keep their elements while the message is freed.

    :param few: the size of those to leave out.
    """
    found = []
    for name in _array_fields(message.__class__):
        array = getattr(message, name)
        if array is not None and len(array) > few:
            found.append(list(array))
    return found


def release_in_steps(arrays: list[list[Any]]) -> Generator[None, None, None]:
    """Drop the elements of ``arrays``, and of the arrays within them, and yield after some of them."""
    left = ELEMENTS_PER_STEP
    while arrays:
        array = arrays[-1]
        if not array:
            arrays.pop()
        elif _array_fields(array[-1].__class__):
            arrays += arrays_of(array.pop(), FEW)
            left -= 1
        else:
            left -= min(left, len(array))
            del array[-ELEMENTS_PER_STEP:]
        if not left:
            yield
            left = ELEMENTS_PER_STEP


@cache
def _array_fields(cls: type) -> tuple[str, ...]:
    """The fields that are arrays; none, if it is no message or struct."""
    types: dict[str, str] = vars(cls).get("__annotations__", {}) if issubclass(cls, MessageBase) else {}
    return tuple(name for name, text in types.items() if text.startswith("list["))
