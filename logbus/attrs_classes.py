"""
Makes the classes of attrs small, for a process of many.

For each class attrs makes a class for its fields, with a function for each field; writes and compiles a ``__repr__``;
makes two functions for copies; gives the methods a copy of all names of the module as their globals, and each a text.
Hardly anything ever uses these, and of the 18 KB of a class of five fields they take more than half. Within
:func:`small_classes` all classes share one class of fields and one function each of the others, and methods have the
globals that they name. What asks for the types of an ``__init__`` by their names, as :func:`typing.get_type_hints`
does, does not find them; those of the class it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import local
from typing import Any

import attr._make

_MODULE: Any = attr._make
_BUILDER: Any = getattr(_MODULE, "_ClassBuilder", None)
_MAKE_FIELDS_CLASS = getattr(_MODULE, "_make_attr_tuple_class", None)
_EVALUATE = getattr(_MODULE, "_compile_and_eval", None)
_ADD_REPR = getattr(_BUILDER, "add_repr", None)
_MAKE_STATE_METHODS = getattr(_BUILDER, "_make_getstate_setstate", None)
_ADD_NAMES = getattr(_BUILDER, "_add_method_dunders_unsafe", None)
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


class _Shared:
    """The methods that all classes share."""

    def __repr__(self) -> str:
        if id(self) in _showing.ids:
            return "..."
        _showing.ids.add(id(self))
        try:
            shown = []
            for field in _fields(self, "__repr__"):
                if field.repr is not False:
                    # What __init__ does not set may be missing.
                    value = getattr(self, field.name) if field.init else getattr(self, field.name, attr.NOTHING)
                    shown.append(f"{field.name}={repr(value) if field.repr is True else field.repr(value)}")
            return f"{type(self).__qualname__.rsplit('>.', 1)[-1]}({', '.join(shown)})"
        finally:
            _showing.ids.remove(id(self))

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in _fields(self, "__getstate__")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for field in _fields(self, "__setstate__"):
            if field.name in state:
                object.__setattr__(self, field.name, state[field.name])  # it may be frozen


def _fields(instance: object, method: str) -> tuple[Any, ...]:
    """The fields of the class from which an object has a shared method: its own class may have more."""
    shared = vars(_Shared)[method]
    return next(vars(cls)["__attrs_attrs__"] for cls in type(instance).__mro__ if vars(cls).get(method) is shared)


def _make_fields_class(class_name: str, names: list[str]) -> type:
    # A field hides what a tuple has under its name, which the shared class cannot do.
    if _OF_TUPLES.isdisjoint(names):
        return Fields
    made: type = _MAKE_FIELDS_CLASS(class_name, names)  # type: ignore[misc]
    return made


def _add_repr(builder: Any, namespace: str | None) -> Any:
    if namespace is not None:
        return _ADD_REPR(builder, namespace)  # type: ignore[misc]
    builder._cls_dict["__repr__"] = _Shared.__repr__
    builder._repr_added = True
    return builder


def _make_state_methods(builder: Any) -> Any:
    if builder._cache_hash:  # which must not be copied
        return _MAKE_STATE_METHODS(builder)  # type: ignore[misc]
    return _Shared.__getstate__, _Shared.__setstate__


def _add_names(builder: Any, method: Any) -> Any:
    named = _ADD_NAMES(builder, method)  # type: ignore[misc]
    named.__doc__ = None
    return named


def _evaluate(script: str, names: dict[str, Any], made: Mapping[str, Any] | None = None, filename: str = "") -> None:
    """
    Make methods.

    :param names: their globals, among which attrs puts all names of the module.
    :param made: where they are put; None: among the names.
    """
    _EVALUATE(script, names, made, filename)  # type: ignore[misc]
    if made is not None:
        used = {name for method in made.values() for name in method.__code__.co_names}
        kept = {name: names[name] for name in used & names.keys()}
        names.clear()
        names.update(kept)


_CHANGES: tuple[tuple[Any, str, Any, Callable[..., Any]], ...] = (
    (_MODULE, "_make_attr_tuple_class", _MAKE_FIELDS_CLASS, _make_fields_class),
    (_MODULE, "_compile_and_eval", _EVALUATE, _evaluate),
    (_BUILDER, "add_repr", _ADD_REPR, _add_repr),
    (_BUILDER, "_make_getstate_setstate", _MAKE_STATE_METHODS, _make_state_methods),
    (_BUILDER, "_add_method_dunders_unsafe", _ADD_NAMES, _add_names),
)
"""What is called instead: where it is, its name, what attrs has there, and what is there meanwhile."""


@contextmanager
def small_classes() -> Iterator[None]:
    """Make the classes that attrs makes within the context small."""
    changes = [change for change in _CHANGES if change[2] is not None]
    for owner, name, _, ours in changes:
        setattr(owner, name, ours)
    try:
        yield
    finally:
        for owner, name, usual, _ in changes:
            setattr(owner, name, usual)
