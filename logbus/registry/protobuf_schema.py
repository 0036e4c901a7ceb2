"""
Reads Protobuf schemas: the text of a ``.proto`` file, or its descriptor as base64, as Confluent's clients send it.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from logbus.registry.errors import invalid_schema
from logbus.registry.protobuf_compiler import compiled
from logbus.registry.protobuf_text import proto_string, proto_text

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


@frozen(eq=False)
class ProtobufFile:
    """
    A compiled schema.

    :ivar text: of the schema.
    :ivar files: FileDescriptorProto of each file, after those it imports; the last is the schema's, without a name.
    """

    text: str
    files: list[Any]

    @property
    def file(self) -> Any:
        """The schema's own FileDescriptorProto."""
        return self.files[-1]

    @property
    def serialized(self) -> str:
        """The schema's own FileDescriptorProto as base64; the same for texts that differ in form only."""
        return b64encode(self.file.SerializeToString(deterministic=True)).decode("ascii")


def read_protobuf(given: str, imports: Mapping[str, str]) -> ProtobufFile:
    """
    Compile a schema; blocks, so it is for a thread.

    :param given: its text, or its FileDescriptorProto as base64.
    :param imports: the texts of the files it may import, by name.
    :raise RegistryRefusal: it is not a schema; the message says where.
    """
    text = given
    if _BASE64.fullmatch(given.strip()):
        text = _text_of(given.strip(), imports)
    return ProtobufFile(text, compiled(text, imports))


def descriptor_of(serialized: str) -> Any:
    """
    Return the FileDescriptorProto of base64.

    :raise ValueError: it is none.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        return FileDescriptorProto.FromString(b64decode(serialized, validate=True))
    except DecodeError as e:
        raise ValueError(str(e)) from None


def pool_of(files: list[Any], name: str) -> Any:
    """
    Return a DescriptorPool with files, the last of which gets a name.

    :raise ValueError: they do not fit together.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    *others, last = files
    named = FileDescriptorProto()
    named.CopyFrom(last)
    named.name = name
    try:
        for each in [*others, named]:
            pool.Add(each)
        pool.FindFileByName(name)
    except (TypeError, KeyError) as e:
        raise ValueError(str(e)) from None
    return pool


def _text_of(serialized: str, imports: Mapping[str, str]) -> str:
    try:
        file = descriptor_of(serialized)
    except ValueError as e:
        raise invalid_schema(f"it is no text of a .proto file, nor a FileDescriptorProto in base64: {e}") from None
    if file.dependency:
        # Files it imports may define options, without which those in its own descriptor have no names.
        lines = "".join(f"import {proto_string(each)};\n" for each in file.dependency)
        *others, _ = compiled(f'syntax = "proto3";\n{lines}', imports)
        file = _with_options(file, others)
    try:
        return proto_text(file)
    except (ValueError, RecursionError) as e:
        raise invalid_schema(str(e)) from None


def _with_options(file: Any, others: list[Any]) -> Any:
    """Return the same descriptor, where options are known by the files that define them."""
    from google.protobuf.descriptor_pb2 import DESCRIPTOR
    from google.protobuf.message_factory import GetMessageClass

    if all(each.name != DESCRIPTOR.name for each in others):
        return file
    try:
        pool = pool_of([*others, file], "main.proto")
    except ValueError as e:
        raise invalid_schema(f"the FileDescriptorProto is not valid: {e}") from None
    kind = GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto"))
    return kind.FromString(file.SerializeToString())
