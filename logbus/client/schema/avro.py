"""
Serializers for Avro with a schema registry, in Confluent's wire format. Needs the extra ``avro``.

.. code-block:: python

    registry = SchemaRegistry(reactor, "http://127.0.0.1:8081")
    orders = AvroSerializer(registry, ORDER)
    await producer.send("orders", await orders.serialize("orders", {"id": 42}))

    reading = AvroDeserializer(registry)
    order = await reading.deserialize(record.topic, record.value)

The registry is asked once for each schema. A producer's ``value_serializer`` cannot wait for it: await
:meth:`AvroSerializer.prepare` first, then pass the serializer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from logbus.client.schema.schema_registry import SchemaRegistry
from logbus.client.schema.schema_serializer import (
    SchemaDeserializer,
    SchemaSerializer,
    Subject,
    record_name,
    topic_name,
    topic_record_name,
)
from logbus.client.serializers import SerializationError
from logbus.errors import ConfigError
from logbus.extras import install_hint

try:
    import fastavro
except ImportError as e:
    raise ImportError(f"Avro needs fastavro, which is not installed: {install_hint('avro')}") from e

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "PlainAvro",
    "Subject",
    "record_name",
    "topic_name",
    "topic_record_name",
]


class AvroSerializer(SchemaSerializer):
    """
    Encodes values of one schema.

    :param schema: as JSON text, or parsed.
    :param is_key: whether it is for keys.
    :param subject: the subject name strategy.
    :param register: register the schema; if not, it must be registered already.
    :raise ConfigError: it is not an Avro schema.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | Mapping[str, Any] | list[Any],
        *,
        is_key: bool = False,
        subject: Subject = topic_name,
        register: bool = True,
    ) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self._parsed: Any = _parsed(text, "the schema")
        name = str(self._parsed.get("name", "")) if isinstance(self._parsed, dict) else ""
        super().__init__(registry, text, name, "AVRO", is_key=is_key, subject=subject, register=register)

    def _write(self, topic: str, value: Any) -> bytes:
        return _written(topic, value, self._parsed)


class AvroDeserializer(SchemaDeserializer[Any]):
    """
    Decodes values of any schema in the registry.

    :param schema: the reader's schema: other fields are dropped, missing ones get defaults (Avro schema resolution);
        default: the writer's schema.
    :raise ConfigError: it is not an Avro schema.
    """

    def __init__(self, registry: SchemaRegistry, schema: str | Mapping[str, Any] | list[Any] | None = None) -> None:
        super().__init__(registry)
        self._reader: Any = None
        if schema is not None:
            self._reader = _parsed(schema if isinstance(schema, str) else json.dumps(schema), "the reader's schema")

    def _parse(self, text: str, what: str) -> Any:
        return _parsed(text, what)

    def _read(self, topic: str, payload: bytes, writer: Any, what: str) -> Any:
        return _read(topic, payload, writer, self._reader, what)


class PlainAvro:
    """
    Values of one schema known to both sides, without a registry and without framing.

    :param schema: as JSON text, or parsed.
    :raise ConfigError: it is not an Avro schema.
    """

    def __init__(self, schema: str | Mapping[str, Any] | list[Any]) -> None:
        self._parsed = _parsed(schema if isinstance(schema, str) else json.dumps(schema), "the schema")

    def write(self, topic: str, value: Any) -> bytes:
        """
        Encode a value.

        :raise SerializationError: it does not fit the schema.
        """
        return _written(topic, value, self._parsed)

    def read(self, topic: str, data: bytes) -> Any:
        """
        Decode a value.

        :raise SerializationError: the bytes do not fit the schema.
        """
        return _read(topic, data, self._parsed, None, "the schema")


def _written(topic: str, value: Any, schema: Any) -> bytes:
    out = BytesIO()
    try:
        fastavro.schemaless_writer(out, schema, value)
    except Exception as e:
        # fastavro raises many kinds of exceptions.
        raise SerializationError(f"topic {topic!r}: the value does not fit the schema: {e!r:.300}") from e
    return out.getvalue()


def _read(topic: str, data: bytes, writer: Any, reader: Any, what: str) -> Any:
    source = BytesIO(data)
    try:
        value = fastavro.schemaless_reader(source, writer, reader)
    except Exception as e:
        raise SerializationError(f"topic {topic!r}: not a value of {what}: {e!r:.300}") from e
    left = len(data) - source.tell()
    if left:
        raise SerializationError(f"topic {topic!r}: {left} bytes follow a value of {what}")
    return value


def _parsed(text: str, what: str) -> Any:
    try:
        return fastavro.parse_schema(json.loads(text))
    except Exception as e:
        raise ConfigError(f"{what} is not an Avro schema: {e!r:.300}") from None
