"""
Compatibility of Protobuf schemas (protobuf.dev/programming-guides/proto3, "Updating A Message Type").

The outcome is that of Confluent's registry, save for packed numbers, which are lost to a reader that expects a single
one. Fields are matched by number, and messages by name. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, field, frozen

from logbus.registry.protobuf_text import ENUM, GROUP, MESSAGE, REPEATED, REQUIRED, TYPES, map_entry

_ALIKE = (
    frozenset({"int32", "int64", "uint32", "uint64", "bool", "enum"}),
    frozenset({"sint32", "sint64"}),
    frozenset({"string", "bytes"}),
    frozenset({"fixed32", "sfixed32"}),
    frozenset({"fixed64", "sfixed64"}),
)
"""Types that can be read as each other."""
_NEVER_PACKED = frozenset({"string", "bytes", "message", "group", "map"})

LEGACY_REQUIRED, DELIMITED, EXPANDED = 3, 2, 2
"""Features of a field in editions: its presence, its encoding, and that it is not packed."""


def incompatibilities(reader: list[Any], writer: list[Any]) -> list[str]:
    """
    Return why data written with one schema cannot be read with another; empty if it can.

    :param reader: FileDescriptorProto of each file, of which the last is the schema's own; ``writer`` likewise.
    """
    return list(_Comparison(_Side.of(reader), _Side.of(writer)).problems())


@frozen
class _Message:
    """A message; its path is its name without the package."""

    path: str
    descriptor: Any
    file: Any


@frozen(eq=False)
class _Side:
    """A schema, with all messages by their full names, which begin with a dot."""

    file: Any
    messages: Mapping[str, _Message]

    @classmethod
    def of(cls, files: list[Any]) -> _Side:
        messages: dict[str, _Message] = {}
        for file in files:
            package = f".{file.package}" if file.package else ""
            waiting = [("", each) for each in file.message_type]
            while waiting:
                outer, each = waiting.pop()
                path = f"{outer}{each.name}"
                messages[f"{package}.{path}"] = _Message(path, each, file)
                waiting += [(f"{path}.", nested) for nested in each.nested_type]
        return cls(files[-1], messages)


@define(eq=False)
class _Comparison:
    """
    Compares each pair of messages once: they may contain themselves.

    :ivar nested: the messages beside the fields of each, by name.
    """

    reader: _Side
    writer: _Side
    pairs: dict[tuple[int, int], tuple[_Message, _Message]] = field(factory=dict)
    nested: dict[int, dict[str, Any]] = field(factory=dict)

    def problems(self) -> Iterator[str]:
        reader, writer = self.reader.file, self.writer.file
        if reader.package != writer.package:
            yield f"the package written is {writer.package!r}, and the package read is {reader.package!r}"
        yield from self.types("", reader, reader.message_type, writer, writer.message_type)
        done = 0
        while done < len(self.pairs):
            for one, other in list(self.pairs.values())[done:]:
                done += 1
                yield from self.message(one, other)

    def pair(self, reader: _Message, writer: _Message) -> None:
        self.pairs.setdefault((id(reader.descriptor), id(writer.descriptor)), (reader, writer))

    def map_entry(self, one: Any, message: _Message) -> Any:
        """Return the type of a map field's entries; None: it is no map."""
        siblings = self.nested.get(id(message.descriptor))
        if siblings is None:
            siblings = self.nested[id(message.descriptor)] = {
                each.name: each for each in message.descriptor.nested_type
            }
        return map_entry(one, siblings)

    def types(self, path: str, reader_file: Any, reader: Any, writer_file: Any, writer: Any) -> Iterator[str]:
        there = {each.name: each for each in reader}
        for each in writer:
            found = there.get(each.name)
            if found is not None:
                name = f"{path}{each.name}"
                self.pair(_Message(name, found, reader_file), _Message(name, each, writer_file))
            elif not each.options.map_entry:
                yield f"{path}{each.name}: the message is written, and the reader does not have it"

    def message(self, reader: _Message, writer: _Message) -> Iterator[str]:
        path, new, old = writer.path, reader.descriptor, writer.descriptor
        if new.options.map_entry or old.options.map_entry:
            return
        yield from self.oneofs(path, new, old)
        fields, before = {each.number: each for each in new.field}, {each.number: each for each in old.field}
        for number in sorted({*fields, *before}):
            one, other = fields.get(number), before.get(number)
            if one is None and other is not None:
                if _is_required(other):
                    yield f"{path}.{other.name}: field {number} is required where written, and the reader lacks it"
            elif other is None and one is not None:
                if _is_required(one):
                    yield f"{path}.{one.name}: field {number} is required by the reader, and is not written"
            elif one is not None and other is not None:
                yield from self.field(f"{path}.{other.name}: field {number}", reader, one, writer, other)
        yield from self.types(f"{path}.", reader.file, new.nested_type, writer.file, old.nested_type)

    def oneofs(self, path: str, new: Any, old: Any) -> Iterator[str]:
        of, before = _oneofs(new), _oneofs(old)
        numbers = {each.number for each in new.field}
        alone = {each.number for each in old.field} - before.keys()
        members_of: dict[str, list[int]] = {}
        for number, name in of.items():
            members_of.setdefault(name, []).append(number)
        for oneof in new.oneof_decl:
            members = members_of.get(oneof.name, [])  # none: protoc made it, for a field that is optional in proto3
            single = [number for number in members if number in alone]
            if len(single) > 1:
                text = ", ".join(map(str, sorted(single)))
                yield f"{path}.{oneof.name}: the fields {text} may be written at once, but not read"
            elif single and any(number in before for number in members):
                yield f"{path}.{oneof.name}: field {single[0]} may be written beside others that it excludes where read"
        kept = {each.name for each in new.oneof_decl}
        for number, name in sorted(before.items()):
            if name in kept and number not in numbers:
                yield f"{path}.{name}: field {number} of the oneof is written, and the reader does not have it"

    def field(self, path: str, reader: _Message, one: Any, writer: _Message, other: Any) -> Iterator[str]:
        entry, before = self.map_entry(one, reader), self.map_entry(other, writer)
        new, old = "map" if entry is not None else _kind(one), "map" if before is not None else _kind(other)
        if new == old == "map":
            for what, of, was in zip(("key", "value"), _sides(entry), _sides(before), strict=True):
                yield from self.values(f"{path}: its {what}", _kind(of), of, _kind(was), was)
            return
        yield from self.values(path, new, one, old, other)
        if other.label == REPEATED != one.label and old not in _NEVER_PACKED and _is_packed(other, writer.file):
            yield f"{path} is written as packed numbers, which a field that is not repeated cannot read"

    def values(self, path: str, new: str, one: Any, old: str, other: Any) -> Iterator[str]:
        if new == old == "message" or new == old == "group":
            reader, writer = self.reader.messages[one.type_name], self.writer.messages[other.type_name]
            if reader.path == writer.path:
                self.pair(reader, writer)
            else:
                yield f"{path} is written as the message {writer.path}, and read as {reader.path}"
        elif new != old and not any(new in each and old in each for each in _ALIKE):
            yield f"{path} is written as {old}, and read as {new}"


def _kind(one: Any) -> str:
    """Return the type of a field that is no map: ``message``, ``group``, ``enum``, or the name of a plain type."""
    if one.type == MESSAGE:
        return "group" if one.options.features.message_encoding == DELIMITED else "message"
    return {GROUP: "group", ENUM: "enum"}.get(one.type) or TYPES[one.type]


def _sides(entry: Any) -> list[Any]:
    return sorted(entry.field, key=lambda each: each.number)


def _oneofs(message: Any) -> dict[int, str]:
    """Return the oneofs that fields are in, by number."""
    return {
        each.number: message.oneof_decl[each.oneof_index].name
        for each in message.field
        if each.HasField("oneof_index") and not each.proto3_optional
    }


def _is_required(one: Any) -> bool:
    return bool(one.label == REQUIRED or one.options.features.field_presence == LEGACY_REQUIRED)


def _is_packed(one: Any, file: Any) -> bool:
    if one.options.HasField("packed"):
        return bool(one.options.packed)
    if file.syntax == "editions":
        features = one.options.features, file.options.features
        return all(each.repeated_field_encoding != EXPANDED for each in features)
    return bool(file.syntax == "proto3")
