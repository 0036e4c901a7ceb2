"""
Decodes Avro values in Confluent's wire format: a byte 0, the id of the writer's schema, the event.

Each event is read with its writer's schema from the registry, and resolved to the schema of the table's columns (Avro
specification, "Schema Resolution"): fields that only the writer has are left out, those that only the columns have get
their defaults.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # Spark reads a function's types from the module's names.
from attrs import define, evolve, field, frozen

from logbus.client.schema.schema_frame import unframe
from logbus.client.serializers import SerializationError
from logbus.pipeline.arrow_types import arrow_type
from logbus.pipeline.blocking.schema_registry import NoSuchSchema, RegistryClient
from logbus.pipeline.errors import OptionError
from logbus.pipeline.functions.column_function import Malformed
from logbus.pipeline.functions.writer_schemas import WriterSchemas
from logbus.pipeline.payloads.avro_types import known_logical_types, spark_schema, type_conflict
from logbus.pipeline.payloads.payload import (
    EVENT,
    REASON,
    TIME,
    check_names,
    event_columns,
    instant,
    quoted_path,
    table_fields,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LONGEST_REASON = 300


@frozen(kw_only=True)
class AvroPayload:
    """
    The payload of Avro values.

    :ivar registry: has the writers' schemas.
    :ivar schema: of the columns, as text; "": the latest version of ``subject``.
    :ivar subject: by convention ``<topic>-value``.
    :ivar event_time: the field with the event's time; "": the record's time.
    :ivar into: the name of one column for the whole event; "": a column for each field.
    :ivar metadata: how rows have the record's own columns: see :func:`.metadata_struct`.
    :raise OptionError: the schema is invalid, or has types that columns cannot have.
    :raise RegistryFailed: the registry does not have it, or does not answer.
    """

    registry: RegistryClient
    schema: str = ""
    subject: str = ""
    event_time: str = ""
    into: str = ""
    metadata: str = ""
    reason = REASON
    time = TIME
    columns_schema: dict[str, Any] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if bool(self.schema) == bool(self.subject):
            raise OptionError("Avro needs either the schema of the columns, or the subject whose newest version it is")
        text = self.schema or self.registry.latest(self.subject)
        object.__setattr__(self, "schema", text)
        object.__setattr__(self, "columns_schema", spark_schema(_decoded(text)))
        check_names(self.columns_schema, self.event_time, self.into, self.metadata)

    @property
    def own_columns(self) -> Sequence[str]:
        """See :class:`.Payload`."""
        return [self.into] if self.into else [each["name"] for each in self.columns_schema["fields"]]

    def table_fields(self, headers: bool) -> Sequence[Mapping[str, Any]]:
        """See :class:`.Payload`."""
        return table_fields(self.columns_schema["fields"], self.into, self.metadata, headers)

    def check(self) -> None:
        """Does nothing: the schema was checked when this was created."""

    def parsed(self, rows: DataFrame) -> DataFrame:
        """See :class:`.Payload`."""
        from pyspark.sql import functions as f
        from pyspark.sql.pandas.functions import arrow_udf
        from pyspark.sql.types import StringType, StructType

        event = StructType.fromJson(self.columns_schema)
        answer = StructType().add("event", event).add("reason", StringType())
        decode: Any = arrow_udf(_decoder(self.registry, self.schema, answer), answer)  # type: ignore[call-overload]
        rows = rows.withColumn("_read", decode(f.col("topic"), f.col("value"))).withColumn(EVENT, f.col("_read.event"))
        at = f.col(f"{EVENT}.{quoted_path(self.event_time)}") if self.event_time else f.col("timestamp")
        rows = rows.withColumn(TIME, instant(at, self.columns_schema, self.event_time))
        no_time = f.when(f.col(TIME).isNull(), f"there is no time in {self.event_time!r}")
        return rows.withColumn(REASON, f.coalesce(f.col("_read.reason"), no_time)).drop("_read")

    def columns(self, rows: DataFrame) -> list[Any]:
        """See :class:`.Payload`."""
        return event_columns(rows, [each["name"] for each in self.columns_schema["fields"]], self.into, self.metadata)

    def with_metadata(self, metadata: str) -> AvroPayload:
        """See :class:`.Payload`."""
        return evolve(self, subject="", metadata=metadata)


def _decoded(text: str) -> Any:
    import fastavro

    try:
        schema = json.loads(text)
        fastavro.parse_schema(schema)
    except Exception as e:
        # fastavro raises all kinds of exceptions.
        raise OptionError(f"not an Avro schema: {e!r:.300}") from None
    return schema


def _decoder(registry: RegistryClient, reader: str, answer: Any) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """A function for Spark's workers that decodes values to events, or to the reason of the failure."""

    def decode(topics: pa.Array, values: pa.Array) -> pa.Array:
        read = reader_of(registry, reader)
        found = [read(topic, value) for topic, value in zip(topics.to_pylist(), values.to_pylist(), strict=True)]
        return as_arrow(found, arrow_type(answer))

    return decode


