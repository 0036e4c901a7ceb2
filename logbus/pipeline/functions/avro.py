"""
Avro values as columns, and back.

A value is read with its writer's schema from the registry, and resolved to the schema of the columns (Avro
specification, "Schema Resolution").
"""

from __future__ import annotations

import json
from functools import lru_cache, partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from attrs import define, field

from logbus.client.schema.schema_frame import frame, unframe
from logbus.client.serializers import SerializationError
from logbus.extras import install_hint
from logbus.pipeline import Missing
from logbus.pipeline.blocking.schema_registry import NoSuchSchema, RegisteredSchema, RegistryClient
from logbus.pipeline.errors import OptionError
from logbus.pipeline.functions.avro_fit import fit_check
from logbus.pipeline.functions.column_function import WRITING, Convert, Malformed, column_function
from logbus.pipeline.functions.reading_schema import (
    FAILFAST,
    LATEST,
    checked_mode,
    client_of,
    reading_schema,
    writing_schema,
)
from logbus.pipeline.functions.writer_schemas import WriterSchemas
from logbus.pipeline.payloads.avro_types import known_logical_types, spark_schema, type_conflict

if TYPE_CHECKING:
    from pyspark.sql import Column

_TYPE = "AVRO"
_KEPT = 64
"""Schemas of columns that a process keeps."""


def from_avro(
    data: Column | str,
    registry: RegistryClient | str,
    subject: str = "",
    *,
    version: int | str = LATEST,
    schema: str = "",
    mode: str = FAILFAST,
) -> Column:
    """
    Decode Avro values in the registry's wire format.

    :param data: a binary column.
    :param registry: or its URL.
    :param subject: whose ``version`` is the schema of the column, such as ``orders-value``.
    :param schema: the schema of the column as text, instead of ``subject``.
    :param mode: ``FAILFAST``: a value that cannot be read ends the query; ``PERMISSIVE``: it becomes null.
    :return: a column with the types of Spark's ``from_avro``: a struct of a record.
    :raise OptionError: the schema is invalid, or has types that columns cannot have.
    :raise RegistryFailed: the registry does not have it, or does not answer.
    """
    client = client_of(registry)
    text = _alone(reading_schema(client, _TYPE, subject, version, schema))
    from pyspark.sql.types import StructType

    result = StructType.fromJson(spark_schema(_in_record(text)))[0].dataType
    return column_function("from_avro", partial(avro_decoder, client, text), result, checked_mode(mode))(data)


def to_avro(
    data: Column | str,
    registry: RegistryClient | str,
    subject: str,
    *,
    version: int | str = LATEST,
    schema: str = "",
    register: bool = False,
) -> Column:
    """
    Encode values as Avro, in the registry's wire format. A field is matched by its name.

    :param data: a column that fits the schema: a struct for a record.
    :param registry: or its URL.
    :param subject: whose ``version`` the values are written with, such as ``orders-value``.
    :param schema: the schema as text, which must be one of the subject's.
    :param register: register ``schema`` first.
    :return: a binary column.
    :raise OptionError: the schema is invalid.
    :raise RegistryFailed: the registry does not have it, refuses it, or does not answer.
    """
    from pyspark.sql.types import BinaryType

    found = writing_schema(client_of(registry), _TYPE, subject, version, schema, register)
    prepared = partial(avro_encoder, found.schema_id, _alone(found))
    return column_function("to_avro", prepared, BinaryType(), WRITING)(data)


@lru_cache(_KEPT)
def avro_decoder(registry: RegistryClient, text: str) -> Convert:
    """This process's decoder for a schema of columns, with the writers' schemas that it has seen."""
    return AvroDecoder(registry, text).decode


@lru_cache(_KEPT)
def avro_encoder(schema_id: int, text: str) -> Convert:
    """This process's encoder for a schema."""
    import fastavro

    parsed = fastavro.parse_schema(json.loads(text))
    check = fit_check(parsed)

    def encode(value: Any) -> bytes:
        out = BytesIO()
        try:
            # Strict: a misspelt field would be left out else.
            fastavro.schemaless_writer(out, parsed, value, strict_allow_default=True)
        except Exception as e:
            # fastavro raises many kinds of exceptions.
            raise Malformed(f"the value does not fit schema {schema_id}: {e!r}") from None
        if problem := check(value):
            raise Malformed(f"the value does not fit schema {schema_id}: {problem.lstrip('.: ')}")
        return frame(schema_id, out.getvalue())

    return encode


@define(eq=False)
class AvroDecoder:
    """
    Decodes values.

    :param registry: is asked once for each writer's schema, also for one that it lacks.
    :param text: the schema of the columns.
    """

    registry: RegistryClient
    text: str
    _columns: Any = field(init=False)
    _types: dict[str, Any] = field(init=False)
    _writers: WriterSchemas = field(factory=WriterSchemas, init=False)

    def __attrs_post_init__(self) -> None:
        import fastavro

        self._columns = fastavro.parse_schema(known_logical_types(json.loads(self.text)))
        self._types = spark_schema(_in_record(self.text))

    def decode(self, data: bytes) -> Any:
        """
        Decode a value.

        :raise Malformed: it cannot be read.
        :raise RegistryFailed: the registry does not answer.
        """
        import fastavro

        try:
            schema_id, payload = unframe("", data)
        except SerializationError:
            raise Malformed(f"{data[:8]!r} does not begin with a byte 0 and a schema's id in four bytes") from None
        writer = self._writer(schema_id)
        source = BytesIO(payload)
        try:
            value = fastavro.schemaless_reader(source, writer, self._columns)
        except Exception as e:
            raise Malformed(f"no value of schema {schema_id}, or it does not fit the columns: {e!r}") from None
        if left := len(payload) - source.tell():
            raise Malformed(f"{left} bytes follow a value of schema {schema_id}")
        return value

    def _writer(self, schema_id: int) -> Any:
        return self._writers.get(schema_id, lambda: self._requested(schema_id))

    def _requested(self, schema_id: int) -> Any:
        import fastavro

        try:
            text = _alone(self.registry.find(schema_id, _TYPE))
            if problem := type_conflict(_in_record(text), self._types):
                raise Malformed(f"schema {schema_id}: {problem}")
        except (OptionError, NoSuchSchema) as e:
            raise Malformed(f"schema {schema_id}: {e}") from None
        return fastavro.parse_schema(known_logical_types(json.loads(text)))


def _alone(found: RegisteredSchema) -> str:
    """The text of a schema that refers to no other one."""
    if found.references:
        raise OptionError(
            f"Avro schema {found.schema_id} refers to {found.references[0].name!r} of another subject: register it "
            "with its types in it"
        )
    return found.text


def _in_record(text: str) -> dict[str, Any]:
    """A record with a schema's value as its only field, since types of columns are those of a record's fields."""
    try:
        import fastavro
    except ImportError:
        raise Missing(f"Avro needs fastavro, which is not installed: {install_hint('avro')}") from None
    try:
        schema = json.loads(text)
        fastavro.parse_schema(schema)
    except Exception as e:
        raise OptionError(f"not an Avro schema: {e!r:.300}") from None
    return {"type": "record", "name": "_column", "fields": [{"name": "value", "type": schema}]}
