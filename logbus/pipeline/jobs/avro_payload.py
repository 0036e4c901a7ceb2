"""
Values that are Avro, framed as Confluent's serializers do: a byte 0, the id of the writer's schema, the event.

Each event is read with the schema that it was written with, which the registry has, and resolved to the schema that the
table's columns are made of (the Avro specification, "Schema Resolution").
"""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # Spark reads a function's types from the module's names.
from attrs import field, frozen

from logbus.client.schema_frame import unframe
from logbus.pipeline.errors import OptionError
from logbus.pipeline.jobs.avro_types import spark_schema
from logbus.pipeline.jobs.payloads import EVENT, METADATA, REASON, TIME, check_names, event_columns, quoted
from logbus.pipeline.jobs.registry import NoSuchSchema, Registry, RegistryFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LONGEST_REASON = 300


@frozen(kw_only=True)
class AvroPayload:
    """
    :ivar registry: where the writers' schemas are.
    :ivar schema: of the columns, as text; "" takes the newest version of ``subject``.
    :ivar subject: whose newest version is taken; for a topic it is by custom ``<topic>-value``.
    :ivar event_time: the field that has the event's time; "" takes the record's.
    :ivar into: the name of one column for the whole event; "" has a column for each field.
    :raise OptionError: the schema is none, or one that no columns can have.
    :raise RegistryFailed: the registry does not have it, or nobody answers.
    """

    registry: Registry
    schema: str = ""
    subject: str = ""
    event_time: str = ""
    into: str = ""
    reason = REASON
    time = TIME
    raw = (*METADATA, "value")
    columns_schema: dict[str, Any] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if bool(self.schema) == bool(self.subject):
            raise OptionError("Avro needs either the schema of the columns, or the subject whose newest version it is")
        text = self.schema or self.registry.latest(self.subject)
        object.__setattr__(self, "schema", text)
        object.__setattr__(self, "columns_schema", spark_schema(_decoded(text)))
        check_names(self.columns_schema, self.event_time, self.into)

    def parsed(self, rows: DataFrame) -> DataFrame:
        """See :class:`.Payload`."""
        from pyspark.sql import functions as f
        from pyspark.sql.pandas.functions import arrow_udf
        from pyspark.sql.types import StringType, StructType

        event = StructType.fromJson(self.columns_schema)
        answer = StructType().add("event", event).add("reason", StringType())
        decode: Any = arrow_udf(_decoder(self.registry, self.schema, answer), answer)  # type: ignore[call-overload]
        rows = rows.withColumn("_read", decode(f.col("topic"), f.col("value"))).withColumn(EVENT, f.col("_read.event"))
        time = f.col(f"{EVENT}.{quoted(self.event_time)}") if self.event_time else f.col("timestamp")
        rows = rows.withColumn(TIME, time.cast("timestamp"))
        no_time = f.when(f.col(TIME).isNull(), f"there is no time in {self.event_time!r}")
        return rows.withColumn(REASON, f.coalesce(f.col("_read.reason"), no_time)).drop("_read")

    def columns(self, rows: DataFrame) -> list[Any]:
        """See :class:`.Payload`."""
        return event_columns([each["name"] for each in self.columns_schema["fields"]], self.into)


def _decoded(text: str) -> Any:
    import fastavro

    try:
        schema = json.loads(text)
        fastavro.parse_schema(schema)
    except Exception as e:
        # fastavro lets through whatever it stumbles over.
        raise OptionError(f"not an Avro schema: {e!r:.300}") from None
    return schema


def _decoder(registry: Registry, reader: str, answer: Any) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """
    What runs in Spark's workers: values to events, or to the reason why not.
    """

    def decode(topics: pa.Array, values: pa.Array) -> pa.Array:
        from pyspark.sql.pandas.types import to_arrow_type

        read = reader_of(registry, reader)
        found = [read(topic, value) for topic, value in zip(topics.to_pylist(), values.to_pylist(), strict=True)]
        return pa.array(found, to_arrow_type(answer, timezone="UTC"))

    return decode


_readers: dict[tuple[Registry, str], Callable[[str, bytes | None], dict[str, Any]]] = {}
"""By registry and the columns' schema: a worker serves many tasks."""


def reader_of(registry: Registry, reader: str) -> Callable[[str, bytes | None], dict[str, Any]]:
    """What makes one value an event or a reason; the process's own, with the schemas it has met."""
    known = _readers.get((registry, reader))
    if known is None:
        _readers.clear()
        known = _readers[registry, reader] = _reader(registry, reader)
    return known


def _reader(registry: Registry, reader: str) -> Callable[[str, bytes | None], dict[str, Any]]:
    import fastavro

    columns = fastavro.parse_schema(json.loads(reader))
    writers: dict[int, Any] = {}
    missing: dict[int, str] = {}

    def writer_of(schema_id: int) -> Any:
        if schema_id not in writers:
            writers[schema_id] = fastavro.parse_schema(json.loads(registry.schema(schema_id)))
        return writers[schema_id]

    def read(topic: str, value: bytes | None) -> dict[str, Any]:
        if value is None:
            return {"event": None, "reason": "there is no value"}
        try:
            schema_id, payload = unframe(topic, value)
            if schema_id in missing:
                return {"event": None, "reason": missing[schema_id]}
            try:
                writer = writer_of(schema_id)
            except NoSuchSchema as e:
                missing[schema_id] = f"schema {schema_id}: {e}"[:_LONGEST_REASON]
                return {"event": None, "reason": missing[schema_id]}
            source = BytesIO(payload)
            event = fastavro.schemaless_reader(source, writer, columns)
            left = len(payload) - source.tell()
            if left:
                return {"event": None, "reason": f"{left} bytes follow a value of schema {schema_id}"}
            return {"event": event, "reason": None}
        except (OSError, RegistryFailed):
            raise  # The value is not to blame.
        except Exception as e:
            return {"event": None, "reason": f"{type(e).__name__}: {e}"[:_LONGEST_REASON]}

    return read
