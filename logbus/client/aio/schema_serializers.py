"""
Serializers and deserializers for asyncio of values whose schemas are in a registry: Avro, JSON Schema and Protobuf.
They need the extras ``avro``, ``jsonschema`` and ``protobuf``.

.. code-block:: python

    async with SchemaRegistry("http://127.0.0.1:8080/registry") as registry:
        orders = AvroSerializer(registry, ORDER)
        await producer.send("orders", await orders.serialize("orders", {"id": 42}))

        reading = AvroDeserializer(registry)
        order = await reading.deserialize(record.topic, record.value)

A producer's ``value_serializer`` cannot wait for the registry: await :meth:`SchemaSerializer.prepare` first, then pass
the serializer. Protobuf's deserializer waits for nothing, so it is that of :mod:`logbus.client.schema.protobuf`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logbus.client.aio.awaiting import outcome
from logbus.client.aio.schema_registry import SchemaRegistry
from logbus.client.schema.schema_serializer import JsonSchema, Subject, topic_name

if TYPE_CHECKING:
    from logbus.client.schema.schema_serializer import SchemaDeserializer as CoreDeserializer
    from logbus.client.schema.schema_serializer import SchemaSerializer as CoreSerializer


class SchemaSerializer:
    """Encodes values of one schema."""

    _core: CoreSerializer

    async def prepare(self, topic: str) -> int:
        """
        Look up or register the schema for a topic.

        :returns: the schema's id.
        :raises RegistryError: the schema is refused, or does not exist.
        :raises RegistryUnreachable: no registry answered.
        """
        return await outcome(self._core.prepare(topic))

    async def serialize(self, topic: str, value: Any) -> bytes | None:
        """
        Encode a value, looking up the schema's id if needed.

        :raises SerializationError: the value does not fit the schema; and the errors of :meth:`prepare`.
        """
        return await outcome(self._core.serialize(topic, value))

    def __call__(self, topic: str, value: Any) -> bytes | None:
        """
        Encode a value, without waiting.

        :raises SerializationError: the value does not fit the schema, or the topic was not prepared.
        """
        return self._core(topic, value)


class SchemaDeserializer:
    """Decodes values of any schema in the registry."""

    _core: CoreDeserializer[Any]

    async def deserialize(self, topic: str, data: bytes | None) -> Any:
        """
        Decode a value, looking up its schema if needed.

        :raises SerializationError: the bytes are not framed, or do not fit their schema.
        :raises RegistryError: there is no such schema.
        :raises RegistryUnreachable: no registry answered.
        """
        return await outcome(self._core.deserialize(topic, data))

    def __call__(self, topic: str, data: bytes | None) -> Any:
        """
        Decode a value, without waiting.

        :raises SerializationError: the bytes do not fit their schema, or the schema was not looked up yet.
        """
        return self._core(topic, data)


class AvroSerializer(SchemaSerializer):
    """
    Encodes values of one schema.

    :param schema: as JSON text, or parsed.
    :param is_key: whether it is for keys.
    :param subject: the subject name strategy, of :mod:`logbus.client.schema.schema_serializer`.
    :param register: register the schema; if not, it must be registered already.
    :raises ConfigError: it is not an Avro schema.
    :raises ImportError: fastavro is missing.
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
        from logbus.client.schema import avro

        self._core = avro.AvroSerializer(registry._core, schema, is_key=is_key, subject=subject, register=register)


class AvroDeserializer(SchemaDeserializer):
    """
    Decodes values of any schema in the registry.

    :param schema: the reader's schema: other fields are dropped, missing ones get defaults (Avro schema resolution);
        default: the writer's schema.
    :raises ConfigError: it is not an Avro schema.
    :raises ImportError: fastavro is missing.
    """

    def __init__(self, registry: SchemaRegistry, schema: str | Mapping[str, Any] | list[Any] | None = None) -> None:
        from logbus.client.schema import avro

        self._core = avro.AvroDeserializer(registry._core, schema)


class JsonSchemaSerializer(SchemaSerializer):
    """
    Encodes values that fit a JSON Schema, as JSON.

    :param schema: of any draft, by its ``$schema``; default: the newest. Its ``title`` is its name.
    :param is_key: whether it is for keys: equal objects get equal bytes then.
    :param subject: the subject name strategy, of :mod:`logbus.client.schema.schema_serializer`.
    :param register: register the schema; if not, it must be registered already.
    :param validate: refuse values that do not fit the schema.
    :raises ConfigError: it is not a JSON Schema.
    :raises ImportError: jsonschema is missing.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: JsonSchema,
        *,
        is_key: bool = False,
        subject: Subject = topic_name,
        register: bool = True,
        validate: bool = True,
    ) -> None:
        from logbus.client.schema import json_schema

        self._core = json_schema.JsonSchemaSerializer(
            registry._core,
            schema,
            is_key=is_key,
            subject=subject,
            register=register,
            validate=validate,
        )


class JsonSchemaDeserializer(SchemaDeserializer):
    """
    Decodes values of any JSON Schema in the registry.

    :param schema: what values have to fit; default: the schema that they were written with.
    :param validate: refuse values that do not fit it. Without, or with a schema given, the registry is not asked.
    :raises ConfigError: it is not a JSON Schema.
    :raises ImportError: jsonschema is missing.
    """

    def __init__(self, registry: SchemaRegistry, schema: JsonSchema | None = None, *, validate: bool = True) -> None:
        from logbus.client.schema import json_schema

        self._core = json_schema.JsonSchemaDeserializer(registry._core, schema, validate=validate)


class ProtobufSerializer(SchemaSerializer):
    """
    Encodes messages of one type of Protobuf.

    :param message: a class that ``protoc`` has made.
    :param is_key: whether it is for keys: equal messages get equal bytes then, as far as Protobuf gives that.
    :param subject: the subject name strategy, of :mod:`logbus.client.schema.schema_serializer`.
    :param register: register the schema and those it imports; if not, they must be registered already.
    :raises ConfigError: it is not such a class.
    :raises ImportError: protobuf is missing.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        message: type[Any],
        *,
        is_key: bool = False,
        subject: Subject = topic_name,
        register: bool = True,
    ) -> None:
        from logbus.client.schema import protobuf

        self._core = protobuf.ProtobufSerializer(
            registry._core, message, is_key=is_key, subject=subject, register=register
        )
