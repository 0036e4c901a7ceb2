"""
Protobuf values as columns, and back.

A value's bytes are read with the message of the columns, as Protobuf resolves schemas: by the numbers of fields. Its
writer's schema says only which message it is; a worker requests it once.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from attrs import define, field

from logbus.client.schema.message_place import read_place, written_place
from logbus.client.schema.schema_frame import frame, unframe
from logbus.client.serializers import SerializationError
from logbus.pipeline.blocking.schema_registry import NoSuchSchema, RegistryClient
from logbus.pipeline.errors import OptionError
from logbus.pipeline.functions.column_function import WRITING, Convert, Malformed, column_function
from logbus.pipeline.functions.protobuf_files import TYPE, ProtobufFiles, protobuf_files
from logbus.pipeline.functions.protobuf_types import reader_of, spark_type, writer_of
from logbus.pipeline.functions.reading_schema import (
    FAILFAST,
    LATEST,
    checked_mode,
    client_of,
    reading_schema,
    writing_schema,
)
from logbus.pipeline.functions.writer_schemas import WriterSchemas

if TYPE_CHECKING:
    from pyspark.sql import Column

_KEPT = 64
_ID_BYTES = 5


def from_protobuf(
    data: Column | str,
    registry: RegistryClient | str,
    subject: str,
    *,
    message: str = "",
    version: int | str = LATEST,
    mode: str = FAILFAST,
) -> Column:
    """
    Decode Protobuf values in the registry's wire format.

    :param data: a binary column.
    :param registry: or its URL.
    :param subject: whose ``version`` is the schema of the column, such as ``ships-value``.
    :param message: its name, where the schema has several; default: the first one.
    :param mode: ``FAILFAST``: a value that cannot be read, or of another message, ends the query; ``PERMISSIVE``: it
        becomes null.
    :return: a struct; see :mod:`~logbus.pipeline.functions.protobuf_types`.
    :raise OptionError: there is no such message, or it has types that columns cannot have.
    :raise RegistryFailed: the registry does not have the schema, or does not answer.
    """
    client = client_of(registry)
    files = protobuf_files(client, reading_schema(client, TYPE, subject, version, ""))
    name = files.name_at(files.place_of(message))
    result = spark_type(files.message_class(name).DESCRIPTOR)
    prepared = partial(protobuf_decoder, client, files, name)
    return column_function("from_protobuf", prepared, result, checked_mode(mode))(data)


def to_protobuf(
    data: Column | str,
    registry: RegistryClient | str,
    subject: str,
    *,
    message: str = "",
    version: int | str = LATEST,
    schema: str = "",
    register: bool = False,
) -> Column:
    """
    Encode values as Protobuf, in the registry's wire format. A field is matched by its name; nulls are not set.

    :param data: a struct.
    :param registry: or its URL.
    :param subject: whose ``version`` the values are written with, such as ``ships-value``.
    :param message: its name, where the schema has several; default: the first one.
    :param schema: the text of a ``.proto`` file, which must be one of the subject's.
    :param register: register ``schema`` first.
    :return: a binary column.
    :raise OptionError: there is no such message.
    :raise RegistryFailed: the registry does not have the schema, refuses it, or does not answer.
    """
    from pyspark.sql.types import BinaryType

    client = client_of(registry)
    files = protobuf_files(client, writing_schema(client, TYPE, subject, version, schema, register))
    place = files.place_of(message)
    prepared = partial(protobuf_encoder, files, files.name_at(place))
    return column_function("to_protobuf", prepared, BinaryType(), WRITING)(data)


@lru_cache(_KEPT)
def protobuf_decoder(registry: RegistryClient, files: ProtobufFiles, name: str) -> Convert:
    """This process's decoder for a message of the columns, with the writers' schemas that it has seen."""
    return ProtobufDecoder(registry, files, name).decode


@lru_cache(_KEPT)
def protobuf_encoder(files: ProtobufFiles, name: str) -> Convert:
    """This process's encoder for a message."""
    from google.protobuf.message import EncodeError

    kind = files.message_class(name)
    fill = writer_of(kind.DESCRIPTOR)
    place = written_place(files.place_of(name))

    def encode(value: Any) -> bytes:
        message = kind()
        fill(message, value)
        try:
            return frame(files.schema_id, place + message.SerializeToString())
        except EncodeError as e:
            raise Malformed(str(e)) from None

    return encode


@define(eq=False)
class ProtobufDecoder:
    """
    Decodes values.

    :param registry: is asked once for each writer's schema.
    :param files: of the columns' schema.
    :param name: of its message.
    """

    registry: RegistryClient
    files: ProtobufFiles
    name: str
    _kind: Any = field(init=False)
    _read: Convert = field(init=False)
    _writers: WriterSchemas = field(factory=WriterSchemas, init=False)
    _heads: set[bytes] = field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self._kind = self.files.message_class(self.name)
        self._read = reader_of(self._kind.DESCRIPTOR)

    def decode(self, data: bytes) -> Any:
        """
        Decode a value.

        :raise Malformed: it cannot be read, or is of another message.
        :raise RegistryFailed: the registry does not answer.
        """
        from google.protobuf.message import DecodeError

        at = self._message_at(data)
        try:
            message = self._kind.FromString(data[at:])
        except DecodeError as e:
            raise Malformed(f"it is no message {self.name}: {e}") from None
        return self._read(message)

    def _message_at(self, data: bytes) -> int:
        """The position at which the message begins."""
        # Mostly the first message of a schema that was seen before.
        head = data[: _ID_BYTES + 1]
        if head in self._heads:
            return _ID_BYTES + 1
        try:
            schema_id, _ = unframe("", data)
        except SerializationError:
            raise Malformed(f"{data[:8]!r} does not begin with a byte 0 and a schema's id in four bytes") from None
        writer = self._writers.get(schema_id, lambda: self._requested(schema_id))
        try:
            place, at = read_place(data, _ID_BYTES)
        except ValueError as e:
            raise Malformed(str(e)) from None
        name = writer.name_at(place)
        if name != self.name:
            raise Malformed(f"it is a message {name} of schema {schema_id}, not {self.name}")
        if at == _ID_BYTES + 1:
            self._heads.add(head)
        return at

    def _requested(self, schema_id: int) -> ProtobufFiles:
        if schema_id == self.files.schema_id:
            return self.files
        try:
            found = self.registry.find(schema_id, TYPE)
            # What it imports does not matter: only the names of its own messages do.
            return ProtobufFiles.of_one(schema_id, found.text)
        except (OptionError, NoSuchSchema) as e:
            raise Malformed(f"schema {schema_id}: {e}") from None
