"""
Makes the classes of attrs small, for a process of many.

attrs makes a class for the fields of each class, with a function for each field, and writes and compiles a ``__repr__``
for each. Hardly anything ever calls them, and of the 18 KB of a class of five fields they take 7: 4 MB of a broker.
Within :func:`small_classes` all classes share one class of fields, and the code of one ``__repr__``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local
from typing import Any

import attr._make

_MODULE: Any = attr._make
_BUILDER: Any = getattr(_MODULE, "_ClassBuilder", None)
_MAKE_FIELDS_CLASS = getattr(_MODULE, "_make_attr_tuple_class", None)
_ADD_REPR = getattr(_BUILDER, "add_repr", None)
"""What attrs calls; None: this version of it does otherwise."""

_OF_TUPLES = frozenset(dir(tuple))


class Fields(tuple[Any, ...]):
    """The fields of a class, as :func:`attrs.fields` returns them: in order, and as attributes by their names."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        for field in self:
            if field.name == name:
                return field
        raise AttributeError(f"there is no field {name!r}")


class _Showing(local):
    """The objects whose ``__repr__`` this thread is in."""

    def __init__(self) -> None:
        self.ids: set[int] = set()


_showing = _Showing()


def repr_of(fields: tuple[Any, ...]) -> Callable[[object], str]:
    """Return the ``__repr__`` of a class with these fields: as attrs' own, ``...`` for an object within itself."""

    def __repr__(self: object) -> str:
        if id(self) in _showing.ids:
            return "..."
        _showing.ids.add(id(self))
        try:
            shown = []
            for field in fields:
                if field.repr is not False:
                    # What __init__ does not set may be missing.
                    value = getattr(self, field.name) if field.init else getattr(self, field.name, attr.NOTHING)
                    shown.append(f"{field.name}={repr(value) if field.repr is True else field.repr(value)}")
            return f"{type(self).__qualname__.rsplit('>.', 1)[-1]}({', '.join(shown)})"
        finally:
            _showing.ids.remove(id(self))

    return __repr__


def _make_fields_class(class_name: str, names: list[str]) -> type:
    # A field hides what a tuple has under its name, which the shared class cannot do.
    if _OF_TUPLES.isdisjoint(names):
        return Fields
    made: type = _MAKE_FIELDS_CLASS(class_name, names)  # type: ignore[misc]
    return made


def _add_repr(builder: Any, namespace: str | None) -> Any:
    if namespace is not None:
        return _ADD_REPR(builder, namespace)  # type: ignore[misc]
    builder._cls_dict["__repr__"] = repr_of(builder._attrs)
    builder._repr_added = True
    return builder


@contextmanager
def small_classes() -> Iterator[None]:
    """Make the classes that attrs makes within the context small."""
    if _MAKE_FIELDS_CLASS is None or _ADD_REPR is None:
        yield
        return
    _MODULE._make_attr_tuple_class, _BUILDER.add_repr = _make_fields_class, _add_repr
    try:
        yield
    finally:
        _MODULE._make_attr_tuple_class, _BUILDER.add_repr = _MAKE_FIELDS_CLASS, _ADD_REPR
