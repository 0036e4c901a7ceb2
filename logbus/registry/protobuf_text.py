"""
Writes the descriptor of a Protobuf file as the text of a ``.proto`` file (protobuf.dev/reference/protobuf/proto3-spec).

Only what is in the descriptor: no comments. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import define, frozen

TYPES = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}
"""The types without a name of their own, by their numbers in FieldDescriptorProto."""
STRING, GROUP, MESSAGE, BYTES, ENUM = 9, 10, 11, 12, 14
OPTIONAL, REQUIRED, REPEATED = 1, 2, 3

HIGHEST_FIELD, HIGHEST_VALUE = (1 << 29) - 1, (1 << 31) - 1


def proto_text(file: Any) -> str:
    """
    Return the text of a FileDescriptorProto.

    :raise ValueError: it has what no text has: an option that is not interpreted, or a group without its type.
    """
    return "\n".join(_Writer(file).lines()) + "\n"


def proto_string(value: str) -> str:
    """Return a text as a string literal."""
    return _quoted(value.encode("utf-8", "surrogatepass"), keep=True)


def map_entry(field: Any, siblings: Mapping[str, Any]) -> Any:
    """
    Return the type of a map field's entries; None: it is no map.

    :param siblings: the messages beside the field, by name.
    """
    if field.type != MESSAGE or field.label != REPEATED:
        return None
    found = siblings.get(field.type_name.rpartition(".")[2])
    return found if found is not None and found.options.map_entry else None


@define
class _Messages:
    """
    Messages beside fields, some of which the fields define: the entries of maps, and groups.

    The order of messages must stay, since a value names its message by the place that this has among them.
    """

    messages: list[Any]
    defined: set[str]
    by_name: dict[str, Any]
    places: dict[str, int]
    at: int = 0

    @classmethod
    def of(cls, messages: Iterable[Any], fields: Iterable[Any]) -> _Messages:
        found = list(messages)
        defined = {each.name for each in found if each.options.map_entry} | _groups(fields)
        by_name = {each.name: each for each in found}
        return cls(found, defined, by_name, {each.name: index for index, each in enumerate(found)})

    def before(self, fields: Iterable[Any]) -> Iterator[Any]:
        """Yield the messages that come before those that fields define."""
        names = {each.type_name.rpartition(".")[2] for each in fields} & self.defined
        return self._until(max((self.places.get(name, -1) for name in names), default=-1) + 1)

    def rest(self) -> Iterator[Any]:
        return self._until(len(self.messages))

    def _until(self, end: int) -> Iterator[Any]:
        while self.at < end:
            self.at += 1
            if self.messages[self.at - 1].name not in self.defined:
                yield self.messages[self.at - 1]


@frozen
class _Writer:
    file: Any

    @property
    def syntax(self) -> str:
        return self.file.syntax or "proto2"

    def lines(self) -> Iterator[str]:
        file = self.file
        if self.syntax == "editions":
            edition = file.DESCRIPTOR.fields_by_name["edition"].enum_type.values_by_number.get(file.edition)
            if edition is None:
                raise ValueError(f"the edition {file.edition} is unknown")
            yield f'edition = "{edition.name.removeprefix("EDITION_")}";'
        else:
            yield f"syntax = {proto_string(self.syntax)};"
        if file.package:
            yield f"package {file.package};"
        for index, name in enumerate(file.dependency):
            how = "public " if index in file.public_dependency else "weak " if index in file.weak_dependency else ""
            yield f"import {how}{proto_string(name)};"
        yield from self.options(file.options)
        for enum in file.enum_type:
            yield from self.enum(enum)
        waiting = _Messages.of(file.message_type, file.extension)
        yield from self.extensions(file.extension, waiting)
        yield from self.messages(waiting.rest())
        for service in file.service:
            yield f"service {service.name} {{"
            yield from _indented(self.service(service))
            yield "}"

    def message(self, head: str, message: Any) -> Iterator[str]:
        yield f"{head} {{"
        yield from _indented(self.members(message))
        yield "}"

    def members(self, message: Any) -> Iterator[str]:
        yield from self.options(message.options)
        for enum in message.enum_type:
            yield from self.enum(enum)
        waiting = _Messages.of(message.nested_type, [*message.field, *message.extension])
        written: set[int] = set()
        siblings = waiting.by_name
        members_of: dict[int, list[Any]] = {}
        for field in message.field:
            if field.HasField("oneof_index"):
                members_of.setdefault(field.oneof_index, []).append(field)
        for field in message.field:
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield from self.messages(waiting.before([field]))
                yield from self.field(field, siblings)
            elif field.oneof_index not in written:
                written.add(field.oneof_index)
                if field.oneof_index >= len(message.oneof_decl):
                    raise ValueError(f"the field {field.name[:100]!r} is in a oneof that is missing")
                oneof = message.oneof_decl[field.oneof_index]
                members = members_of[field.oneof_index]
                yield from self.messages(waiting.before(members))
                yield f"oneof {oneof.name} {{"
                yield from _indented(self.options(oneof.options))
                for each in members:
                    yield from _indented(self.field(each, siblings, in_oneof=True))
                yield "}"
        for each in message.extension_range:
            yield f"extensions {_range(each.start, each.end - 1, HIGHEST_FIELD)}{self.bracket(each.options)};"
        yield from self.extensions(message.extension, waiting)
        yield from self.messages(waiting.rest())
        yield from self.reserved(
            [_range(each.start, each.end - 1, HIGHEST_FIELD) for each in message.reserved_range], message.reserved_name
        )

    def field(self, field: Any, siblings: Mapping[str, Any], in_oneof: bool = False) -> Iterator[str]:
        entry = map_entry(field, siblings)
        label = self.label(field) if entry is None and not in_oneof else ""
        more = []
        if field.HasField("default_value"):
            more.append(f"default = {_default(field)}")
        if field.json_name and field.json_name != _json_name(field.name):
            more.append(f"json_name = {proto_string(field.json_name)}")
        tail = f" = {field.number}{self.bracket(field.options, more)}"
        if field.type == GROUP:
            name = field.type_name.rpartition(".")[2]
            group = siblings.get(name)
            if group is None:
                raise ValueError(f"the group {name[:100]!r} has no type beside it")
            yield from self.message(f"{label}group {name}{tail}", group)
        elif entry is not None:
            kinds = ", ".join(_type(each) for each in sorted(entry.field, key=lambda one: one.number))
            yield f"map<{kinds}> {field.name}{tail};"
        else:
            yield f"{label}{_type(field)} {field.name}{tail};"

    def label(self, field: Any) -> str:
        if field.label == REPEATED:
            return "repeated "
        if self.syntax == "proto2":
            return "required " if field.label == REQUIRED else "optional "
        return "optional " if field.proto3_optional else ""

    def enum(self, enum: Any) -> Iterator[str]:
        yield f"enum {enum.name} {{"
        yield from _indented(self.options(enum.options))
        for each in enum.value:
            yield f"  {each.name} = {each.number}{self.bracket(each.options)};"
        ranges = [_range(each.start, each.end, HIGHEST_VALUE) for each in enum.reserved_range]
        yield from _indented(self.reserved(ranges, enum.reserved_name))
        yield "}"

    def reserved(self, ranges: list[str], names: Any) -> Iterator[str]:
        if ranges:
            yield f"reserved {', '.join(ranges)};"
        if names:
            yield f"reserved {', '.join(names if self.syntax == 'editions' else map(proto_string, names))};"

    def messages(self, messages: Iterable[Any]) -> Iterator[str]:
        for each in messages:
            yield from self.message(f"message {each.name}", each)

    def extensions(self, fields: Any, waiting: _Messages) -> Iterator[str]:
        for field in fields:
            yield from self.messages(waiting.before([field]))
            yield f"extend {field.extendee} {{"
            yield from _indented(self.field(field, waiting.by_name))
            yield "}"

    def service(self, service: Any) -> Iterator[str]:
        yield from self.options(service.options)
        for each in service.method:
            takes = f"{'stream ' if each.client_streaming else ''}{each.input_type}"
            returns = f"{'stream ' if each.server_streaming else ''}{each.output_type}"
            head = f"rpc {each.name}({takes}) returns ({returns})"
            options = list(self.options(each.options))
            yield from [f"{head} {{", *_indented(options), "}"] if options else [f"{head};"]

    def options(self, options: Any) -> Iterator[str]:
        for each in _options(options):
            yield f"option {each};"

    def bracket(self, options: Any, more: Iterable[str] = ()) -> str:
        found = [*more, *_options(options)]
        return f" [{', '.join(found)}]" if found else ""


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _groups(fields: Iterable[Any]) -> set[str]:
    return {each.type_name.rpartition(".")[2] for each in fields if each.type == GROUP}


def _type(field: Any) -> str:
    name: str = TYPES.get(field.type) or field.type_name
    if not name:
        raise ValueError(f"the field {field.name[:100]!r} has no type")
    return name


def _range(first: int, last: int, highest: int) -> str:
    return str(first) if first == last else f"{first} to {'max' if last >= highest else last}"


def _default(field: Any) -> str:
    value: str = field.default_value
    if field.type == STRING:
        return proto_string(value)
    # The default of bytes is escaped in the descriptor, too.
    return f'"{value}"' if field.type == BYTES else value


def _json_name(name: str) -> str:
    """Return the name in JSON that protoc gives a field by default."""
    first, *rest = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in rest)


def _options(options: Any) -> Iterator[str]:
    for field, value in options.ListFields():
        if field.name == "uninterpreted_option":
            raise ValueError("the descriptor has options that are not interpreted")
        name = f"({field.full_name})" if field.is_extension else field.name
        for each in value if field.is_repeated else [value]:
            yield f"{name} = {_value(field, each)}"


def _value(field: Any, value: Any) -> str:
    if field.type == MESSAGE or field.type == GROUP:
        return "{ " + " ".join(_aggregate(value)) + " }"
    if field.type == ENUM:
        found = field.enum_type.values_by_number.get(value)
        return found.name if found is not None else str(value)
    if field.type == STRING:
        return proto_string(value)
    if field.type == BYTES:
        return _quoted(value)
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _aggregate(message: Any) -> Iterator[str]:
    for field, value in message.ListFields():
        name = f"[{field.full_name}]" if field.is_extension else field.name
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, of = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            for each in sorted(value):
                yield f"{name}: {{ key: {_value(key, each)} value: {_value(of, value[each])} }}"
        else:
            for each in value if field.is_repeated else [value]:
                yield f"{name}: {_value(field, each)}"


def _quoted(data: bytes, keep: bool = False) -> str:
    """Return bytes as a literal; ``keep`` characters beyond ASCII."""
    found = bytearray(b'"')
    for byte in data:
        if byte in b'"\\':
            found += b"\\%c" % byte
        elif 32 <= byte < 127 or (keep and byte >= 128):
            found.append(byte)
        else:
            found += b"\\%03o" % byte
    return (found + b'"').decode("utf-8", "surrogatepass")
