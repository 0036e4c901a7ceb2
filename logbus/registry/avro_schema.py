"""
Parses Avro schemas into a graph of types, by the specification (avro.apache.org/docs/1.12.0/specification).

Two texts are the same schema if they differ only in white space, in the order of members, in whether names are fully
qualified, or in whether a primitive type is written as an object. Defaults, aliases and documentation make a
difference, since readers use them. (Avro's own "Parsing Canonical Form" drops them.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import define, frozen

from logbus.registry.errors import invalid_schema

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})

_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RANGES = {"int": 1 << 31, "long": 1 << 63}
"""Numbers of a type are from minus this, and less than this."""


@define(eq=False)
class AvroType:
    """
    A type; may contain itself through a record.

    :ivar kind: the name of a primitive type, ``array``, ``map``, ``union``, ``record``, ``enum`` or ``fixed``.
    :ivar name: the full name of a record, enum or fixed; aliases likewise.
    :ivar default: the default of an enum.
    :ivar element: the type of an array's items or a map's values.
    :ivar decimal: precision and scale, if the logical type is decimal.
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0
    element: AvroType | None = None
    branches: tuple[AvroType, ...] = ()
    decimal: tuple[int, int] | None = None

    @property
    def simple_name(self) -> str:
        """The name without its namespace; the kind of other types."""
        return self.name.rpartition(".")[2] or self.kind


@frozen
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    has_default: bool = False


@frozen
class AvroSchema:
    """
    A parsed schema.

    :ivar names: the records, enums and fixeds that it defines, by full name.
    :ivar normal: the normalized JSON.
    """

    type: AvroType
    names: Mapping[str, AvroType]
    normal: Any


_PLAIN = {kind: AvroType(kind) for kind in sorted(PRIMITIVES)}


def read_avro(value: Any, known: Mapping[str, AvroType]) -> AvroSchema:
    """
    Parse a schema's JSON.

    :param known: types that references define, by name.
    :raise RegistryRefusal: it is not a schema; the message says where.
    """
    reader = _Reader(dict(known), {})
    found, normal = reader.read(value, "", "the schema")
    return AvroSchema(found, reader.defined, normal)


@define
class _Reader:
    """Parses types in the order of the text, since names are visible from their definition on."""

    _known: dict[str, AvroType]
    defined: dict[str, AvroType]

    def read(self, value: Any, namespace: str, where: str) -> tuple[AvroType, Any]:
        """Return the type and its normal form."""
        if isinstance(value, str):
            return self._named(value, namespace, where)
        if isinstance(value, list):
            return self._union(value, namespace, where)
        if not isinstance(value, dict):
            raise invalid_schema(f"{where} is {value!r:.60}; a type is a name, an array (a union) or an object")
        kind = value.get("type")
        if not isinstance(kind, str):
            raise invalid_schema(f"{where} has no 'type' that is a name")
        rest = {name: each for name, each in value.items() if name not in ("name", "namespace", "type")}
        if kind in NAMED:
            return self._definition(kind, value, rest, namespace, where)
        if kind == "array" or kind == "map":
            member = "items" if kind == "array" else "values"
            if member not in value:
                raise invalid_schema(f"{where} is a type {kind!r} without {member!r}")
            element, normal = self.read(value[member], namespace, f"{where}[]" if kind == "array" else f"{where}{{}}")
            return AvroType(kind, element=element), {**rest, "type": kind, member: normal}
        found, normal = self._named(kind, namespace, where)
        if not rest:
            return found, normal
        if found.kind in PRIMITIVES:
            found = AvroType(found.kind, decimal=_decimal(value, found))
        return found, {**rest, "type": normal}

    def _named(self, name: str, namespace: str, where: str) -> tuple[AvroType, Any]:
        if name in PRIMITIVES:
            return _PLAIN[name], name
        for full in [name] if "." in name or not namespace else [f"{namespace}.{name}", name]:
            found = self._known.get(full)
            if found is not None:
                return found, full
        raise invalid_schema(
            f"{where} is of type {name[:100]!r}, which nothing before it defines; a type of another subject has to be "
            "among the references"
        )

    def _union(self, value: list[Any], namespace: str, where: str) -> tuple[AvroType, Any]:
        branches, normals = list[AvroType](), list[Any]()
        seen: set[str] = set()
        for each in value:
            branch, normal = self.read(each, namespace, where)
            name = branch.name or branch.kind
            if branch.kind == "union":
                raise invalid_schema(f"{where} is a union that has a union in it")
            if name in seen:
                raise invalid_schema(f"{where} is a union that has {name!r} twice")
            seen.add(name)
            branches.append(branch)
            normals.append(normal)
        if not branches:
            raise invalid_schema(f"{where} is a union of nothing")
        return AvroType("union", branches=tuple(branches)), normals

    def _definition(
        self, kind: str, value: dict[str, Any], rest: dict[str, Any], namespace: str, where: str
    ) -> tuple[AvroType, Any]:
        full = _full_name(value, namespace, where)
        if full in self._known:
            raise invalid_schema(f"{where} defines {full!r}, which is defined already")
        inner = full.rpartition(".")[0]
        made = AvroType("record" if kind == "error" else kind, name=full, aliases=_aliases(value, inner, where))
        self._known[full] = self.defined[full] = made
        normal = {**rest, "type": kind, "name": full}
        if kind == "enum":
            made.symbols, made.default = _symbols(value, full)
        elif kind == "fixed":
            made.size = _size(value, full)
            made.decimal = _decimal(value, made)
        else:
            normal["fields"] = self._fields(made, value.get("fields"), inner)
        return made, normal

    def _fields(self, record: AvroType, value: Any, namespace: str) -> list[Any]:
        if not isinstance(value, list):
            raise invalid_schema(f"the record {record.name!r} has no array of 'fields'")
        normals = list[Any]()
        fields: dict[str, AvroField] = {}
        for each in value:
            name = each.get("name") if isinstance(each, dict) else None
            if not isinstance(name, str) or not _SIMPLE.fullmatch(name):
                raise invalid_schema(f"a field of {record.name!r} has the name {name!r:.100}, which is none")
            where = f"{record.name}.{name}"
            if name in fields:
                raise invalid_schema(f"the field {where!r} is there twice")
            if "type" not in each:
                raise invalid_schema(f"the field {where!r} has no 'type'")
            found, normal = self.read(each["type"], namespace, where)
            if "default" in each and not is_value(each["default"], found):
                raise invalid_schema(
                    f"the default of {where!r} is {each['default']!r:.60}, which is no value of its type"
                )
            fields[name] = AvroField(name, found, _names(each.get("aliases", []), where), "default" in each)
            normals.append({**each, "type": normal})
        record.fields = tuple(fields.values())
        return normals


