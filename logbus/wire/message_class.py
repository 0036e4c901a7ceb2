"""
Makes the class of a message: slots, comparison, ``repr``, and an ``__init__`` that takes keywords only.

There are some hundred of these classes, and a broker constructs and compares few of them. So ``__init__`` and
``__eq__`` are compiled when they are first called; attrs would compile them for all classes at import. There are no
validators or converters, since decoders fill the slots without ``__init__``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, TypeVar, cast

from attrs import frozen

T = TypeVar("T")

Default = Any
"""The default value of a field, :class:`Factory` of it, or :data:`NO_DEFAULT`."""

NO_DEFAULT: Any = object()
"""Stands for no default: the keyword is required."""

_NOT_COPIED = frozenset({"__dict__", "__weakref__"})


@frozen
class Factory:
    """Makes the default of a field anew for each message."""

    make: Callable[[], Any]


class MessageBase:
    """The base of the classes of all messages and structs."""

    __slots__ = ()
    # Without an annotation, which get_type_hints would find in every class.
    __defaults__ = cast(Mapping[str, Default], {})
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        init = _compile_init(cls)
        cls.__init__ = init  # type: ignore[method-assign]
        init(self, **values)

    def __eq__(self, other: object) -> bool:
        cls = type(self)
        cls.__eq__ = equal = _compile_eq(cls)  # type: ignore[method-assign]
        return equal(self, other)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__defaults__)
        return f"{type(self).__qualname__.rpartition('>.')[2]}({values})"


def message_class(cls: type[T], defaults: Mapping[str, Default]) -> type[T]:
    """
    Make the class of a message from its declaration.

    :param defaults: by the names of all fields, in their order.
    """
    members = {name: value for name, value in vars(cls).items() if name not in _NOT_COPIED and name not in defaults}
    members |= {"__slots__": tuple(defaults), "__defaults__": defaults, "__qualname__": cls.__qualname__}
    return cast(type[T], type(cls.__name__, (MessageBase,), members))


def replaced(message: T, **values: Any) -> T:
    """A copy of a message with other values in some fields."""
    made = copy(message)
    for name, value in values.items():
        setattr(made, name, value)
    return made


def _compile_init(cls: type[MessageBase]) -> Callable[..., None]:
    names: dict[str, Any] = {"NO_DEFAULT": NO_DEFAULT}
    parameters: list[str] = []
    body: list[str] = []
    for name, default in cls.__defaults__.items():
        if default is NO_DEFAULT:
            parameters.append(name)
            body.append(f"self.{name} = {name}")
        elif isinstance(default, Factory):
            names[f"make_{name}"] = default.make
            parameters.append(f"{name}=NO_DEFAULT")
            body.append(f"self.{name} = make_{name}() if {name} is NO_DEFAULT else {name}")
        else:
            names[f"default_{name}"] = default
            parameters.append(f"{name}=default_{name}")
            body.append(f"self.{name} = {name}")
    star = ["*"] if parameters else []
    return _compile(cls, "__init__", ["self", *star, *parameters], body, names)


def _compile_eq(cls: type[MessageBase]) -> Callable[[Any, object], bool]:
    equal = " and ".join(f"self.{name} == other.{name}" for name in cls.__defaults__)
    body = ["if other.__class__ is not self.__class__:", "    return NotImplemented", f"return {equal or True}"]
    return _compile(cls, "__eq__", ["self", "other"], body, {})


def _compile(
    cls: type[MessageBase], name: str, parameters: list[str], body: list[str], names: dict[str, Any]
) -> Callable[..., Any]:
    lines = [f"def {name}({', '.join(parameters)}):", *(f"    {line}" for line in body or ["pass"])]
    exec(compile("\n".join(lines) + "\n", f"<logbus.wire: {cls.__qualname__}.{name}>", "exec"), names)
    function: Callable[..., Any] = names[name]
    function.__qualname__ = f"{cls.__qualname__}.{name}"
    function.__module__ = cls.__module__
    return function
