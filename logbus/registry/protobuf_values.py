"""
Protobuf values as people read and write them: in canonical JSON (protobuf.dev/programming-guides/json).

For display, of schemas and values that anybody may have sent, so the length of a value, the values within it and their
depth are bounded.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

from attrs import define

from logbus.client.schema.message_place import read_place, written_place
from logbus.registry.protobuf_schema import pool_of

MOST_BYTES = 131_072
MOST_VALUES = 5000
"""Values within a value; writing so many takes some milliseconds."""
MESSAGE = 3
"""What a message counts, which takes longer than a number."""
DEEPEST = 40

_KNOWN = re.compile(r"google/protobuf/(compiler/)?[a-z_]+\.proto")
_FILE = "value.proto"


def message_reader(files: list[Any]) -> Callable[[bytes], Any]:
    """
    Return what reads values in Confluent's format, without the schema's id: the place of the message, and its bytes.

    :param files: FileDescriptorProto of each file, after those it imports; values are of messages of the last.
    :return: makes JSON of a value, or raises ValueError.
    :raise ValueError: the files do not fit together.
    """
    from google.protobuf.message_factory import GetMessageClass

    pool = pool_of(files, _FILE)
    file = files[-1]

    def read(data: bytes) -> Any:
        if len(data) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES} bytes")
        indexes, at = read_place(data)
        kind = GetMessageClass(pool.FindMessageTypeByName(message_name(file, indexes)))
        return _json(_parsed(kind, data[at:]), pool)

    return read


def message_writer(files: list[Any]) -> Callable[[Any], bytes]:
    """
    Return what makes values in Confluent's format, without the schema's id, of JSON.

    :param files: as for :func:`message_reader`; values are of the first message of the last.
    :return: raises ValueError, if JSON is no message.
    :raise ValueError: the files do not fit together, or there is no message.
    """
    from google.protobuf.json_format import ParseDict, ParseError
    from google.protobuf.message_factory import GetMessageClass

    pool = pool_of(files, _FILE)
    name = message_name(files[-1], [0])
    kind = GetMessageClass(pool.FindMessageTypeByName(name))

    def write(value: Any) -> bytes:
        if not isinstance(value, dict):  # ParseDict takes an empty list for a message
            raise ValueError(f"it is no message {name}: it is no JSON object")
        try:
            message = ParseDict(value, kind(), descriptor_pool=pool)
            return written_place([0]) + message.SerializeToString()  # type: ignore[no-any-return]
        except (ParseError, ValueError, TypeError, AttributeError, RecursionError) as e:
            raise ValueError(f"it is no message {name}: {e}") from None

    return write


def known_files(name: str) -> list[Any]:
    """
    Return the FileDescriptorProto of a file that everybody has, after those it imports.

    :raise ValueError: there is none of that name.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if not _KNOWN.fullmatch(name):
        raise ValueError(f"it imports {name[:100]!r}, which is not among its references")
    try:
        descriptor = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2").DESCRIPTOR
    except ImportError:
        raise ValueError(f"it imports {name[:100]!r}, which is unknown") from None
    file = FileDescriptorProto()
    descriptor.CopyToProto(file)
    return [*(found for each in file.dependency for found in known_files(each)), file]


def message_name(file: Any, indexes: list[int]) -> str:
    """
    Return the full name of the message at a place in a FileDescriptorProto.

    :raise ValueError: there is none.
    """
    names = [file.package] if file.package else []
    messages = file.message_type
    for index in indexes:
        if not 0 <= index < len(messages):
            raise ValueError(f"the schema has no message at {'/'.join(map(str, indexes))}")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


def _parsed(kind: Any, data: bytes) -> Any:
    from google.protobuf.message import DecodeError

    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as e:
        raise ValueError(f"it is no message {kind.DESCRIPTOR.full_name}: {e}") from None
    return message


def _json(message: Any, pool: Any) -> Any:
    from google.protobuf.json_format import Error, MessageToDict

    _Bounds(pool).check(message, 0)
    try:
        return MessageToDict(message, descriptor_pool=pool)
    except (Error, ValueError, TypeError, OverflowError, RecursionError) as e:
        raise ValueError(f"it has no JSON: {e}") from None


@define
class _Bounds:
    pool: Any
    values: int = 0

    def count(self, more: int) -> None:
        self.values += more
        if self.values > MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES} values")

    def check(self, message: Any, depth: int) -> None:
        """
        Check the number of values and their depth.

        :raise ValueError: there are too many, or they are too deep.
        """
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        self.count(MESSAGE)
        if message.DESCRIPTOR.full_name == "google.protobuf.Any":
            self.check(self.unpacked(message), depth + 1)
        for field, value in message.ListFields():
            of = field.message_type
            if of is not None and of.GetOptions().map_entry:
                self.count(len(value))
                if of.fields_by_name["value"].message_type is not None:
                    for each in value.values():
                        self.check(each, depth + 1)
            elif of is None:
                self.count(len(value) if field.is_repeated else 1)
            else:
                for each in value if field.is_repeated else [value]:
                    self.check(each, depth + 1)

    def unpacked(self, message: Any) -> Any:
        from google.protobuf.message_factory import GetMessageClass

        name = message.type_url.rpartition("/")[2]
        try:
            kind = self.pool.FindMessageTypeByName(name)
        except KeyError:
            raise ValueError(f"it has a message {name[:100]!r} in it, which its schema does not know") from None
        return _parsed(GetMessageClass(kind), message.value)
