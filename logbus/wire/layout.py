"""The layout of a struct in one version: its declaration, with types resolved and version ranges applied."""

from __future__ import annotations

import sys
import types
import typing
from functools import cache
from typing import Any, TypeAlias

from attrs import frozen

from logbus.wire.declaration import FieldSpec, MessageSpec, SchemaError, struct_spec
from logbus.wire.wire_types import RECORDS, WireType


@frozen
class Array:
    """A list of primitives or of structs."""

    element: WireType | type


Shape: TypeAlias = WireType | Array | type
"""A primitive, a list, or a class declared with ``@struct``."""


@frozen
class FieldLayout:
    """
    A field in one version.

    :ivar nullable: whether null may be sent in this version.
    :ivar marked: whether a byte before the struct tells if it is null (KIP-893).
    """

    owner: str
    name: str
    shape: Shape
    spec: FieldSpec
    nullable: bool
    marked: bool

    def __str__(self) -> str:
        return f"{self.owner}.{self.name}"


@frozen
class StructLayout:
    """
    A struct in one version.

    :ivar fields: sent in every message, in order.
    :ivar tagged: sent in the tag section if set, by ascending tag.
    :ivar absent: fields that this version lacks.
    :ivar flexible: whether lengths are compact and there is a tag section.
    """

    cls: type
    version: int
    flexible: bool
    fields: tuple[FieldLayout, ...]
    tagged: tuple[FieldLayout, ...]
    absent: tuple[FieldLayout, ...]

    def nested(self, cls: type) -> StructLayout:
        """The layout of a field's struct, in the same version."""
        return struct_layout(cls, self.version, self.flexible)


def message_layout(spec: MessageSpec, version: int) -> StructLayout:
    """
    The layout of ``version`` of a message.

    :raises SchemaError: the message has no such version, or its declaration is invalid.
    """
    if not spec.versions.includes(version):
        raise SchemaError(f"{spec.cls.__name__} has versions {spec.versions}, not {version}")
    return struct_layout(spec.cls, version, spec.flexible.includes(version))


def struct_layout(cls: type, version: int, flexible: bool) -> StructLayout:
    """
    The layout of ``version`` of a struct.

    :raises SchemaError: the declaration is invalid.
    """
    fields: list[FieldLayout] = []
    tags: list[FieldLayout] = []
    absent: list[FieldLayout] = []
    for field in all_fields(cls, version):
        if not field.spec.versions.includes(version):
            if field.spec.required:
                raise SchemaError(f"{field} is absent in version {version} and needs a default")
            absent.append(field)
        elif field.spec.tag is None:
            fields.append(field)
        elif not flexible:
            raise SchemaError(f"{field} is tagged, but version {version} is not flexible")
        elif field.shape == RECORDS:
            raise SchemaError(f"{field} is tagged; records cannot be")
        elif isinstance(field.shape, type) and any(each.required for each in struct_spec(field.shape).fields.values()):
            raise SchemaError(f"{field} is tagged, so every field of {field.shape.__name__} needs a default")
        else:
            tags.append(field)
    tags.sort(key=lambda tag: tag.spec.tag or 0)
    return StructLayout(cls, version, flexible, tuple(fields), tuple(tags), tuple(absent))


def all_fields(cls: type, version: int) -> list[FieldLayout]:
    """The fields of ``cls`` as declared, whether or not ``version`` has them."""
    owner = cls.__name__
    fields = []
    for name, (shape, optional, field) in _resolved(cls).items():
        nullable = optional and (field.nullable is None or field.nullable.includes(version))
        # An absent tag stands for a null struct, unless the struct is declared nullable within its tag.
        marked = isinstance(shape, type) and nullable and (field.tag is None or field.nullable is not None)
        fields.append(FieldLayout(owner, name, shape, field, nullable, marked))
    return fields


@cache
def _resolved(cls: type) -> dict[str, tuple[Shape, bool, FieldSpec]]:
    """The fields of ``cls``, with their annotations read: shape, ``| None``, and the field's spec."""
    namespace = vars(sys.modules[cls.__module__])
    hints = typing.get_type_hints(cls, namespace, include_extras=True)
    fields = {}
    tags: set[int] = set()
    for name, field in struct_spec(cls).fields.items():
        where = f"{cls.__name__}.{name}"
        shape, optional = _shape(where, hints[name])
        if field.nullable is not None and not optional:
            raise SchemaError(f"{where} is nullable, but its type lacks '| None'")
        if field.tag is not None:
            if field.tag in tags:
                raise SchemaError(f"{where} has tag {field.tag}, which another field has too")
            tags.add(field.tag)
        fields[name] = (shape, optional, field)
    return fields


def _shape(where: str, hint: Any) -> tuple[Shape, bool]:
    """Read a type annotation: the shape, and whether it has ``| None``."""
    optional = False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [choice for choice in typing.get_args(hint) if choice is not type(None)]
        optional = len(rest) < len(typing.get_args(hint))
        if len(rest) == 1:
            hint = rest[0]
    if typing.get_origin(hint) is list:
        (inner,) = typing.get_args(hint)
        element, nullable = _shape(where, inner)
        if nullable or isinstance(element, Array) or element == RECORDS:
            raise SchemaError(f"{where}: a list of {inner} cannot be sent")
        return Array(element), optional
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, WireType):
            return extra, optional
    if isinstance(hint, type):
        struct_spec(hint)
        return hint, optional
    raise SchemaError(f"{where}: {hint} is neither a wire type, a struct, nor a list of one")
