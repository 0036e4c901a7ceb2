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
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

from logbus.client.schema.lru_cache import LruCache
from logbus.client.schema.schema_registry import RegistryError, SchemaRegistry, frame, unframe
from logbus.client.serializers import SerializationError
from logbus.coroutines import returns_deferred
from logbus.errors import ConfigError
from logbus.extras import install_hint

try:
    import fastavro
except ImportError as e:
    raise ImportError(f"Avro needs fastavro, which is not installed: {install_hint('avro')}") from e

Subject = Callable[[str, bool, str], str]
"""A subject name strategy: called with the topic, whether the schema is for keys, and its full name."""

_SCHEMAS = 1000


def topic_name(topic: str, is_key: bool, name: str) -> str:
    """
    The default strategy (TopicNameStrategy): a subject for each topic's keys and one for its values: ``orders-value``.
    """
    return f"{topic}-{'key' if is_key else 'value'}"


def record_name(topic: str, is_key: bool, name: str) -> str:
    """RecordNameStrategy: the record's full name, for all topics."""
    return name


def topic_record_name(topic: str, is_key: bool, name: str) -> str:
    """TopicRecordNameStrategy: topic and record name, for several kinds of records in a topic."""
    return f"{topic}-{name}"


class AvroSerializer:
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
        self._text = schema if isinstance(schema, str) else json.dumps(schema)
        self._parsed: Any = _parsed(self._text, "the schema")
        self._name = str(self._parsed.get("name", "")) if isinstance(self._parsed, dict) else ""
        if subject is not topic_name and not self._name:
            raise ConfigError("a schema without a name has the subject of its topic: subject=topic_name")
        self._registry = registry
        self._is_key = is_key
        self._subject = subject
        self._register = register
        # Bounded, since there is a subject for each topic that the application writes to.
        self._ids: LruCache[str, int] = LruCache(_SCHEMAS)

    @returns_deferred
    async def prepare(self, topic: str) -> int:
        """
        Look up or register the schema for a topic.

        :returns: fires with the schema's id.
        :raise RegistryError: (in the Deferred) the schema is refused, or does not exist.
        :raise RegistryUnreachable: no registry answered.
        """
        known = self._ids.get(topic)
        if known is not None:
            return known
        subject = self._subject(topic, self._is_key, self._name)
        if self._register:
            found = await self._registry.register(subject, self._text)
        else:
            found = (await self._registry.lookup(subject, self._text)).id
        return self._ids.put(topic, found)

    @returns_deferred
    async def serialize(self, topic: str, value: Any) -> bytes | None:
        """
        Encode a value, looking up the schema's id if needed.

        :raise SerializationError: (in the Deferred) the value does not fit the schema; and the errors of
            :meth:`prepare`.
        """
        if value is None:
            return None
        await self.prepare(topic)
        return self(topic, value)

    def __call__(self, topic: str, value: Any) -> bytes | None:
        """
        Encode a value, without waiting.

        :raise SerializationError: the value does not fit the schema, or the topic was not prepared.
        """
        if value is None:
            return None
        schema_id = self._ids.get(topic)
        if schema_id is None:
            raise SerializationError(f"topic {topic!r}: the schema's id is not known yet; await prepare({topic!r})")
        return frame(schema_id, _written(topic, value, self._parsed))


class AvroDeserializer:
    """
    Decodes values of any schema in the registry.

    :param schema: the reader's schema: other fields are dropped, missing ones get defaults (Avro schema resolution);
        default: the writer's schema.
    :raise ConfigError: it is not an Avro schema.
    """

    def __init__(self, registry: SchemaRegistry, schema: str | Mapping[str, Any] | list[Any] | None = None) -> None:
        self._registry = registry
        self._reader: Any = None
        if schema is not None:
            self._reader = _parsed(schema if isinstance(schema, str) else json.dumps(schema), "the reader's schema")
        self._writers: LruCache[int, Any] = LruCache(_SCHEMAS)

    @returns_deferred
    async def deserialize(self, topic: str, data: bytes | None) -> Any:
        """
        Decode a value, looking up its schema if needed.

        :raise SerializationError: (in the Deferred) the bytes are not framed, or do not fit their schema.
        :raise RegistryError: there is no such schema.
        :raise RegistryUnreachable: no registry answered.
        """
        if data is None:
            return None
        schema_id, _ = unframe(topic, data)
        if self._writers.get(schema_id) is None:
            text = await self._registry.schema(schema_id)
            try:
                self._writers.put(schema_id, _parsed(text, f"schema {schema_id}"))
            except ConfigError as e:
                raise RegistryError(f"topic {topic!r}: {e}", 200) from None
        return self(topic, data)

    def __call__(self, topic: str, data: bytes | None) -> Any:
        """
        Decode a value, without waiting.

        :raise SerializationError: the bytes do not fit their schema, or the schema was not looked up yet.
        """
        if data is None:
            return None
        schema_id, payload = unframe(topic, data)
        writer = self._writers.get(schema_id)
        if writer is None:
            raise SerializationError(f"topic {topic!r}: schema {schema_id} is not known yet; await deserialize()")
        return _read(topic, payload, writer, self._reader, f"schema {schema_id}")


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
