"""The files of a Protobuf schema, and their messages by place (:mod:`logbus.client.schema.message_place`)."""

from __future__ import annotations

import importlib
import re
from base64 import b64decode
from typing import Any

from attrs import frozen

from logbus.extras import install_hint
from logbus.pipeline import Missing
from logbus.pipeline.blocking.schema_registry import RegisteredSchema, RegistryClient
from logbus.pipeline.errors import OptionError
from logbus.pipeline.functions.column_function import Malformed

TYPE = "PROTOBUF"
_KNOWN = re.compile(r"google/protobuf/(compiler/)?[a-z_]+\.proto")
_DEEPEST = 40


@frozen
class ProtobufFiles:
    """
    A schema with all files that it needs; can be pickled.

    :ivar files: FileDescriptorProto of each as bytes, after those it imports; the schema's own is the last.
    """

    schema_id: int
    files: tuple[bytes, ...]

    @classmethod
    def of_one(cls, schema_id: int, text: str) -> ProtobufFiles:
        """
        A schema without the files that it imports, which is enough to know its messages by their places.

        :param text: its descriptor in base64.
        :raise OptionError: it is none.
        """
        return cls(schema_id, (_descriptor(schema_id, text).SerializeToString(),))

    def name_at(self, indexes: list[int]) -> str:
        """
        The full name of the message at a place.

        :raise Malformed: there is none.
        """
        file = _file(self.files[-1])
        names = [file.package] if file.package else []
        messages = file.message_type
        for index in indexes:
            if not 0 <= index < len(messages):
                raise Malformed(f"schema {self.schema_id} has no message at {'/'.join(map(str, indexes))}")
            names.append(messages[index].name)
            messages = messages[index].nested_type
        return ".".join(names)

    def place_of(self, name: str) -> list[int]:
        """
        The place of a message.

        :param name: with the package or without; "": the first one.
        :raise OptionError: there is none of that name.
        """
        file = _file(self.files[-1])
        places: dict[str, list[int]] = {}

        def add(messages: Any, prefix: str, within: list[int]) -> None:
            for index, each in enumerate(messages):
                if not each.options.map_entry:
                    places[prefix + each.name] = [*within, index]
                    add(each.nested_type, f"{prefix}{each.name}.", [*within, index])

        add(file.message_type, "", [])
        wanted = name or next(iter(places), "")
        found = places.get(wanted, places.get(wanted.removeprefix(f"{file.package}.")))
        if found is None:
            raise OptionError(f"the schema has no message {name!r}; it has {', '.join(sorted(places)) or 'none'}")
        return found

    def message_class(self, name: str) -> Any:
        """The class of a message, by its full name."""
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.message_factory import GetMessageClass

        pool = DescriptorPool()
        try:
            for each in self.files:
                pool.AddSerializedFile(each)
            return GetMessageClass(pool.FindMessageTypeByName(name))
        except (TypeError, KeyError) as e:
            raise OptionError(f"the files of schema {self.schema_id} do not fit together: {e}") from None


def protobuf_files(registry: RegistryClient, found: RegisteredSchema) -> ProtobufFiles:
    """
    A schema with the files that it imports, which are requested.

    :raise Missing: protobuf is not installed.
    :raise OptionError: the schema is no descriptor, or imports what is unknown.
    :raise RegistryFailed: the registry does not have a file, or does not answer.
    """
    files: dict[str, bytes] = {}
    _add(registry, found, f"schema-{found.schema_id}.proto", files, 0)
    return ProtobufFiles(found.schema_id, tuple(files.values()))


def _add(registry: RegistryClient, found: RegisteredSchema, name: str, files: dict[str, bytes], depth: int) -> None:
    if depth > _DEEPEST:
        raise OptionError(f"schema {found.schema_id} imports files more than {_DEEPEST} deep")
    file = _descriptor(found.schema_id, found.text)
    references = {each.name: each for each in found.references}
    for wanted in file.dependency:
        if wanted in files:
            continue
        if wanted in references:
            each = references[wanted]
            _add(registry, registry.version(each.subject, each.version, TYPE), wanted, files, depth + 1)
        else:
            _add_known(wanted, files, found.schema_id)
    file.name = name
    files[name] = file.SerializeToString()


def _add_known(name: str, files: dict[str, bytes], schema_id: int) -> None:
    """Add a file that everybody has, such as ``google/protobuf/timestamp.proto``."""
    try:
        if not _KNOWN.fullmatch(name):
            raise ImportError
        descriptor = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2").DESCRIPTOR
    except ImportError:
        raise OptionError(f"schema {schema_id} imports {name!r}, which is not among its references") from None
    for each in descriptor.dependencies:
        if each.name not in files:
            _add_known(each.name, files, schema_id)
    files[name] = descriptor.serialized_pb


def _descriptor(schema_id: int, text: str) -> Any:
    try:
        return _file(b64decode(text, validate=True))
    except ValueError as e:
        raise OptionError(f"schema {schema_id} is no descriptor in base64: {e}") from None


def _file(data: bytes) -> Any:
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.message import DecodeError
    except ImportError:
        raise Missing(f"Protobuf needs protobuf, which is not installed: {install_hint('protobuf')}") from None
    try:
        return FileDescriptorProto.FromString(data)
    except DecodeError as e:
        raise ValueError(str(e)) from None
