"""
Serializers for JSON with a JSON Schema in the registry, in Confluent's wire format. Needs the extra ``jsonschema``.

.. code-block:: python

    registry = SchemaRegistry(reactor, "http://127.0.0.1:8081")
    orders = JsonSchemaSerializer(registry, {"title": "Order", "type": "object", "required": ["id"]})
    await producer.send("orders", await orders.serialize("orders", {"id": 42}))

    reading = JsonSchemaDeserializer(registry)
    order = await reading.deserialize(record.topic, record.value)

A value is JSON behind the schema's id. Schemas are looked up and prepared as those of :mod:`logbus.client.schema.avro`.
"""

from __future__ import annotations

import json
from typing import Any

from logbus.client.schema.schema_registry import SchemaRegistry
from logbus.client.schema.schema_serializer import JsonSchema, SchemaDeserializer, SchemaSerializer, Subject, topic_name
from logbus.client.serializers import JsonDeserializer, JsonSerializer, SerializationError
from logbus.errors import ConfigError
from logbus.extras import install_hint

try:
    import jsonschema
    import referencing
except ImportError as e:
    raise ImportError(f"JSON Schema needs jsonschema, which is not installed: {install_hint('jsonschema')}") from e


class JsonSchemaSerializer(SchemaSerializer):
    """
    Encodes values that fit a schema.

    :param schema: of any draft, by its ``$schema``; default: the newest. Its ``title`` is its name.
    :param is_key: whether it is for keys: equal objects get equal bytes then.
    :param subject: the subject name strategy.
    :param register: register the schema; if not, it must be registered already.
    :param validate: refuse values that do not fit the schema.
    :raise ConfigError: it is not a JSON Schema.
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
        text = schema if isinstance(schema, str) else json.dumps(schema)
        parsed = _parsed(text, "the schema")
        name = str(parsed.get("title", "")) if isinstance(parsed, dict) else ""
        super().__init__(registry, text, name, "JSON", is_key=is_key, subject=subject, register=register)
        self._validator = _validator(parsed, "the schema") if validate else None
        self._json = JsonSerializer(sort_keys=is_key)

    def _write(self, topic: str, value: Any) -> bytes:
        if self._validator is not None:
            _check(topic, self._validator, value, "the value does not fit the schema")
        written = self._json(topic, value)
        assert written is not None
        return written


class JsonSchemaDeserializer(SchemaDeserializer[Any]):
    """
    Decodes values of any JSON Schema in the registry.

    :param schema: what values have to fit; default: the schema that they were written with.
    :param validate: refuse values that do not fit it. Without, or with a schema given, the registry is not asked.
    :raise ConfigError: it is not a JSON Schema.
    """

    def __init__(self, registry: SchemaRegistry, schema: JsonSchema | None = None, *, validate: bool = True) -> None:
        super().__init__(registry)
        self._reader: Any = None
        if schema is not None:
            text = schema if isinstance(schema, str) else json.dumps(schema)
            self._reader = self._parse(text, "the reader's schema")
        self._validates = validate
        self._json = JsonDeserializer()

    def _writer(self, schema_id: int) -> Any:
        if not self._validates:
            return ()
        return self._reader if self._reader is not None else super()._writer(schema_id)

    def _parse(self, text: str, what: str) -> Any:
        return validator_of(text, what)

    def _read(self, topic: str, payload: bytes, writer: Any, what: str) -> Any:
        value = self._json(topic, payload)
        if self._validates:
            of = "the reader's schema" if self._reader is not None else what
            _check(topic, writer, value, f"not a value of {of}")
        return value


def validator_of(text: str, what: str) -> Any:
    """
    Return jsonschema's validator of a schema; what a ``$ref`` names is never fetched.

    :param what: the schema, for the message.
    :raise ConfigError: it is not a JSON Schema.
    """
    return _validator(_parsed(text, what), what)


def best_error(validator: Any, value: Any) -> Any:
    """
    Return jsonschema's error that says most about a value; None: it fits.

    :raise SerializationError: the schema cannot be applied.
    """
    try:
        return jsonschema.exceptions.best_match(validator.iter_errors(value))
    except Exception as e:
        # A reference that leads nowhere, an expression of another language, values nested too deeply.
        raise SerializationError(f"the schema cannot be applied: {e!s:.300}") from None


def _parsed(text: str, what: str) -> Any:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise ConfigError(f"{what} is not JSON: {e!s:.300}") from None
    if not isinstance(parsed, (dict, bool)):
        raise ConfigError(f"{what} is not a JSON Schema: an object, true or false is")
    return parsed


def _validator(parsed: Any, what: str) -> Any:
    try:
        kind = jsonschema.validators.validator_for(parsed, default=jsonschema.Draft202012Validator)
        kind.check_schema(parsed)
    except jsonschema.SchemaError as e:
        raise ConfigError(f"{what} is not a JSON Schema: {e.json_path}: {e.message:.300}") from None
    except (ValueError, RecursionError) as e:
        raise ConfigError(f"{what} is not a JSON Schema: {e!s:.300}") from None
    # A registry of its own, since the default one would fetch what a "$ref" names from the network.
    return kind(parsed, registry=referencing.Registry())


def _check(topic: str, validator: Any, value: Any, problem: str) -> None:
    try:
        found = best_error(validator, value)
    except SerializationError as e:
        raise SerializationError(f"topic {topic!r}: {e}") from None
    if found is not None:
        raise SerializationError(f"topic {topic!r}: {problem}: {found.json_path}: {found.message:.300}")
