"""
The declaration of a message: one class for all versions, each field with the versions that have it.

.. code-block:: python

    @struct
    class FetchPartition:
        partition: Int32
        current_leader_epoch: Int32 = field("9+", default=-1, ignorable=True)
        fetch_offset: Int64

    @message(1, versions="4-18", flexible="12+")
    class FetchRequest:
        cluster_id: String | None = field("12+", default=None, tag=0, ignorable=True)
        max_wait_ms: Int32
        topics: list[FetchTopic]

The fields stand in the order of the wire. The classes get slots, comparison, ``repr`` and an ``__init__`` that takes
keywords only (:mod:`~logbus.wire.message_class`).

* A field without a default is a required keyword. A field that some version lacks needs a default: decoders of that
  version fill it in, and its encoders refuse any other value, unless the field is ``ignorable``.
* ``| None`` means that null may be sent in every version, unless ``nullable`` narrows it.
* A tagged struct with ``| None`` and no ``nullable`` is None when its tag is absent. With a ``factory`` it is
  what that makes, and None is written as null.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeVar, dataclass_transform, overload

import attrs

from logbus.wire.message_class import NO_DEFAULT, Default, Factory, message_class
from logbus.wire.version_range import ALL_VERSIONS, VersionRange

T = TypeVar("T")

MessageKind = Literal["request", "response", "data"]

SPEC_ATTRIBUTE = "__wire_spec__"


REQUIRED: Any = object()
"""Stands for no default."""


class SchemaError(TypeError):
    """The declaration of a message is invalid, or it has no such version."""


@attrs.frozen
class FieldSpec:
    """
    The properties of a field beyond its type.

    :ivar versions: versions that have the field.
    :ivar tag: number of the tag, None when the field is not tagged.
    :ivar default: value in versions that lack the field; ``REQUIRED`` if there is none.
    :ivar factory: makes the default instead, for lists.
    :ivar nullable: versions in which null may be sent; None: determined by the type.
    """

    versions: VersionRange = ALL_VERSIONS
    tag: int | None = None
    default: Any = REQUIRED
    factory: Callable[[], Any] | None = None
    nullable: VersionRange | None = None
    ignorable: bool = False

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is REQUIRED and self.factory is None

    def make_default(self) -> Any:
        """The default value."""
        return self.factory() if self.factory is not None else self.default


PLAIN = FieldSpec()
"""The properties of most fields, which share it."""


@attrs.define(eq=False)
class StructSpec:
    """A declared struct: its class, and its fields in wire order."""

    cls: type
    fields: dict[str, FieldSpec]


@attrs.define(eq=False)
class MessageSpec(StructSpec):
    """
    A declared message.

    :ivar api_key: Kafka's API key; None for data outside of requests.
    :ivar versions: supported versions.
    :ivar flexible: versions with compact lengths and tagged fields.
    """

    api_key: int | None = None
    versions: VersionRange = ALL_VERSIONS
    flexible: VersionRange = ALL_VERSIONS
    kind: MessageKind = "data"


@overload
def field(versions: str = ..., *, ignorable: bool = ..., nullable: str | None = ...) -> Any: ...
@overload
def field(
    versions: str = ..., *, default: T, tag: int | None = ..., ignorable: bool = ..., nullable: str | None = ...
) -> T: ...
@overload
def field(
    versions: str = ...,
    *,
    factory: Callable[[], T],
    tag: int | None = ...,
    ignorable: bool = ...,
    nullable: str | None = ...,
) -> T: ...
def field(
    versions: str = "0+",
    *,
    default: Any = REQUIRED,
    factory: Callable[[], Any] | None = None,
    tag: int | None = None,
    ignorable: bool = False,
    nullable: str | None = None,
) -> Any:
    """
    Declare the properties of a field beyond its type.

    :param versions: the versions that have it, as in ``"9+"``.
    :param default: its value if none is given.
    :param factory: makes the default, for lists (``factory=list``).
    :param tag: its number in the tag section (KIP-482): it is sent only when it differs from its default.
    :param ignorable: whether a version that lacks the field may silently drop a value.
    :param nullable: the versions in which null may be sent; default: all, if the type has ``| None``.
    """
    sent_as_null = None if nullable is None else VersionRange.parse(nullable)
    return FieldSpec(VersionRange.parse(versions), tag, default, factory, sent_as_null, ignorable)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """Declare a struct: the type of a field in messages or other structs."""
    made, fields = _slotted(cls)
    setattr(made, SPEC_ATTRIBUTE, StructSpec(made, fields))
    return made


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(api_key: int | None, *, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """
    Declare a message; it is a request or a response if the class's name ends so, else data.

    :param api_key: Kafka's API key, None for data outside of requests.
    :param versions: the supported versions, as in ``"4-18"``.
    :param flexible: those with compact lengths and tagged fields, ``"none"`` if there are none.
    """
    known, compact = VersionRange.parse(versions), VersionRange.parse(flexible)

    def declare(cls: type[T]) -> type[T]:
        made, fields = _slotted(cls)
        spec = MessageSpec(made, fields, api_key, known, compact, _kind_by_name(cls.__name__))
        setattr(made, SPEC_ATTRIBUTE, spec)
        return made

    return declare


def _kind_by_name(name: str) -> MessageKind:
    if name.endswith("Request"):
        return "request"
    return "response" if name.endswith("Response") else "data"


def _slotted(cls: type[T]) -> tuple[type[T], dict[str, FieldSpec]]:
    """Make a class with slots of ``cls``, keeping the specs from :func:`field`."""
    fields: dict[str, FieldSpec] = {}
    defaults: dict[str, Default] = {}
    for name in inspect.get_annotations(cls):
        given = cls.__dict__.get(name, REQUIRED)
        spec = given if isinstance(given, FieldSpec) else PLAIN if given is REQUIRED else FieldSpec(default=given)
        fields[name] = spec
        if spec.factory is not None:
            defaults[name] = Factory(spec.factory)
        else:
            defaults[name] = NO_DEFAULT if spec.default is REQUIRED else spec.default
    return message_class(cls, defaults), fields


def is_struct(cls: type) -> bool:
    """Whether ``cls`` was declared by :func:`struct` or :func:`message`."""
    return isinstance(cls.__dict__.get(SPEC_ATTRIBUTE), StructSpec)


def struct_spec(cls: type) -> StructSpec:
    """
    The declaration of ``cls``.

    :raises SchemaError: it was not declared by :func:`struct` or :func:`message`.
    """
    found = cls.__dict__.get(SPEC_ATTRIBUTE)
    if not isinstance(found, StructSpec):
        raise SchemaError(f"{cls.__name__} is not declared with @struct or @message")
    return found


def message_spec(cls: type) -> MessageSpec:
    """
    The declaration of the message ``cls``.

    :raises SchemaError: it was not declared by :func:`message`.
    """
    found = struct_spec(cls)
    if not isinstance(found, MessageSpec):
        raise SchemaError(f"{cls.__name__} is a struct, not a message")
    return found