def is_value(value: Any, wanted: AvroType) -> bool:
    """Return whether a default is a value of a type, or of a branch of a union (Avro 1.12)."""
    match wanted.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            most = RANGES[wanted.kind]
            return isinstance(value, int) and not isinstance(value, bool) and -most <= value < most
        case "float" | "double":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "bytes":
            return isinstance(value, str) and all(ord(each) < 256 for each in value)
        case "fixed":
            return isinstance(value, str) and len(value) == wanted.size and all(ord(each) < 256 for each in value)
        case "enum":
            return value in wanted.symbols
        case "array":
            assert wanted.element is not None
            return isinstance(value, list) and all(is_value(each, wanted.element) for each in value)
        case "map":
            assert wanted.element is not None
            return isinstance(value, dict) and all(is_value(each, wanted.element) for each in value.values())
        case "union":
            return any(is_value(value, branch) for branch in wanted.branches)
    return isinstance(value, dict) and all(
        is_value(value[each.name], each.type) if each.name in value else each.has_default for each in wanted.fields
    )


def _full_name(value: dict[str, Any], namespace: str, where: str) -> str:
    name, own = value.get("name"), value.get("namespace")
    if not isinstance(name, str) or not (own is None or isinstance(own, str)):
        raise invalid_schema(f"{where} is a type {value['type']!r} whose name or namespace is no text")
    full = _qualified(name, namespace if own is None else own)
    if not all(_SIMPLE.fullmatch(part) for part in full.split(".")):
        raise invalid_schema(
            f"{where} has the name {full[:100]!r}; names are letters, digits and '_', with '.' between"
        )
    if full in PRIMITIVES:
        raise invalid_schema(f"{where} has the name {full!r}, which is a type of Avro's")
    return full


def _qualified(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _names(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise invalid_schema(f"the 'aliases' of {where!r} are no array of names")
    return tuple(value)


def _aliases(value: dict[str, Any], namespace: str, where: str) -> tuple[str, ...]:
    return tuple(_qualified(each, namespace) for each in _names(value.get("aliases", []), where))


def _symbols(value: dict[str, Any], name: str) -> tuple[tuple[str, ...], str | None]:
    symbols, default = value.get("symbols"), value.get("default")
    if not isinstance(symbols, list) or not all(isinstance(each, str) and _SIMPLE.fullmatch(each) for each in symbols):
        raise invalid_schema(f"the enum {name!r} has no array of 'symbols' that are names")
    if len(set(symbols)) != len(symbols):
        raise invalid_schema(f"the enum {name!r} has a symbol twice")
    if default is not None and default not in symbols:
        raise invalid_schema(f"the default of the enum {name!r} is {default!r:.60}, which is none of its symbols")
    return tuple(symbols), default


def _size(value: dict[str, Any], name: str) -> int:
    size = value.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
        raise invalid_schema(f"the fixed {name!r} has the 'size' {size!r:.60}; that is a number of bytes")
    return size


def _decimal(value: dict[str, Any], made: AvroType) -> tuple[int, int] | None:
    """Return precision and scale; None for an invalid decimal, which the specification has us ignore."""
    precision, scale = value.get("precision"), value.get("scale", 0)
    if value.get("logicalType") != "decimal" or made.kind not in ("bytes", "fixed"):
        return None
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or precision == 0:
        return None
    return precision, scale