def as_arrow(found: list[dict[str, Any]], kind: pa.DataType) -> pa.Array:
    """
    Events and reasons as an Arrow array; an event that does not fit its type is replaced by a reason.

    An Avro library accepts an int of more than 32 bits, or a decimal with too many digits; Arrow does not.
    """
    try:
        return pa.array(found, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.array([_fitting(each, kind) for each in found], kind)


def _fitting(read: dict[str, Any], kind: pa.DataType) -> dict[str, Any]:
    try:
        pa.array([read], kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as e:
        return _unreadable_event(f"the value does not fit its column: {e}")
    return read


def _unreadable_event(reason: str) -> dict[str, Any]:
    return {"event": None, "reason": reason[:_LONGEST_REASON]}


_readers: dict[tuple[RegistryClient, str], Callable[[str, bytes | None], dict[str, Any]]] = {}
"""By registry and the columns' schema; kept since a worker runs many tasks."""


def reader_of(registry: RegistryClient, reader: str) -> Callable[[str, bytes | None], dict[str, Any]]:
    """This process's reading function for a schema of columns, with its cached writers' schemas."""
    known = _readers.get((registry, reader))
    if known is None:
        _readers.clear()
        known = _readers[registry, reader] = AvroValueReader(registry, reader).read
    return known


@define(eq=False)
class AvroValueReader:
    """
    Decodes values.

    :param registry: is asked once for each writer's schema.
    :param schema: of the columns, as text.
    """

    registry: RegistryClient
    schema: str
    _columns: Any = field(init=False)
    _types: dict[str, Any] = field(init=False)
    _writers: WriterSchemas = field(factory=WriterSchemas)

    def __attrs_post_init__(self) -> None:
        import fastavro

        decoded = json.loads(self.schema)
        self._types = spark_schema(decoded)
        self._columns = fastavro.parse_schema(known_logical_types(decoded))

    def read(self, topic: str, value: bytes | None) -> dict[str, Any]:
        """
        Decode a value to an event, or to the reason of the failure.

        :raise RegistryFailed: the registry does not answer, so that the value cannot be judged.
        """
        import fastavro

        if value is None:
            return _unreadable_event("there is no value")
        try:
            schema_id, payload = unframe(topic, value)
            writer = self._writers.get(schema_id, lambda: self._requested(schema_id))
        except (SerializationError, Malformed) as e:
            return _unreadable_event(str(e))
        source = BytesIO(payload)
        try:
            event = fastavro.schemaless_reader(source, writer, self._columns)
        except Exception as e:
            # fastavro raises many kinds of exceptions.
            return _unreadable_event(
                f"no value of schema {schema_id}, or it does not fit the columns: {type(e).__name__}: {e}"
            )
        if left := len(payload) - source.tell():
            return _unreadable_event(f"{left} bytes follow a value of schema {schema_id}")
        return {"event": event, "reason": None}

    def _requested(self, schema_id: int) -> Any:
        """
        A writer's schema.

        :raise Malformed: there is none, or its values cannot become the columns.
        """
        import fastavro

        try:
            text = self.registry.schema(schema_id)
        except NoSuchSchema as e:
            raise Malformed(f"schema {schema_id}: {e}") from None
        try:
            decoded = json.loads(text)
            parsed = fastavro.parse_schema(known_logical_types(decoded))
            problem = type_conflict(decoded, self._types)
        except Exception as e:
            # fastavro raises all kinds of exceptions; one that is not remembered has each record ask again.
            raise Malformed(f"schema {schema_id}: not an Avro schema, or it refers to others: {e!r:.200}") from None
        if problem:
            raise Malformed(f"schema {schema_id}: {problem}")
        return parsed
